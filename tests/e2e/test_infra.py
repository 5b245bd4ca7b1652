"""What `infra` has for other people's machines: it is valid, asks for no more rights than it needs, and starts workers as they can be started."""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from harness import binary, chunkwise, read_array
from services.template import allows, listed, load, resolve
from services.tools import checker, helm

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INFRA = ROOT / "infra"
CHART = INFRA / "kubernetes" / "chunkwise"
BATCH = INFRA / "aws-batch" / "chunkwise.yaml"
SBATCH = INFRA / "slurm" / "worker.sbatch"
SCRIPTS = [INFRA / "container" / "build", INFRA / "container" / "root", INFRA / "aws" / "package", SBATCH]


def call(*args, **options):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **options)


def succeeded(done):
    assert done.returncode == 0, f"{done.args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_shell_scripts(script):
    assert os.access(script, os.X_OK) or script == SBATCH
    succeeded(call("bash", "-n", script))
    succeeded(call(checker("shellcheck"), script))


# Numbers of a plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The plan of an example, as text."""
    work = tmp_path_factory.mktemp("work")
    done = chunkwise("plan", ROOT / "examples" / "winds.yaml", "--format", "json", "--work-dir", work).ok()
    file = work / "plan.json"
    file.write_text(done.stdout)
    return file


def test_stages_are_those_of_the_plan(plan):
    rows = [line.split("\t") for line in succeeded(call(sys.executable, INFRA / "stages", plan)).splitlines()]
    table = [line.split() for line in chunkwise("plan", plan).ok().stdout.splitlines()]
    expected = [(row[0], row[3], row[1]) for row in table if row and row[0].isdigit()]
    assert [(index, tasks, name) for index, tasks, _, name in rows] == expected
    document = json.loads(plan.read_text())
    for row, stage in zip(rows, document["stages"]):
        assert int(row[2]) == document["spec"]["reserved_mem"] + stage["projected_mem"]
    # Many threads never need more than the plan allows.
    many = succeeded(call(sys.executable, INFRA / "stages", plan, "--threads", 1000)).splitlines()
    assert all(int(line.split("\t")[2]) == document["spec"]["allowed_mem"] for line in many)


def test_stages_refuses_what_is_no_plan(tmp_path):
    file = tmp_path / "x.json"
    for text in ["", "[]", "{}", '{"format": "chunkwise-plan/1"}', '{"format": "chunkwise-plan/2"}']:
        file.write_text(text)
        done = call(sys.executable, INFRA / "stages", file)
        assert done.returncode == 1 and "cannot be read as a plan" in done.stderr and "Traceback" not in done.stderr


def worker_options():
    """The options that everything here passes to `chunkwise worker`."""
    text = "".join(f.read_text() for f in [SBATCH, BATCH, CHART / "templates" / "worker-job.yaml"])
    return {"--plan", "--hash", "--stage", "--array-index", "--array-size", "--threads", "--allowed-mem"} & set(re.findall(r"--[a-z-]+", text))


@pytest.fixture(scope="module")
def worker_help():
    """What the command says of its workers."""
    return chunkwise("worker", "--help").ok().stdout


def test_workers_are_started_as_they_can_be(worker_help):
    """Whatever is passed to `chunkwise worker` is an option of it."""
    known = set(re.findall(r"--[a-z-]+", worker_help))
    assert worker_options() == {"--plan", "--hash", "--stage", "--array-index", "--array-size", "--threads", "--allowed-mem"}
    assert worker_options() <= known


# Kubernetes

WORKER = {
    "worker": {
        "enabled": True,
        "plan": "s3://bucket/work/plan.json",
        "hash": "f034cafaf10557b4",
        "stage": 2,
        "completions": 40,
        "parallelism": 10,
        "threads": 2,
        "cpu": "2",
        "projectedMem": 3_000_000_000,
    },
    "storage": {"env": {"AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": True}, "secretName": "keys"},
}
DRIVER = {
    "driver": {"enabled": True, "pipelineText": "outputs: {s3://b/mean: mean(u)}\n", "workDir": "s3://b/work", "resume": True},
    "rbac": {"create": True},
    "networkPolicy": {"enabled": True, "extraEgress": [{"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"port": 80}]}]},
}
PLACED = {
    "nodeSelector": {"pool": "batch"},
    "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "low",
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/chunkwise"}},
    "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    "podLabels": {"azure.workload.identity/use": "true"},
    "podAnnotations": {"a": "b"},
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
VARIANTS = {"nothing": {}, "worker": WORKER, "driver": DRIVER, "all": {**WORKER, **DRIVER, **PLACED}}


def template(folder, values, check=True):
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    done = call(helm(), "template", "era", CHART, "--namespace", "science", "--values", file)
    if not check:
        return done
    text = succeeded(done)
    (folder / "manifests.yaml").write_text(text)
    return {(m["kind"], m["metadata"]["name"]): m for m in yaml.safe_load_all(text) if m}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_chart_is_valid(tmp_path, name):
    values = tmp_path / "lint.json"
    values.write_text(json.dumps(VARIANTS[name]))
    succeeded(call(helm(), "lint", "--strict", CHART, "--values", values))
    template(tmp_path, VARIANTS[name])
    for version in ("1.33", "1.37"):
        succeeded(call(checker("kubernetes-validate"), "--strict", "-k", version, tmp_path / "manifests.yaml"))


def test_a_worker_job(tmp_path):
    job = template(tmp_path, WORKER)["Job", "era-stage-2"]["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"], job["backoffLimitPerIndex"]) == ("Indexed", 40, 10, 3)
    container = job["template"]["spec"]["containers"][0]
    allowed = 67108864 + 2 * 3_000_000_000
    assert container["args"] == (
        ["worker", "--plan", "s3://bucket/work/plan.json", "--hash", "f034cafaf10557b4", "--stage", "2"]
        + ["--array-index", "$(JOB_COMPLETION_INDEX)", "--array-size", "40", "--threads", "2", "--allowed-mem", str(allowed)]
    )
    resources = container["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": str(allowed + 67108864)}
    # Exit codes of the worker: those that repeat themselves are not repeated.
    actions = {v: r["action"] for r in job["podFailurePolicy"]["rules"] for v in r.get("onExitCodes", {}).get("values", [])}
    assert actions == {1: "FailJob", 2: "FailJob", 13: "FailJob", 10: "FailIndex", 12: "FailIndex"}


def test_pods_have_no_rights(tmp_path):
    manifests = template(tmp_path, VARIANTS["all"])
    jobs = [m for (kind, _), m in manifests.items() if kind == "Job"]
    assert len(jobs) == 2
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = pod["containers"][0]["securityContext"]
        assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert not any(k in pod for k in ("hostNetwork", "hostPID", "hostIPC"))
    worker, driver = manifests["Job", "era-stage-2"], manifests["Job", "era-driver"]
    assert worker["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    role = manifests["Role", "era-driver"]
    assert role["rules"] == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "list", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]},
    ]
    subjects = manifests["RoleBinding", "era-driver"]["subjects"]
    assert [s["name"] for s in subjects] == [driver["spec"]["template"]["spec"]["serviceAccountName"]] == ["era-driver"]
    assert not any(kind.startswith("Cluster") for kind, _ in manifests)
    # A driver that starts no jobs has no token either.
    alone = template(tmp_path, {"driver": DRIVER["driver"]})
    assert alone["Job", "era-driver"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert not any(kind in ("Role", "RoleBinding") for kind, _ in alone)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"storage": {"env": {"AWS_SECRET_ACCESS_KEY": "x"}}}, "AWS_SECRET_ACCESS_KEY"),
        ({"worker": {"replicas": 3}}, "replicas"),
        ({"worker": {**WORKER["worker"], "projectedMem": 0}}, "worker.projectedMem"),
        ({"worker": {**WORKER["worker"], "plan": ""}}, "worker.plan"),
        ({"worker": {**WORKER["worker"], "completions": 0}}, "completions"),
        ({"driver": {"enabled": True}}, "driver.pipeline"),
        ({"user": 0}, "user"),
    ],
)
def test_wrong_values_are_refused(tmp_path, values, said):
    done = template(tmp_path, values, check=False)
    assert done.returncode != 0 and said in done.stderr, done.stderr


def test_every_value_has_a_type():
    """The values and their schema name the same things."""

    def names(values, schema):
        fixed = schema.get("additionalProperties") is False
        assert not fixed or set(values) | {"global"} == set(schema["properties"]) | {"global"}
        for key, value in values.items():
            if fixed and isinstance(value, dict):
                names(value, schema["properties"][key])

    names(yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text()))


# Slurm


@pytest.fixture
def slurm(tmp_path):
    """`slurm(exit_code, **environment)` starts the script as Slurm would, with a worker that notes its arguments, and a stand-in `scontrol`."""

    def start(body, **env):
        (tmp_path / "chunkwise").write_text(f'#!/usr/bin/env bash\necho "$@" > "{tmp_path}/args"\n{body}\n')
        (tmp_path / "scontrol").write_text(f'#!/usr/bin/env bash\necho "$@" > "{tmp_path}/requeued"\n')
        (tmp_path / "sleep").write_text("#!/bin/sh\n")
        for name in ("chunkwise", "scontrol", "sleep"):
            (tmp_path / name).chmod(0o755)
        numbers = {"ARRAY_JOB_ID": 7, "ARRAY_TASK_ID": 3, "ARRAY_TASK_MIN": 0, "ARRAY_TASK_MAX": 9, "ARRAY_TASK_STEP": 1, "MEM_PER_NODE": 600}
        variables = {f"SLURM_{k}": str(v) for k, v in {**numbers, "CPUS_PER_TASK": 2}.items()}
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **variables, **env}
        return subprocess.Popen(["bash", str(SBATCH), "/data/plan.json", "1"], env=environment, stderr=subprocess.PIPE, text=True)

    start.folder = tmp_path
    return start


def test_slurm_starts_a_part(slurm):
    process = slurm("exit 0")
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    expected = "worker --plan /data/plan.json --stage 1 --array-index 3 --array-size 10 --threads 2 --allowed-mem 536MiB"
    assert (slurm.folder / "args").read_text().strip() == expected
    assert not (slurm.folder / "requeued").exists()


@pytest.mark.parametrize(("code", "restarts", "again"), [(10, 0, False), (12, 0, False), (11, 0, True), (14, 2, True), (14, 3, False)])
def test_slurm_queues_again_what_may_pass(slurm, code, restarts, again):
    process = slurm(f"exit {code}", SLURM_RESTART_COUNT=str(restarts))
    process.communicate(timeout=30)
    assert process.returncode == code
    assert (slurm.folder / "requeued").exists() == again


def test_slurm_passes_the_signal_on(slurm):
    """The signal that comes before the time limit reaches the worker, which has the time to end."""
    loop = f'trap "echo told > {slurm.folder}/told; /bin/sleep 0.3; exit 14" TERM\ntouch {slurm.folder}/ready\nwhile :; do /bin/sleep 0.05; done'
    process = slurm(loop)
    end = time.monotonic() + 20
    while not (slurm.folder / "ready").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 14
    assert (slurm.folder / "told").exists()
    assert (slurm.folder / "requeued").read_text().strip() == "requeue 7_3"


def test_slurm_refuses_arrays_that_leave_parts_out(slurm):
    process = slurm("exit 0", SLURM_ARRAY_TASK_MIN="2")
    assert "CHUNKWISE_ARRAY_SIZE" in process.communicate(timeout=30)[1]
    assert process.returncode == 2
    process = slurm("exit 0", SLURM_ARRAY_TASK_MIN="2", CHUNKWISE_ARRAY_SIZE="40")
    process.communicate(timeout=30)
    assert "--array-size 40" in (slurm.folder / "args").read_text()


def test_stage_by_stage(worker_help, tmp_path):
    """The way of docs/slurm.md, with the script started part by part: the outputs are those of a run on threads."""
    for name in ("here", "there"):
        shutil.copytree(ROOT / "examples" / "data" / "winds.zarr", tmp_path / name / "data" / "winds.zarr")
        shutil.copy(ROOT / "examples" / "winds.yaml", tmp_path / name)
    chunkwise("run", tmp_path / "here" / "winds.yaml", "--allowed-mem", "100MB", "--work-dir", tmp_path / "here" / "work").ok()
    limits = ["--allowed-mem", "100MB", "--work-dir", tmp_path / "there" / "work"]
    plan = tmp_path / "plan.json"
    plan.write_text(chunkwise("plan", tmp_path / "there" / "winds.yaml", *limits, "--format", "json").ok().stdout)
    total = 0
    for line in succeeded(call(sys.executable, INFRA / "stages", plan)).splitlines():
        stage, tasks, memory, _ = line.split("\t")
        parts = min(int(tasks), 3)
        for part in range(parts):
            variables = {"ARRAY_JOB_ID": 1, "ARRAY_TASK_ID": part, "ARRAY_TASK_MIN": 0, "ARRAY_TASK_MAX": parts - 1, "ARRAY_TASK_STEP": 1}
            variables = {**variables, "MEM_PER_NODE": int(memory) // (1 << 20) + 65, "CPUS_PER_TASK": 1}
            environment = {**os.environ, "CHUNKWISE": binary(), **{f"SLURM_{k}": str(v) for k, v in variables.items()}}
            succeeded(call("bash", SBATCH, plan, stage, env=environment))
        total += int(tasks)
    report = chunkwise("run", plan, "--resume", "--json").ok().report
    assert report["skipped"] == total and report["tasks"] == 0
    for name in ("speed", "climatology", "anomaly", "average", "speed_series"):
        here, there = (read_array(tmp_path / side / "out" / "winds.zarr" / name) for side in ("here", "there"))
        np.testing.assert_array_equal(here, there)


# AWS Batch


NAMES = {"InputBucket": "in", "InputPrefix": "era", "WorkBucket": "mine", "WorkPrefix": "work", "OutputBucket": "mine", "OutputPrefix": "results/x"}


@pytest.fixture(scope="module")
def batch():
    return load(BATCH)


def test_the_batch_template_is_valid():
    succeeded(call(checker("cfn-lint"), "--non-zero-exit-code", "informational", "--template", BATCH))


def test_workers_reach_their_prefixes_only(batch):
    policies = resolve(batch["Resources"]["JobRole"]["Properties"]["Policies"], NAMES)
    statements = [s for p in policies for s in p["PolicyDocument"]["Statement"]]
    prefixes = ("arn:aws:s3:::in/era/*", "arn:aws:s3:::mine/work/*", "arn:aws:s3:::mine/results/x/*")
    for s in statements:
        assert s["Effect"] == "Allow" and not any("*" in a for a in listed(s["Action"]))
        for resource in listed(s["Resource"]):
            if s["Action"] == "s3:ListBucket":
                assert "*" not in resource and s["Condition"]["StringLike"]["s3:prefix"]
            else:
                assert resource in prefixes
    for action, key, expected in [
        ("s3:GetObject", "in/era/u/c/0", True),
        ("s3:PutObject", "in/era/u/c/0", False),
        ("s3:DeleteObject", "in/era/u/c/0", False),
        ("s3:GetObject", "in/erased/x", False),
        ("s3:PutObject", "mine/work/run/tmp", True),
        ("s3:DeleteObject", "mine/results/x/c/0", True),
        ("s3:GetObject", "mine/results/y/c/0", False),
        ("s3:GetObject", "other/work/x", False),
        ("s3:PutBucketPolicy", "mine", False),
    ]:
        assert allows(statements, action, f"arn:aws:s3:::{key}") == expected, (action, key)
    assert allows(statements, "s3:ListBucket", "arn:aws:s3:::in", "era/u/")
    assert not allows(statements, "s3:ListBucket", "arn:aws:s3:::in", "")
    assert not allows(statements, "s3:ListBucket", "arn:aws:s3:::in")


def test_prefixes_cannot_widen_the_policy(batch):
    for name in NAMES:
        pattern = batch["Parameters"][name]["AllowedPattern"]
        good = "data" if name.endswith("Bucket") else "data/v1=x/y.zarr"
        assert re.fullmatch(pattern, good)
        for bad in ["", "*", "a*", "/a", "a/", "a?", "${aws:username}"]:
            assert not re.fullmatch(pattern, bad), (name, bad)


def test_other_roles_have_what_they_need_and_no_more(batch):
    roles = {k: v["Properties"] for k, v in batch["Resources"].items() if v["Type"] == "AWS::IAM::Role"}
    assert set(roles) == {"JobRole", "ExecutionRole", "InstanceRole"}
    text = yaml.safe_dump(roles["ExecutionRole"])
    assert set(re.findall(r"(?:logs|ecr|s3|iam|ec2|sts):\w+", text)) == {
        "logs:CreateLogStream", "logs:PutLogEvents", "ecr:GetAuthorizationToken", "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "sts:AssumeRole",
    }  # fmt: skip
    assert not any(p.get("AuthorizeIngress") for p in roles.values())
    assert "SecurityGroupIngress" not in batch["Resources"]["SecurityGroup"]["Properties"]


def test_what_failed_for_good_is_not_tried_again(batch):
    rules = batch["Resources"]["Worker"]["Properties"]["RetryStrategy"]["EvaluateOnExit"]
    assert len(rules) <= 5, "the service takes no more"

    def action(code, status="Essential container in task exited", reason=""):
        said = {"OnExitCode": str(code), "OnStatusReason": status, "OnReason": reason}
        return next(r["Action"] for r in rules if all(fnmatch.fnmatchcase(said[k], v) for k, v in r.items() if k != "Action"))

    assert action("", "Host EC2 (instance i-0123) terminated.") == "RETRY"
    assert action("", "Your Spot Task was interrupted.") == "RETRY"
    assert [action(c) for c in (11, 14)] == ["RETRY", "RETRY"]
    assert [action(c) for c in (1, 2, 10, 12, 13, 137)] == ["EXIT"] * 6


def test_the_command_of_the_job_definition(batch):
    worker = batch["Resources"]["Worker"]["Properties"]
    words = [w for w in worker["ContainerProperties"]["Command"] if isinstance(w, str)]
    assert {w.removeprefix("Ref::") for w in words if w.startswith("Ref::")} == set(worker["Parameters"])
    assert words[0] == "worker" and worker["ContainerProperties"]["ReadonlyRootFilesystem"] is True


# Guides


@pytest.mark.parametrize("page", ["containers", "kubernetes", "slurm", "aws-batch", "aws", "memory"])
def test_guides_name_what_is_there(tmp_path, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for path in set(re.findall(r"(?<![\w/])infra/[\w./-]*\w", text)):
        assert (ROOT / path).exists(), f"docs/{page}.md names {path}"
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / "docs" / link).exists(), f"docs/{page}.md links to {link}"
    for i, script in enumerate(re.findall(r"```bash\n(.*?)```", text, re.S)):
        (tmp_path / f"{i}.sh").write_text(script)
        succeeded(call(checker("shellcheck"), "--shell=bash", "--exclude=SC2034", tmp_path / f"{i}.sh"))
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for key in re.findall(r"--set(?:-string|-json|-file)?[ =]'?([\w.]+)=", text):
        found = values
        for part in key.split("."):
            assert part in found or found == {}, f"docs/{page}.md sets {key}, which is no value of the chart"
            found = found.get(part, {})
            found = found if isinstance(found, dict) else {}
