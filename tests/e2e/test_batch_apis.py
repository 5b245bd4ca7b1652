"""The executors `kubernetes` and `aws-batch` in particular: what they ask of the APIs, with what rights, and what they make of errors.

What all executors have in common is in test_executors.py.
"""

import json
import re
import signal

import boto3
import botocore.exceptions
import pytest
import yaml
from faults import MEM, Run, files, prepare
from harness import chunkwise
from services.servers import s3_env
from test_infra import BATCH, CHART

MIB = 1 << 20
HEADROOM = 64 * MIB
# A worker that does nothing for as long as a test takes.
SLEEPS = ["/bin/sh", "-c", "exec sleep 100"]


def options(**values):
    return [x for k, v in values.items() for x in ("--executor-option", f"{k}={v}")]


@pytest.fixture
def cluster(kubernetes):
    return kubernetes


@pytest.fixture
def queue(batch):
    return batch


def on_cluster(api, **more):
    values = {"image": "chunkwise:test", "endpoint": api.url, "poll": 0.2, "tasks": 8, "env": "CHUNKWISE_TEST_MARK={mark}"}
    return [*MEM, "--executor", "kubernetes", *options(**(values | more))]


def on_queue(**more):
    values = {"queue": "queue", "definition": "worker", "poll": 0.2, "tasks": 8, "env": "CHUNKWISE_TEST_MARK={mark}"}
    return [*MEM, "--executor", "aws-batch", *options(**(values | more))]


def aws(api):
    return {**s3_env("http://127.0.0.1:9"), "AWS_ENDPOINT_URL_BATCH": api.url}


def ok(path, args, env=None):
    with Run("run", path, *args, "--json", env=env) as run:
        run.ok()
    return json.loads(run.stdout), run.errors


def failed(path, args, *words, env=None):
    with Run("run", path, *args, "--retries", "0", env=env) as run:
        run.failed(*words)


# Kubernetes


def test_jobs_say_what_the_options_say(tmp_path, cluster, reference):
    cluster.namespace = "science"
    cluster.secrets |= {"one": {"A": "1"}, "two": {}}
    cluster.configs["three"] = {}
    path = prepare(tmp_path)
    more = {
        "namespace": "science", "service_account": "era-worker", "node_selector": "kubernetes.io/arch=amd64,pool=big",
        "tolerations": "spot=true:NoSchedule,gpu", "labels": "team=ocean", "env_secrets": "one,two", "env_configs": "three", "claims": f"data=/data,scratch={tmp_path}",
        "cpu": "500m", "ttl": 60, "user": 1000, "pull_secrets": "registry", "priority_class": "low", "parallel": 2,
    }  # fmt: skip
    ok(path, on_cluster(cluster, **more))
    assert files(tmp_path / "out.zarr") == reference
    plan = json.loads(path.read_text())
    for job in cluster.created:
        spec = job["spec"]
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        assert pod["serviceAccountName"] == "era-worker" and pod["automountServiceAccountToken"] is False and pod["priorityClassName"] == "low"
        assert pod["nodeSelector"] == {"kubernetes.io/arch": "amd64", "pool": "big"} and pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["tolerations"] == [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, {"key": "gpu", "operator": "Exists"}]
        assert job["metadata"]["labels"]["team"] == spec["template"]["metadata"]["labels"]["team"] == "ocean"
        assert [list(f.values())[0]["name"] for f in container["envFrom"]] == ["one", "two", "three"]
        assert {m["mountPath"] for m in container["volumeMounts"]} == {"/tmp", "/data", str(tmp_path)}
        assert (spec["ttlSecondsAfterFinished"], spec["backoffLimitPerIndex"]) == (60, 0) and spec["parallelism"] == min(2, spec["completions"])
        assert pod["securityContext"]["runAsUser"] == 1000 and container["securityContext"]["readOnlyRootFilesystem"] is True
        # What is asked for is the projection of the stage, with what the kernel counts besides, and is the limit, too.
        asked = container["resources"]
        assert asked["requests"]["memory"] == asked["limits"]["memory"] and asked["requests"]["cpu"] == "500m"
        stage = plan["stages"][int(job["metadata"]["labels"]["chunkwise-stage"])]
        projected = min(plan["spec"]["allowed_mem"], plan["spec"]["reserved_mem"] + stage["projected_mem"])
        told = int(container["args"][container["args"].index("--allowed-mem") + 1])
        assert plan["spec"]["reserved_mem"] < told <= projected and int(asked["limits"]["memory"]) == told + HEADROOM


def test_a_role_for_the_driver(tmp_path, cluster):
    """The rights of the chart are those that are used, and no more."""
    path = prepare(tmp_path)
    ok(path, on_cluster(cluster))
    cluster.images["chunkwise:test"] = SLEEPS
    with Run("run", path, *on_cluster(cluster), "--overwrite") as run:
        run.until(lambda: any(c.code is None for c in cluster.containers.values()))
        run.signal(signal.SIGINT)
        code, errors = run.end(60)
        assert code and "--resume" in errors
        run.nothing_left()
    assert all("conditions" in j["status"] for j in cluster.jobs.values()), "a job outlives its run"
    text = (CHART / "templates" / "rbac.yaml").read_text()
    rules = yaml.safe_load(re.search(r"^rules:\n(.*?)^---", text, re.S | re.M)[0].removesuffix("---"))["rules"]
    granted = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    # A part alone is cancelled when one of its tasks hangs: test_executors.py does that.
    assert cluster.used | {("delete", "pods")} == granted


def test_errors_of_the_api(tmp_path, cluster):
    path = prepare(tmp_path)
    cluster.forbidden = {("create", "jobs")}
    failed(path, on_cluster(cluster), "refused to create the job", "jobs is forbidden", "docs/kubernetes.md")
    cluster.forbidden = {("list", "pods")}
    failed(path, [*on_cluster(cluster), "--overwrite"], "refused to list jobs and pods", "pods is forbidden", "--resume")
    cluster.forbidden = set()
    failed(path, [*on_cluster(cluster, namespace="nowhere"), "--overwrite"], 'namespaces "nowhere" not found')
    failed(path, [*on_cluster(cluster, env_secrets="none"), "--overwrite"], "CreateContainerConfigError", 'secret "none" not found', "kubectl")
    failed(path, [*on_cluster(cluster, labels="team=no spaces"), "--overwrite"], "422", "team=no spaces")
    cluster.node_memory = 1 * MIB
    failed(path, [*on_cluster(cluster, start_timeout=1), "--overwrite"], "no pod of the run has started", "Insufficient memory", "start_timeout")
    assert not cluster.containers
    failed(path, [*on_cluster(cluster, endpoint="nonsense://"), "--overwrite"], "endpoint=")
    kubeconfig = tmp_path / "config"
    failed(path, [*MEM, "--executor", "kubernetes", *options(image="i", kubeconfig=kubeconfig)], "no cluster can be reached")


def test_a_kubeconfig(tmp_path, cluster, reference):
    """Cluster, namespace and token come from a context of it."""
    cluster.token, cluster.namespace = "secret-token", "science"
    named = lambda name, kind, value: [{"name": name, kind: value}]  # noqa: E731
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "none", "clusters": named("c", "cluster", {"server": cluster.url}),
        "users": named("u", "user", {"token": "secret-token"}) + named("v", "user", {"token": "wrong"}),
        "contexts": named("good", "context", {"cluster": "c", "user": "u", "namespace": "science"}) + named("bad", "context", {"cluster": "c", "user": "v"}),
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    path, args = prepare(tmp_path), [a for a in on_cluster(cluster)]
    del args[args.index(f"endpoint={cluster.url}") - 1 : args.index(f"endpoint={cluster.url}") + 1]
    env = {"KUBECONFIG": str(tmp_path / "config")}
    failed(path, [*args, *options(context="bad")], "401", "credentials", env=env)
    ok(path, [*args, *options(context="good"), "--overwrite"], env=env)
    assert files(tmp_path / "out.zarr") == reference


def test_answers_that_are_lost(tmp_path, cluster, reference):
    """A job is made once though its answer is lost; questions are repeated; long lists come in pages, and may expire on the way."""
    cluster.page, cluster.expire = 2, 1
    lost = cluster.fault("^POST .*/jobs$", lost=True, times=1)
    busy = [cluster.fault("^GET .*/jobs$", status=500, times=2), cluster.fault("^GET .*/pods$", status=429, times=2)]
    report, _ = ok(prepare(tmp_path), on_cluster(cluster, tasks=2))
    assert [f.hits for f in (lost, *busy)] == [1, 2, 2] and cluster.expire == 0
    assert report["retries"] == 0 and len(cluster.created) == len({j["metadata"]["name"] for j in cluster.created})
    assert files(tmp_path / "out.zarr") == reference


def test_jobs_and_pods_that_somebody_deletes(tmp_path, cluster):
    """Their tasks are run again."""
    path = prepare(tmp_path, count=200, side=100)
    # One worker does nothing, so that it cannot end before its pod is deleted.
    cluster.held = True
    with Run("run", path, *on_cluster(cluster)) as run:
        run.until(lambda: cluster.held is not True)
        with cluster.lock:
            cluster._delete("pods", cluster.pods[cluster.held], {"gracePeriodSeconds": 0})
        run.until(lambda: "its pod was deleted" in run.errors or "lost worker" in run.errors)
        with cluster.lock:
            for job in list(cluster.jobs.values())[:1]:
                cluster._delete("jobs", job, {"gracePeriodSeconds": 0})
        run.ok()
    assert "failed (lost worker)" in run.errors
    got = files(tmp_path / "out.zarr")
    chunkwise("run", path, *MEM, "--overwrite").ok()
    assert got == files(tmp_path / "out.zarr")


# AWS Batch


def test_jobs_have_what_the_options_say(tmp_path, queue, reference):
    path = prepare(tmp_path)
    ok(path, on_queue(vcpus="0.5", share="ocean", timeout=120), env=aws(queue))
    assert files(tmp_path / "out.zarr") == reference
    plan = json.loads(path.read_text())
    for job in queue.submitted:
        needs = {n["type"]: n["value"] for n in job["containerOverrides"]["resourceRequirements"]}
        command = job["containerOverrides"]["command"]
        told, size = int(command[command.index("--allowed-mem") + 1]), int(command[command.index("--array-size") + 1])
        assert needs["VCPU"] == "0.5" and int(needs["MEMORY"]) == -(-(told + HEADROOM) // MIB)
        stage = plan["stages"][int(command[command.index("--stage") + 1])]
        assert told <= plan["spec"]["reserved_mem"] + stage["projected_mem"]
        assert (job["shareIdentifier"], job["timeout"], job["retryStrategy"]) == ("ocean", {"attemptDurationSeconds": 120}, {"attempts": 1})
        assert job.get("arrayProperties") == ({"size": size} if size > 1 else None) and ("--array-index" in command) == (size == 1)
    assert {"arrayProperties" in j for j in queue.submitted} == {True, False} or len(queue.submitted) == 1


def test_a_job_without_children(tmp_path, queue, reference):
    """An array has two children at least; what fits into one part is a plain job."""
    ok(prepare(tmp_path), on_queue(tasks=1000), env=aws(queue))
    assert all("arrayProperties" not in j for j in queue.submitted)
    assert files(tmp_path / "out.zarr") == reference


def test_a_policy_for_the_driver(tmp_path, queue):
    """The actions of the template are those that are used, and no more."""
    path = prepare(tmp_path)
    ok(path, on_queue(), env=aws(queue))
    queue.images["chunkwise:test"] = SLEEPS
    with Run("run", path, *on_queue(), "--overwrite", env=aws(queue)) as run:
        run.until(lambda: any(c.code is None for c in queue.containers.values()))
        run.signal(signal.SIGTERM)
        code, errors = run.end(60)
        assert code and "--resume" in errors
        run.nothing_left()
    assert all(j["status"] in ("SUCCEEDED", "FAILED") for j in queue.jobs.values())
    granted = set(re.findall(r"batch:[A-Z]\w+", BATCH.read_text()))
    assert queue.used == granted


def test_refusals(tmp_path, queue):
    path, env = prepare(tmp_path), aws(queue)
    queue.denied = {"SubmitJob"}
    failed(path, on_queue(), "refused to submit a job", "AccessDeniedException", "not authorized", "docs/aws-batch.md", env=env)
    queue.denied = set()
    failed(path, [*on_queue(queue="nowhere"), "--overwrite"], "JobQueue can not be found", env=env)
    queue.machine_memory = 16
    failed(path, [*on_queue(), "--overwrite"], "jobs cannot start", "MISCONFIGURATION", env=env)
    nobody = {**env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"}
    failed(path, [*on_queue(), "--overwrite"], "could not be asked", "credentials", env=nobody)
    failed(path, [*on_queue(), "--overwrite"], "region", env={**env, "AWS_REGION": "", "AWS_EC2_METADATA_DISABLED": "true"})
    assert not queue.containers


def test_throttling_and_lost_answers(tmp_path, queue, reference):
    """What is throttled is repeated by the SDK; a job that was submitted twice, since its answer was lost, writes the same."""
    throttled = [queue.fault("describejobs", status=429, times=1), queue.fault("submitjob", status=500, times=1)]
    lost = queue.fault("submitjob", lost=True, times=1)
    report, _ = ok(prepare(tmp_path), on_queue(), env=aws(queue))
    assert [f.hits for f in (*throttled, lost)] == [1, 1, 1] and report["retries"] == 0
    queue.settle()
    assert files(tmp_path / "out.zarr") == reference


@pytest.mark.parametrize("program, operation", [("/bin/true", "DescribeJobs"), ("/bin/false", "ListJobs")])
def test_more_children_than_one_question_takes(tmp_path, queue, program, operation):
    """Children that end without a report are asked after in pages: those that ended well by their number, the others by their state."""
    queue.images["chunkwise:test"] = [program]
    queue.page, queue.most_jobs = 60, 20
    path = prepare(tmp_path, count=130, side=10, single=True)
    with Run("run", path, *on_queue(tasks=1), "--retries", "1", env=aws(queue)) as run:
        run.failed("without a report" if program == "/bin/false" else "storage holds no report of the task")
    assert queue.submitted[0]["arrayProperties"]["size"] == 130
    # Every child was found, and its task tried once more.
    again = {int(n) for n in re.findall(r"again in .*?stage 0, task (\d+):", run.errors)}
    assert again == set(range(130)), sorted(set(range(130)) - again)
    first = queue.children_told[operation]
    assert len(first) == 130 and max(first.values()) <= (100 if operation == "DescribeJobs" else 60), first


def test_boto3_understands_the_server(queue):
    """The client that AWS publishes finds nothing wrong with the answers that the other tests rely on."""
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("batch", endpoint_url=queue.url, **keys)
    job = {"jobName": "x", "jobQueue": "queue", "jobDefinition": "worker:1"}
    command = {"command": ["worker", "--plan", "/nonexistent/plan.json", "--stage", "0"]}
    one = client.submit_job(**job, containerOverrides=command)["jobId"]
    many = client.submit_job(**job, containerOverrides=command, arrayProperties={"size": 3})["jobId"]
    queue.settle()
    told = {j["jobId"]: j for j in client.describe_jobs(jobs=[one, many, f"{many}:2"])["jobs"]}
    assert told[one]["status"] == "FAILED" and told[one]["container"]["exitCode"] == 1
    assert told[many]["arrayProperties"] == {"size": 3, "statusSummary": {"FAILED": 3}} and told[f"{many}:2"]["arrayProperties"]["index"] == 2
    queue.page = 2
    pages = client.get_paginator("list_jobs").paginate(arrayJobId=many, jobStatus="FAILED")
    assert sorted(j["arrayProperties"]["index"] for page in pages for j in page["jobSummaryList"]) == [0, 1, 2]
    named = client.list_jobs(jobQueue="queue", filters=[{"name": "JOB_NAME", "values": ["x"]}])["jobSummaryList"]
    assert {j["jobId"] for j in named} == {one, many}
    queue.most_jobs = 0
    waits = client.submit_job(**job, containerOverrides=command)["jobId"]
    client.terminate_job(jobId=waits, reason="not needed")
    assert client.describe_jobs(jobs=[waits])["jobs"][0]["statusReason"] == "not needed"
    for wrong in ({"jobQueue": "nowhere"}, {"arrayProperties": {"size": 1}}, {"timeout": {"attemptDurationSeconds": 5}}):
        with pytest.raises(botocore.exceptions.ClientError, match="ClientException"):
            client.submit_job(**(job | wrong))
