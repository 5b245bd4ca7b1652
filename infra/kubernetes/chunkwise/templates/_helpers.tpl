{{- define "chunkwise.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "chunkwise.labels" -}}
app.kubernetes.io/name: chunkwise
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "chunkwise.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "chunkwise.account.worker" -}}
{{- .Values.serviceAccount.worker | default (printf "%s-worker" (include "chunkwise.name" .)) -}}
{{- end -}}

{{- define "chunkwise.account.driver" -}}
{{- .Values.serviceAccount.driver | default (printf "%s-driver" (include "chunkwise.name" .)) -}}
{{- end -}}

{{/* The memory of a worker in bytes. */}}
{{- define "chunkwise.worker.memory" -}}
{{- $w := .Values.worker -}}
{{- $given := int64 $w.memory -}}
{{- if and (eq $given 0) (eq (int64 $w.projectedMem) 0) -}}
{{- fail "set worker.projectedMem (projected_mem of the stage in the plan) or worker.memory" -}}
{{- end -}}
{{- if eq $given 0 -}}
{{- add (int64 $w.reservedMem) (mul (int64 $w.threads) (int64 $w.projectedMem)) -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}

{{/* Requests and limits are the same: the pod gets the planned memory, and is the last to be evicted. */}}
{{- define "chunkwise.resources" -}}
{{- $mem := add (int64 .memory) (int64 .root.Values.memoryHeadroom) -}}
requests:
  cpu: {{ .cpu | quote }}
  memory: {{ $mem | quote }}
limits:
  cpu: {{ .cpu | quote }}
  memory: {{ $mem | quote }}
{{- end -}}

{{/* What all pods have in common, beside account and container. */}}
{{- define "chunkwise.pod" -}}
restartPolicy: Never
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.user }}
  runAsGroup: {{ .Values.user }}
  fsGroup: {{ .Values.user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "chunkwise.container" -}}
image: {{ include "chunkwise.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - configMapRef:
      name: {{ include "chunkwise.name" . }}-storage
{{- with .Values.storage.secretName }}
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end -}}

{{- define "chunkwise.podMetadata" -}}
labels: {{- include "chunkwise.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
{{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes of a pod; `pipeline` names a config map with the text of a pipeline. */}}
{{- define "chunkwise.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .root.Values.tmpSize }}
{{- if .pipeline }}
- name: pipeline
  configMap:
    name: {{ .pipeline }}
{{- end }}
{{- with .root.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "chunkwise.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .pipeline }}
- name: pipeline
  mountPath: /pipeline
  readOnly: true
{{- end }}
{{- with .root.Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}
