//! The Indexed Job of an array of workers: part `k` is the pod with the index `k`.

use super::KubernetesOptions;
use crate::executors::batch::Job;
use k8s_openapi::api::batch::v1 as batch;
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapEnvSource, Container, EmptyDirVolumeSource, EnvFromSource, EnvVar, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile, SecretEnvSource,
    SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

/// The label by which the jobs and pods of a run are found; its value is the id of the plan.
pub(super) const RUN: &str = "chunkwise-run";
const STAGE: &str = "chunkwise-stage";
/// The container in which a worker runs.
pub(super) const CONTAINER: &str = "worker";

fn named(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), ..EnvVar::default() }
}

/// The volumes of a pod and where the worker sees them: claims, and room for temporary files, because the pod's own files are read-only.
fn volumes(o: &KubernetesOptions) -> (Vec<Volume>, Vec<VolumeMount>) {
    let tmp = Volume { name: "tmp".into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() };
    let mount = |name: &str, path: &str| VolumeMount { name: name.into(), mount_path: path.into(), ..VolumeMount::default() };
    let mut out = (vec![tmp], vec![mount("tmp", "/tmp")]);
    for (i, (claim, path)) in o.claims.iter().enumerate() {
        let name = format!("claim-{i}");
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), ..PersistentVolumeClaimVolumeSource::default() };
        out.1.push(mount(&name, path));
        out.0.push(Volume { name, persistent_volume_claim: Some(source), ..Volume::default() });
    }
    out
}

fn container(o: &KubernetesOptions, job: &Job<'_>, handle: &str, mounts: Vec<VolumeMount>) -> Container {
    let (worker, size) = job.sizes(o.threads, o.memory);
    let mut args = job.arguments(o.threads);
    // The number of the pod comes as JOB_COMPLETION_INDEX.
    let more = [("--tasks", job.all_tasks()), ("--array-size", job.parts.len().to_string())];
    let more = more.into_iter().chain([("--job", handle.to_string()), ("--allowed-mem", worker.to_string())]);
    args.extend(more.flat_map(|(k, v)| [k.to_string(), v]));
    let memory = || ("memory".to_string(), Quantity(size.to_string()));
    let cpu = ("cpu".to_string(), Quantity(o.cpu.clone().unwrap_or_else(|| o.threads.to_string())));
    let secrets = o.env_secrets.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: name.clone(), ..SecretEnvSource::default() }),
        ..EnvFromSource::default()
    });
    let configs = o.env_configs.iter().map(|name| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource { name: name.clone(), ..ConfigMapEnvSource::default() }),
        ..EnvFromSource::default()
    });
    Container {
        name: CONTAINER.into(),
        image: Some(o.image.clone()),
        args: Some(args),
        env: Some(o.env.iter().map(|(k, v)| named(k, v)).collect()),
        env_from: Some(secrets.chain(configs).collect()),
        // The request is also the limit, so a pod is never evicted for memory that others need.
        resources: Some(ResourceRequirements {
            requests: Some([memory(), cpu].into()),
            limits: Some([memory()].into()),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), ..Capabilities::default() }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// The job, under a name of its own. The cluster tries nothing again, because the scheduler does.
pub(super) fn manifest(o: &KubernetesOptions, job: &Job<'_>, run: &str, handle: &str, name: &str) -> batch::Job {
    let own = [
        ("app.kubernetes.io/name", "chunkwise"),
        ("app.kubernetes.io/component", "worker"),
        ("app.kubernetes.io/managed-by", "chunkwise"),
        (RUN, run),
        (STAGE, &job.stage.to_string()),
    ];
    let mut labels: BTreeMap<String, String> = o.labels.clone();
    labels.extend(own.map(|(k, v)| (k.to_string(), v.to_string())));
    let n = i32::try_from(job.parts.len()).unwrap_or(i32::MAX);
    let (volumes, mounts) = volumes(o);
    let pod = PodSpec {
        restart_policy: Some("Never".into()),
        service_account_name: o.service_account.clone(),
        // A worker does not talk to the cluster. Identities of a cloud have tokens of their own.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        node_selector: Some(o.node_selector.clone()).filter(|s| !s.is_empty()),
        tolerations: Some(o.tolerations.clone()).filter(|t| !t.is_empty()),
        image_pull_secrets: Some(o.pull_secrets.iter().map(|s| LocalObjectReference { name: s.clone() }).collect()),
        priority_class_name: o.priority_class.clone(),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(o.user != 0),
            run_as_user: Some(o.user),
            run_as_group: Some(o.user),
            fs_group: Some(o.user),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(o, job, handle, mounts)],
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    batch::Job {
        metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels.clone()), ..ObjectMeta::default() },
        spec: Some(batch::JobSpec {
            completion_mode: Some("Indexed".into()),
            completions: Some(n),
            parallelism: Some(o.parallel.and_then(|p| i32::try_from(p).ok()).map_or(n, |p| p.min(n))),
            // A failing part does not affect the others.
            backoff_limit_per_index: Some(0),
            ttl_seconds_after_finished: Some(o.ttl),
            template: PodTemplateSpec { metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }), spec: Some(pod) },
            ..batch::JobSpec::default()
        }),
        status: None,
    }
}
