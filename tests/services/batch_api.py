"""A small AWS Batch: its API over HTTP, and what it does about array jobs.

Every request and every answer is checked against the published model of the service, which botocore has with it; the rules that are only in
the documentation of the service are checked here. Each child of an array is a real process in a memory group.
"""

import json
import re
import time
import uuid

import botocore.session
from botocore.validate import ParamValidator

from .api import Api, Refused
from .containers import Container

OVER = ("SUCCEEDED", "FAILED")
EXITED = "Essential container in task exited"


class BatchApi(Api):
    """`images` says what a container of an image runs. One queue and one job definition, named `queue` and `worker`."""

    def __init__(self, images, definition=None, most_jobs=4, machine_memory=4096):
        super().__init__()
        self.images, self.most_jobs, self.machine_memory = images, most_jobs, machine_memory
        self.definition = {"image": next(iter(images)), "environment": {}, "memory": 2048} | (definition or {})
        self.model = botocore.session.get_session().get_service_model("batch")
        self.operations = {}
        for name in self.model.operation_names:
            http = self.model.operation_model(name).http
            self.operations[http["method"], http["requestUri"]] = name
        # What the kernel holds containers to, instead of what was asked for.
        self.memory = None
        self.denied, self.used, self.submitted = set(), set(), []
        self.jobs, self.containers = {}, {}
        # Of the first array, which children were told of by which operation, and the size of the largest answer with each.
        self.children_told = {"DescribeJobs": {}, "ListJobs": {}}

    # HTTP

    def refusal(self, e):
        reason = {429: "TooManyRequestsException", 500: "ServerException"}.get(e.status, e.reason)
        return e.status, {"message": e.message}, {"x-amzn-errortype": reason}

    def handle(self, method, path, query, headers, body):
        name = self.operations.get((method, path))
        implementation = getattr(self, f"_{name}", None)
        if implementation is None:
            raise Refused(404, "ClientException", f"no such operation: {method} {path}")
        if not re.match(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/[^/]+/batch/aws4_request", headers.get("Authorization", "")):
            raise Refused(403, "MissingAuthenticationTokenException", "the request is not signed for this service")
        self.used.add(f"batch:{name}")
        if name in self.denied:
            raise Refused(403, "AccessDeniedException", f"User: arn:aws:iam::123456789012:user/test is not authorized to perform: batch:{name}")
        operation = self.model.operation_model(name)
        request = json.loads(body or b"{}")
        self.check(request, operation.input_shape, 400)
        answer = implementation(request)
        self.check(answer, operation.output_shape, 500)
        return 200, answer, {}

    @staticmethod
    def check(value, shape, status):
        report = ParamValidator().validate(value, shape)
        if report.has_errors():
            raise Refused(status, "ClientException", report.generate_report())

    # Operations

    def _SubmitJob(self, r):
        def refuse(why):
            raise Refused(400, "ClientException", why)

        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", r["jobName"]):
            refuse("jobName is not valid")
        if r["jobQueue"] != "queue":
            refuse("JobQueue can not be found.")
        if r["jobDefinition"].split(":")[0] != "worker":
            refuse("JobDefinition can not be found.")
        size = r.get("arrayProperties", {}).get("size")
        if size is not None and not 2 <= size <= 10_000:
            refuse("array size must be between 2 and 10,000")
        if r.get("timeout", {}).get("attemptDurationSeconds", 60) < 60:
            refuse("timeout must be at least 60 seconds")
        if not 1 <= r.get("retryStrategy", {}).get("attempts", 1) <= 10:
            refuse("attempts must be between 1 and 10")
        overrides = r.get("containerOverrides", {})
        if len(json.dumps(overrides)) > 8192:
            refuse("Container Overrides length must be at most 8192")
        for need in overrides.get("resourceRequirements", []):
            if need["type"] not in ("MEMORY", "VCPU") or not re.fullmatch(r"[1-9]\d*" if need["type"] == "MEMORY" else r"\d+(\.\d+)?", need["value"]):
                refuse(f"resource requirement {need} is not valid")
        self.submitted.append(r)
        job_id = str(uuid.uuid4())
        arn = f"arn:aws:batch:us-east-1:123456789012:job/{job_id}"
        self.jobs[job_id] = self._new(r, job_id, arn)
        if size:
            self.jobs[job_id] |= {"arrayProperties": {"size": size}, "status": "PENDING"}
            for index in range(size):
                child = f"{job_id}:{index}"
                self.jobs[child] = self._new(r, child, f"{arn}:{index}") | {"arrayProperties": {"index": index}, "_parent": job_id}
        return {"jobArn": arn, "jobName": r["jobName"], "jobId": job_id}

    def _new(self, r, job_id, arn):
        overrides = r.get("containerOverrides", {})
        needs = {n["type"]: n["value"] for n in overrides.get("resourceRequirements", [])}
        environment = self.definition["environment"] | {e["name"]: e["value"] for e in overrides.get("environment", [])}
        container = {
            "image": self.definition["image"], "command": overrides.get("command", []), "environment": [{"name": k, "value": v} for k, v in environment.items()],
            "resourceRequirements": [{"type": "MEMORY", "value": needs.get("MEMORY", str(self.definition["memory"]))}, {"type": "VCPU", "value": needs.get("VCPU", "1")}],
        }  # fmt: skip
        return {
            "jobId": job_id, "jobArn": arn, "jobName": r["jobName"], "jobQueue": r["jobQueue"], "jobDefinition": r["jobDefinition"], "status": "SUBMITTED",
            "createdAt": int(time.time() * 1000), "startedAt": 0, "container": container, "dependsOn": [], "parameters": {}, "tags": {},
            "timeout": r.get("timeout", {"attemptDurationSeconds": 3600}),
        }  # fmt: skip

    @staticmethod
    def _shown(job):
        return {k: v for k, v in job.items() if not k.startswith("_")}

    def _DescribeJobs(self, r):
        if not 1 <= len(r["jobs"]) <= 100:
            raise Refused(400, "ClientException", "jobs must have 1 to 100 members")
        found = [self._shown(self.jobs[j]) for j in r["jobs"] if j in self.jobs]
        for job in found:
            if "size" in job.get("arrayProperties", {}):
                counts = {}
                for child in self._children(job["jobId"]):
                    counts[child["status"]] = counts.get(child["status"], 0) + 1
                job["arrayProperties"] = job["arrayProperties"] | {"statusSummary": counts}
        self._told("DescribeJobs", found)
        return {"jobs": found}

    def _told(self, operation, jobs):
        first = next(iter(self.jobs), None)
        for job in jobs:
            parent, _, index = job["jobId"].partition(":")
            if parent == first and index:
                told = self.children_told[operation]
                told[int(index)] = max(told.get(int(index), 0), len(jobs))

    def _children(self, job_id):
        return [j for j in self.jobs.values() if j.get("_parent") == job_id]

    page = 100

    def _ListJobs(self, r):
        if "arrayJobId" in r:
            found = self._children(r["arrayJobId"])
            found = [j for j in found if j["status"] == r.get("jobStatus", "RUNNING")]
        elif "jobQueue" in r:
            found = [j for j in self.jobs.values() if "_parent" not in j]
            for f in r.get("filters", []):
                if f.get("name") != "JOB_NAME" or len(f.get("values", [])) != 1:
                    raise Refused(400, "ClientException", "only one value of JOB_NAME is known here")
                pattern = re.escape(f["values"][0]).replace(r"\*", ".*")
                found = [j for j in found if re.fullmatch(pattern, j["jobName"], re.IGNORECASE)]
            if not r.get("filters"):
                found = [j for j in found if j["status"] == r.get("jobStatus", "RUNNING")]
        else:
            raise Refused(400, "ClientException", "one of jobQueue, arrayJobId, multiNodeJobId is required")
        start, limit = int(r.get("nextToken", "0")), min(r.get("maxResults", 100), self.page)
        out = {"jobSummaryList": [self._summary(j) for j in found[start : start + limit]]}
        self._told("ListJobs", out["jobSummaryList"])
        return out | ({"nextToken": str(start + limit)} if len(found) > start + limit else {})

    @staticmethod
    def _summary(job):
        keys = ("jobId", "jobArn", "jobName", "createdAt", "status", "statusReason", "startedAt", "stoppedAt", "jobDefinition", "arrayProperties")
        container = {k: v for k, v in job["container"].items() if k in ("exitCode", "reason")}
        return {k: job[k] for k in keys if k in job} | {"container": container}

    def _TerminateJob(self, r):
        self._end(r)
        return {}

    def _CancelJob(self, r):
        self._end(r, ("SUBMITTED", "PENDING", "RUNNABLE"))
        return {}

    def _end(self, r, states=None):
        job = self.jobs.get(r["jobId"])
        if job is None:
            return
        for one in self._children(job["jobId"]) or [job]:
            if one["status"] in OVER or (states and one["status"] not in states):
                continue
            one["_why"] = r["reason"]
            if container := self.containers.get(one["jobId"]):
                container.stop(30)
            else:
                self._over(one, None, r["reason"])

    # What the engine does

    def _over(self, job, code, why, reason=None):
        job |= {"status": "SUCCEEDED" if code == 0 else "FAILED", "statusReason": why, "stoppedAt": int(time.time() * 1000)}
        if code is not None:
            job["container"]["exitCode"] = code
        if reason:
            job["container"]["reason"] = reason

    def tick(self):
        for job in list(self.jobs.values()):
            if job["status"] in OVER:
                continue
            if "size" in job.get("arrayProperties", {}):
                states = {c["status"] for c in self._children(job["jobId"])}
                if states <= set(OVER):
                    job |= {"status": "FAILED" if "FAILED" in states else "SUCCEEDED", "stoppedAt": int(time.time() * 1000)}
                    job["statusReason"] = "Array Child Job failed" if "FAILED" in states else ""
            elif container := self.containers.get(job["jobId"]):
                code = container.poll()
                late = time.time() - job["startedAt"] / 1000 > job["timeout"]["attemptDurationSeconds"]
                if code is None and late and "_why" not in job:
                    job["_why"] = "Job attempt duration exceeded timeout"
                    container.stop(30)
                elif code is not None:
                    reason = "OutOfMemoryError: Container killed due to memory usage" if container.oom else None
                    self._over(job, code, job.get("_why", EXITED), reason)
            else:
                self._start(job)

    def _start(self, job):
        memory = int(job["container"]["resourceRequirements"][0]["value"])
        job["status"] = "RUNNABLE"
        if memory > self.machine_memory:
            job["statusReason"] = f"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job needs {memory} MiB, and no instance type of the compute environment has it"
            return
        if sum(1 for c in self.containers.values() if c.code is None) >= self.most_jobs:
            return
        image = job["container"]["image"]
        if image not in self.images:
            reason = f"CannotPullContainerError: image {image} not found"
            return self._over(job, None, "Task failed to start", reason)
        env = {e["name"]: e["value"] for e in job["container"]["environment"]} | {"AWS_BATCH_JOB_ID": job["jobId"], "AWS_BATCH_JQ_NAME": job["jobQueue"]}
        if "index" in job.get("arrayProperties", {}):
            env["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job["arrayProperties"]["index"])
        job |= {"status": "RUNNING", "startedAt": int(time.time() * 1000)}
        self.containers[job["jobId"]] = Container([*self.images[image], *job["container"]["command"]], env, self.memory or memory << 20)

    def settle(self):
        """Waits until no job has anything more to do."""
        self.until(lambda: all(j["status"] in OVER for j in self.jobs.values()))

    def logs(self):
        return "\n".join(f"{n}: {c.output()}" for n, c in self.containers.items())

    def close(self):
        for container in self.containers.values():
            container.kill()
