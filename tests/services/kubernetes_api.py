"""A small Kubernetes: the API of Jobs and Pods over HTTP, and what controllers, scheduler and kubelet do about them.

Requests are checked as an API server checks them: every object against the published schema, strictly, and the rules about Jobs that no
schema holds. Answers have the shapes of the API. Each index of a Job is a real process in a memory group, so that what comes of a signal or
of too much memory is what the kernel makes of it. Names follow https://kubernetes.io/docs/reference/kubernetes-api/.
"""

import copy
import datetime
import json
import re
import uuid

import kubernetes_validate

from .api import Api, Refused
from .containers import Container

VERSION = "1.33"
LABEL = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")
KEY = re.compile(r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
UNIT = {None: 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
INDEX, JOB = "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name"
PATH = re.compile(r"^/(?:api/v1|apis/batch/v1)/namespaces/([^/]+)/(jobs|pods)(?:/([^/]+))?$")


def now():
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def quantity(text):
    found = QUANTITY.fullmatch(str(text))
    if not found:
        raise Refused(422, "Invalid", f"'{text}' is no quantity")
    return float(found[1]) * UNIT[found[2]]


def ranges(numbers):
    """`0-2,5`, as Jobs write indexes."""
    out = []
    for n in sorted(numbers):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def shown(obj):
    """An object without what only this server knows of it."""
    return {k: v for k, v in obj.items() if not k.startswith("_")}


def selects(selector, labels):
    return all(labels.get(k.strip()) == v.strip() for k, _, v in (part.partition("=") for part in selector.split(",") if part))


def field_selects(selector, pod):
    for part in (p for p in selector.split(",") if p):
        key, differs, value = part.partition("!=") if "!=" in part else part.partition("=")
        if key not in ("status.phase", "metadata.name"):
            raise Refused(400, "BadRequest", f"field label not supported: {key}")
        have = pod["status"]["phase"] if key == "status.phase" else pod["metadata"]["name"]
        if (have == value) == (differs == "!="):
            return False
    return True


class KubernetesApi(Api):
    """`images` says what a container of an image runs; other images cannot be pulled. `secrets` and `configs` hold environment."""

    def __init__(self, images, node_memory=4 << 30, most_pods=4, token=None):
        super().__init__()
        self.images, self.node_memory, self.most_pods, self.token = images, node_memory, most_pods, token
        self.namespace, self.secrets, self.configs = "default", {}, {}
        # What the kernel holds containers to, instead of their limit.
        self.memory = None
        # The name of a pod whose process does nothing; `True`: of the next one.
        self.held = None
        self.forbidden, self.used, self.created = set(), set(), []
        self.jobs, self.pods, self.containers, self.version, self.expire = {}, {}, {}, 1, 0

    # HTTP

    def refusal(self, e):
        status = {
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": e.message, "reason": e.reason, "code": e.status,
        }  # fmt: skip
        return e.status, status, {}

    def handle(self, method, path, query, headers, body):
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        found = PATH.fullmatch(path)
        if not found:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, resource, name = found.groups()
        verb = {"GET": "get" if name else "list", "POST": "create", "DELETE": "delete"}.get(method)
        if verb is None or (method == "DELETE" and not name):
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        self.used.add((verb, resource))
        if (verb, resource) in self.forbidden:
            who = f'User "test" cannot {verb} resource "{resource}" in API group "{"batch" if resource == "jobs" else ""}" in the namespace "{namespace}"'
            raise Refused(403, "Forbidden", f"{resource} is forbidden: {who}")
        store = self.jobs if resource == "jobs" else self.pods
        if verb == "create":
            return 201, shown(self._create(namespace, resource, body)), {}
        if verb == "list":
            return 200, self._list(namespace, resource, store, query), {}
        if namespace != self.namespace or name not in store:
            raise Refused(404, "NotFound", f'{resource} "{name}" not found')
        if verb == "delete":
            options = json.loads(body or b"{}") | query
            return 200, shown(self._delete(resource, store[name], options)), {}
        return 200, shown(store[name]), {}

    def _list(self, namespace, resource, store, query):
        kind = {"jobs": ("batch/v1", "JobList"), "pods": ("v1", "PodList")}[resource]
        found = [o for o in store.values() if namespace == self.namespace and selects(query.get("labelSelector", ""), o["metadata"]["labels"])]
        if resource == "pods":
            found = [p for p in found if field_selects(query.get("fieldSelector", ""), p)]
        elif query.get("fieldSelector"):
            raise Refused(400, "BadRequest", "field label not supported")
        found.sort(key=lambda o: o["metadata"]["name"])
        if after := query.get("continue"):
            if self.expire:
                self.expire -= 1
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            found = [o for o in found if o["metadata"]["name"] > after]
        limit = min(int(query.get("limit") or 500), self.page)
        meta = {"resourceVersion": str(self.version)}
        if len(found) > limit:
            meta |= {"continue": found[limit - 1]["metadata"]["name"], "remainingItemCount": len(found) - limit}
        return {"apiVersion": kind[0], "kind": kind[1], "metadata": meta, "items": [shown(o) for o in found[:limit]]}

    page = 500

    # Jobs

    def _create(self, namespace, resource, body):
        if resource != "jobs":
            raise Refused(403, "Forbidden", "pods are made by jobs here")
        job = json.loads(body)
        self.check(job)
        if namespace != self.namespace:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        name = job["metadata"]["name"]
        if name in self.jobs:
            raise Refused(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
        self.created.append(copy.deepcopy(job))
        self.version += 1
        job["metadata"] |= {
            "uid": str(uuid.uuid4()), "namespace": namespace, "resourceVersion": str(self.version), "creationTimestamp": now(), "generation": 1,
        }  # fmt: skip
        job["status"] = {"startTime": now(), "active": 0, "ready": 0, "succeeded": 0, "failed": 0}
        self.jobs[name] = job
        return job

    def check(self, job):
        """What an API server refuses."""
        try:
            kubernetes_validate.validate(job, VERSION, strict=True)
        except kubernetes_validate.ValidationError as e:
            raise Refused(422, "Invalid", f"Job is invalid: {'.'.join(map(str, e.path))}: {e.message}") from e

        def invalid(where, why):
            raise Refused(422, "Invalid", f"Job is invalid: {where}: {why}")

        spec, template = job["spec"], job["spec"]["template"]
        pod = template["spec"]
        if (job["apiVersion"], job["kind"]) != ("batch/v1", "Job"):
            raise Refused(400, "BadRequest", "the object does not match the resource")
        # The names of pods have the name of the job and the index, and are labels.
        if not NAME.fullmatch(job["metadata"].get("name", "")) or len(f"{job['metadata']['name']}-{spec.get('completions', 1) - 1}") > 63:
            invalid("metadata.name", "must be a label with room for the index")
        for labels in (job["metadata"].get("labels", {}), template["metadata"].get("labels", {}), pod.get("nodeSelector", {})):
            for key, value in labels.items():
                if not KEY.fullmatch(key) or not LABEL.fullmatch(value):
                    invalid("labels", f"{key}={value}")
        if spec.get("completionMode") != "Indexed" or not 1 <= spec.get("completions", 0) <= 100_000:
            invalid("spec.completions", "is required for Indexed jobs")
        if not 0 <= spec.get("parallelism", 1) <= 100_000 or spec.get("backoffLimitPerIndex", 0) < 0 or spec.get("ttlSecondsAfterFinished", 0) < 0:
            invalid("spec", "a number is out of range")
        if pod.get("restartPolicy") != "Never" and (spec.get("backoffLimitPerIndex") is not None or pod.get("restartPolicy") != "OnFailure"):
            invalid("spec.template.spec.restartPolicy", "must be Never")
        volumes = {v["name"] for v in pod.get("volumes", [])}
        for c in pod["containers"]:
            for mount in c.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    invalid("volumeMounts", f"not found: {mount['name']}")
            resources = c.get("resources", {})
            for name, limit in resources.get("limits", {}).items():
                if quantity(resources.get("requests", {}).get(name, limit)) > quantity(limit):
                    invalid("resources.requests", "must be less than or equal to the limit")
            for variable in c.get("env", []):
                if not re.fullmatch(r"[ -<>-~]+", variable["name"]):
                    invalid("env.name", variable["name"])
        if pod.get("securityContext", {}).get("runAsNonRoot") and pod["securityContext"].get("runAsUser") == 0:
            invalid("securityContext", "runAsUser 0 is root")

    def _delete(self, resource, obj, options):
        policy = options.get("propagationPolicy", "Background")
        obj["metadata"].setdefault("deletionTimestamp", now())
        grace = options.get("gracePeriodSeconds")
        if resource == "pods":
            self._end(obj, grace)
        else:
            for pod in self._of(obj):
                self._end(pod, grace)
            if policy == "Foreground":
                obj["metadata"]["finalizers"] = ["foregroundDeletion"]
            else:
                del self.jobs[obj["metadata"]["name"]]
        return obj

    def _of(self, job):
        name = job["metadata"]["name"]
        return [p for p in self.pods.values() if p["metadata"]["labels"].get(JOB) == name]

    def _end(self, pod, grace=None):
        pod["metadata"].setdefault("deletionTimestamp", now())
        if container := self.containers.get(pod["metadata"]["name"]):
            container.stop(int(grace if grace is not None else pod["spec"].get("terminationGracePeriodSeconds", 30)))

    # What controllers, scheduler and kubelet do

    def tick(self):
        for job in list(self.jobs.values()):
            self._control(job)
        for name, pod in list(self.pods.items()):
            self._run(pod)
            gone = pod["status"]["phase"] in ("Succeeded", "Failed") or name not in self.containers
            if "deletionTimestamp" in pod["metadata"] and gone:
                del self.pods[name]
                self.containers.pop(name, None)

    def _control(self, job):
        pods, status, spec = self._of(job), job["status"], job["spec"]
        if "deletionTimestamp" in job["metadata"]:
            if not pods:
                del self.jobs[job["metadata"]["name"]]
            return
        done, failed = set(job.get("_done", ())), set(job.get("_failed", ()))
        for pod in pods:
            index, phase = int(pod["metadata"]["labels"][INDEX]), pod["status"]["phase"]
            if phase == "Succeeded":
                done.add(index)
            elif phase == "Failed" or "deletionTimestamp" in pod["metadata"]:
                failed.add(index)
        job["_done"], job["_failed"] = sorted(done), sorted(failed - done)
        live = [p for p in pods if p["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in p["metadata"]]
        busy = {int(p["metadata"]["labels"][INDEX]) for p in live} | done | failed
        for index in range(spec["completions"]):
            if len(live) >= spec.get("parallelism", 1):
                break
            if index not in busy:
                live.append(self._pod(job, index))
        status |= {"active": len(live), "ready": sum(p["status"]["phase"] == "Running" for p in live), "succeeded": len(done), "failed": len(failed - done)}
        status |= {"completedIndexes": ranges(done), "failedIndexes": ranges(failed - done)}
        if len(done | failed) == spec["completions"] and "conditions" not in status:
            kind, reason = ("Failed", "FailedIndexes") if failed - done else ("Complete", "CompletionsReached")
            status["conditions"] = [{"type": kind, "status": "True", "reason": reason, "message": "Job has ended", "lastTransitionTime": now()}]
            job["_ended"] = datetime.datetime.now()
        if "_ended" in job and (datetime.datetime.now() - job["_ended"]).total_seconds() > spec.get("ttlSecondsAfterFinished", 1e9):
            self._delete("jobs", job, {})

    def _pod(self, job, index):
        name = f"{job['metadata']['name']}-{index}-{uuid.uuid4().hex[:5]}"
        template = copy.deepcopy(job["spec"]["template"])
        labels = template["metadata"].get("labels", {}) | {JOB: job["metadata"]["name"], "job-name": job["metadata"]["name"], INDEX: str(index)}
        self.version += 1
        meta = {"name": name, "namespace": self.namespace, "uid": str(uuid.uuid4()), "labels": labels, "annotations": {INDEX: str(index)}}
        meta |= {"creationTimestamp": now(), "resourceVersion": str(self.version)}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"], "status": {"phase": "Pending", "conditions": []}}
        self.pods[name] = pod
        return pod

    def _said(self, pod, state, phase="Pending"):
        container = pod["spec"]["containers"][0]
        pod["status"] = {
            "phase": phase,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}],
            "containerStatuses": [{
                "name": container["name"], "image": container["image"], "imageID": "", "ready": phase == "Running", "restartCount": 0, "state": state,
            }],
        }  # fmt: skip

    def _run(self, pod):
        name, spec = pod["metadata"]["name"], pod["spec"]
        if running := self.containers.get(name):
            code = running.poll()
            if code is not None and pod["status"]["phase"] == "Running":
                reason = "Completed" if code == 0 else "OOMKilled" if running.oom else "Error"
                self._said(pod, {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now()}}, "Failed" if code else "Succeeded")
            return
        if pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        container = spec["containers"][0]
        limit = int(quantity(container["resources"]["limits"]["memory"]))
        room = sum(1 for n, c in self.containers.items() if c.code is None and n in self.pods)
        why = f"1 Insufficient memory ({limit} bytes)" if limit > self.node_memory else "1 Too many pods" if room >= self.most_pods else ""
        if why:
            pod["status"]["conditions"] = [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"0/1 nodes are available: {why}.", "lastTransitionTime": now(),
            }]  # fmt: skip
            return
        entry = self.images.get(container["image"])
        if entry is None:
            message = f'Back-off pulling image "{container["image"]}": not found'
            return self._said(pod, {"waiting": {"reason": "ImagePullBackOff", "message": message}})
        env = {}
        for source in container.get("envFrom", []):
            kind, store = ("secret", self.secrets) if "secretRef" in source else ("configmap", self.configs)
            wanted = next(iter(source.values()))["name"]
            if wanted not in store:
                return self._said(pod, {"waiting": {"reason": "CreateContainerConfigError", "message": f'{kind} "{wanted}" not found'}})
            env |= store[wanted]
        env |= {v["name"]: v.get("value", "") for v in container.get("env", [])}
        env["JOB_COMPLETION_INDEX"] = pod["metadata"]["labels"][INDEX]
        words = [re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]), w) for w in [*container.get("command", entry), *container.get("args", [])]]
        self._said(pod, {"running": {"startedAt": now()}}, "Running")
        held = self.held is True
        self.containers[name] = Container(words, env, self.memory or limit, held)
        self.held = name if held else self.held

    def settle(self):
        """Waits until no job has anything more to do."""
        self.until(lambda: all("conditions" in j["status"] for j in self.jobs.values()))

    def logs(self):
        return "\n".join(f"{n}: {c.output()}" for n, c in self.containers.items())

    def close(self):
        for container in self.containers.values():
            container.kill()
