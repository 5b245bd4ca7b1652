"""`infra/aws`: it is valid, asks for no more rights than it needs, and in the emulator is deployed, runs pipelines, and is destroyed.

The emulator enforces the policies of the stack's roles, runs the real function over the real Runtime API, and the real state machine.
"""

import datetime
import functools
import hashlib
import json
import math
import pathlib
import re
import subprocess
import time

import numpy as np
import pytest
from harness import chunkwise, write_array
from services.aws import MACHINE, TEMPLATE, Aws, Stack, asl_validator
from services.servers import s3_env
from services.template import allows, listed, load, resolve
from services.tools import checker

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH = ROOT / "infra" / "aws-batch" / "chunkwise.yaml"

# Several stages; INPUTS and OUTPUTS are places.
PIPELINE = """
inputs:
  u: INPUTS/winds.zarr/uwnd
  v: INPUTS/winds.zarr/vwnd
arrays:
  speed: sqrt(u**2 + v**2)
  climatology: groupby_mean(speed, "time.month")
outputs:
  OUTPUTS/winds.zarr/anomaly: speed - lookup(climatology, "time.month")
  OUTPUTS/winds.zarr/series: {array: speed, chunks: {time: -1, lat: 10, lon: 10}}
"""
INPUTS, PREFIX = "s3://inputs/era/v1", "era/v1"


# The template


def call(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{done.args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.fixture(scope="module")
def template():
    return load(TEMPLATE)


@pytest.fixture(scope="module")
def machine():
    return json.loads(MACHINE.read_text())


def states(machine):
    """All states, also those inside maps."""
    for name, state in machine["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from states(state["ItemProcessor"])


def test_the_template_is_valid():
    call(checker("cfn-lint"), "--non-zero-exit-code", "informational", "--template", TEMPLATE)


def test_the_state_machine_is_valid():
    call(asl_validator(), "--json-path", MACHINE)


def test_what_the_state_machine_is_given_is_what_it_takes(template):
    given = set(template["Resources"]["StateMachine"]["Properties"]["DefinitionSubstitutions"])
    assert set(re.findall(r"\$\{(\w+)\}", MACHINE.read_text())) == given


def test_only_what_may_pass_is_tried_again(machine):
    tasks = {name: s for name, s in states(machine) if s["Type"] == "Task"}
    assert {"Plan", "Run", "Finish"} <= set(tasks)
    for name in ("Plan", "Run", "Finish"):
        again = [e for r in tasks[name]["Retry"] for e in r["ErrorEquals"]]
        assert "Lambda.TooManyRequestsException" in again and "TransientError" in again
        # What is refused or fails for good fails again, and these names would include it.
        assert not {"Refused", "PermanentError", "States.ALL", "States.TaskFailed"} & set(again)
    # Everything else ends in the state that says why.
    assert all(s.get("Catch") for name, s in tasks.items() if name != "Run")


def test_the_nested_stack_is_given_what_the_batch_template_takes(template):
    given, taken = set(template["Resources"]["Batch"]["Properties"]["Parameters"]), load(BATCH)["Parameters"]
    assert given <= set(taken) and {k for k, v in taken.items() if "Default" not in v} <= given


NAMES = {
    "InputBucket": "in", "InputPrefix": "era", "SecondInputBucket": "more", "SecondInputPrefix": "x", "OutputBucket": "out",
    "OutputPrefix": "mine", "Bucket.Arn": "arn:aws:s3:::own",
}  # fmt: skip


def test_the_function_reaches_its_prefixes_only(template):
    def chosen(value):
        """As if every condition held."""
        if isinstance(value, dict):
            return chosen(value["If"][1]) if list(value) == ["If"] else {k: chosen(v) for k, v in value.items()}
        return [chosen(v) for v in value] if isinstance(value, list) else value

    policies = chosen(template["Resources"]["FunctionRole"]["Properties"]["Policies"])
    (storage,) = [resolve(p, NAMES)["PolicyDocument"]["Statement"] for p in policies if p["PolicyName"] == "storage"]
    assert not any("*" in a for s in storage for a in listed(s["Action"]))
    for action, key, expected in [
        ("s3:GetObject", "in/era/u/c/0", True),
        ("s3:GetObject", "more/x/u", True),
        ("s3:GetObject", "own/pipelines/a.yaml", True),
        ("s3:PutObject", "own/work/1f/plan.json", True),
        ("s3:DeleteObject", "own/results/a.zarr/c/0", True),
        ("s3:PutObject", "out/mine/a", True),
        ("s3:PutObject", "in/era/u/c/0", False),
        ("s3:PutObject", "own/pipelines/a.yaml", False),
        ("s3:GetObject", "in/erased/u", False),
        ("s3:GetObject", "out/other/a", False),
        ("s3:GetObject", "own/else", False),
        ("s3:GetObject", "foreign/era/u", False),
        ("s3:DeleteBucket", "own", False),
    ]:
        assert allows(storage, action, f"arn:aws:s3:::{key}") == expected, (action, key)
    assert allows(storage, "s3:ListBucket", "arn:aws:s3:::in", "era/u/") and not allows(storage, "s3:ListBucket", "arn:aws:s3:::in", "")
    assert not allows(storage, "s3:ListBucket", "arn:aws:s3:::own")


def test_parameters_cannot_widen_the_policy(template):
    for name in ("InputBucket", "InputPrefix", "SecondInputBucket", "SecondInputPrefix", "OutputBucket", "OutputPrefix", "CodeBucket"):
        pattern, optional = template["Parameters"][name]["AllowedPattern"], "Default" in template["Parameters"][name]
        assert re.fullmatch(pattern, "data" if name.endswith("Bucket") else "data/v1=x/y.zarr")
        assert bool(re.fullmatch(pattern, "")) == optional
        for bad in ["*", "a*", "/a", "a/", "a?", "${aws:username}", 'a"']:
            assert not re.fullmatch(pattern, bad), (name, bad)
    url = template["Parameters"]["ScheduledPipeline"]["AllowedPattern"]
    assert re.fullmatch(url, "s3://b/p/x.yaml") and not re.fullmatch(url, 's3://b/x", "action": "clean')


def test_stars_are_where_services_know_no_resources(template):
    free = {"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets"}
    network = {"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface"}
    network |= {"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"}
    found = []

    def look(value):
        if isinstance(value, dict):
            if value.get("Effect") == "Allow":
                found.append(value)
            for v in value.values():
                look(v)
        elif isinstance(value, list):
            for v in value:
                look(v)

    roles = [r for r in template["Resources"].values() if r["Type"] == "AWS::IAM::Role"]
    look(roles)
    assert len(roles) == 3 and len(found) > 10
    for s in (s for s in found if s.get("Resource") == "*"):
        assert set(s["Action"]) <= free or set(s["Action"]) == network


def test_the_bucket_is_private_and_is_emptied(template):
    """The emulator takes no notice of the lifecycle."""
    bucket = template["Resources"]["Bucket"]["Properties"]
    assert all(bucket["PublicAccessBlockConfiguration"].values()) and len(bucket["PublicAccessBlockConfiguration"]) == 4
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    rules = {r["Id"]: r for r in bucket["LifecycleConfiguration"]["Rules"] if r["Status"] == "Enabled"}
    assert rules["work"]["Prefix"] == "work/" and rules["work"]["ExpirationInDays"] == {"Ref": "WorkDays"}
    assert rules["uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    (deny,) = template["Resources"]["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert deny["Effect"] == "Deny" and deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


# Deployed


@pytest.fixture(scope="module")
def aws():
    with Aws() as server:
        yield server


@pytest.fixture(scope="module")
def stack(aws):
    s3 = aws.client("s3")
    for bucket in ("inputs", "foreign"):
        s3.create_bucket(Bucket=bucket)
    source = ROOT / "examples" / "data"
    for file in (source / "winds.zarr").rglob("*"):
        if file.is_file():
            s3.put_object(Bucket="inputs", Key=f"{PREFIX}/{file.relative_to(source)}", Body=file.read_bytes())
    return Stack(aws, InputBucket="inputs", InputPrefix=PREFIX, RequireTls="false", Memory="512", Timeout="60").deploy()


@pytest.fixture(scope="module")
def env(aws):
    return {**s3_env(aws.url), "CHUNKWISE_STACK": "cw"}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """What a local run writes: every object of the store."""
    folder = tmp_path_factory.mktemp("local")
    file = folder / "winds.yaml"
    file.write_text(PIPELINE.replace("INPUTS", str(ROOT / "examples" / "data")).replace("OUTPUTS", str(folder)))
    # The same memory, so that the plan is cut in the same way.
    chunkwise("run", file, "--work-dir", folder / "work", "--allowed-mem", "512MiB").ok()
    store = folder / "winds.zarr"
    return {f"/{f.relative_to(store)}": f.read_bytes() for f in store.rglob("*") if f.is_file()}


def pipeline(stack, name):
    return PIPELINE.replace("INPUTS", INPUTS).replace("OUTPUTS", f"{stack.outputs['Results']}/{name}")


def same(stack, name, local):
    """The results of a run are byte for byte those of the local one."""
    found = stack.objects(stack.outputs["Bucket"], f"results/{name}/winds.zarr")
    assert set(found) == set(local)
    differ = [k for k in found if found[k] != local[k]]
    assert not differ, differ


def invocations(stack, run):
    """What the invocations of a run that ran tasks have logged at their end."""
    group, trace = stack.outputs["LogGroup"], hashlib.md5(run.encode()).hexdigest()
    events = stack.aws.client("logs").filter_log_events(logGroupName=group, filterPattern=f'"{trace}"')["events"]
    lines = [json.loads(e["message"]) for e in events]
    return [line for line in lines if line.get("action") == "run_tasks"]


def test_the_stack_is_what_was_asked_for(aws, stack):
    kinds = stack.resources()
    function = aws.client("lambda").get_function_configuration(FunctionName=stack.outputs["Function"])
    assert (function["Runtime"], function["MemorySize"], function["Architectures"]) == ("provided.al2023", 512, ["x86_64"])
    prefixes = function["Environment"]["Variables"]["CHUNKWISE_ALLOWED_PREFIXES"].split(",")
    bucket = f"s3://{stack.outputs['Bucket']}"
    assert prefixes == [INPUTS, f"{bucket}/pipelines", f"{bucket}/work", f"{bucket}/results"]
    s3 = aws.client("s3")
    assert s3.get_bucket_encryption(Bucket=stack.outputs["Bucket"])["ServerSideEncryptionConfiguration"]["Rules"]
    assert all(s3.get_public_access_block(Bucket=stack.outputs["Bucket"])["PublicAccessBlockConfiguration"].values())
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=stack.outputs["LogGroup"])["logGroups"]
    assert [g["retentionInDays"] for g in groups] == [14]
    alarms = aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert {a["MetricName"] for a in alarms} == {"Errors", "Throttles", "ApproximateNumberOfMessagesVisible", "ExecutionsFailed"}
    assert len(kinds["AWS::CloudWatch::Alarm"]) == 4 and not any(k.startswith("AWS::Batch") for k in kinds)
    destination = aws.client("lambda").get_function_event_invoke_config(FunctionName=stack.outputs["Function"], Qualifier="$LATEST")
    assert destination["DestinationConfig"]["OnFailure"]["Destination"].startswith("arn:aws:sqs:")


def test_a_pipeline_that_is_put_is_run(aws, stack, local):
    before = set(stack.runs())
    aws.client("s3").put_object(Bucket=stack.outputs["Bucket"], Key="pipelines/winds.yaml", Body=pipeline(stack, "put").encode())
    end = time.monotonic() + 30
    while not (new := set(stack.runs()) - before):
        assert time.monotonic() < end, "nothing was started"
        time.sleep(0.1)
    found = stack.wait(new.pop())
    assert found["status"] == "SUCCEEDED", found["cause"]
    assert json.loads(found["input"]) == {"pipeline": f"{stack.outputs['Pipelines']}/winds.yaml"}
    same(stack, "put", local)

    # What a schedule sends, or anybody who may start the state machine: the outputs are replaced.
    event = {"pipeline": f"{stack.outputs['Pipelines']}/winds.yaml"}
    assert "exists" in stack.start("again", **event)["cause"]
    assert stack.start("by-the-clock", **event, mode="overwrite")["status"] == "SUCCEEDED"
    same(stack, "put", local)
    # An event cannot make the function do anything but plan, nor anything that plans do not know.
    found = stack.start("disguised", **event, action="clean", plan="x")
    assert found["status"] == "FAILED" and "unknown field" in found["cause"]


def test_submit_status_and_logs(stack, env, local, tmp_path):
    file = tmp_path / "winds.yaml"
    file.write_text(pipeline(stack, "submitted"))
    done = chunkwise("submit", file, "--wait", env=env).ok()
    run = done.stdout.strip()
    assert run.startswith("winds-20") and "planned: " in done.stderr
    same(stack, "submitted", local)

    status = json.loads(chunkwise("status", run, "--json", env=env).ok().stdout)
    assert status["state"] == "succeeded" and status["progress"]["state"] == "published"
    assert sorted(status["outputs"]) == [f"{stack.outputs['Results']}/submitted/winds.zarr/{a}" for a in ("anomaly", "series")]
    text = chunkwise("status", run, env=env).ok().stdout
    assert text.startswith(f"{run} succeeded") and "stage 0" in text

    lines = chunkwise("logs", run, env=env).ok().stdout.splitlines()
    assert sum("action=plan" in line for line in lines) == 1 and sum("action=finish" in line for line in lines) == 1
    assert any("action=run_tasks" in line for line in lines)
    # Those of other runs are not among them.
    assert len(lines) < len(stack.aws.client("logs").filter_log_events(logGroupName=stack.outputs["LogGroup"])["events"])

    chunkwise("cancel", run, env=env).failed("is over")
    # Outputs are not replaced unasked.
    chunkwise("submit", file, "--wait", env=env).failed("exists")
    chunkwise("submit", file, "--wait", "--overwrite", env=env).ok()
    same(stack, "submitted", local)


def test_a_driver_here_uses_the_function_of_the_stack(stack, env, local, tmp_path):
    file = tmp_path / "winds.yaml"
    file.write_text(pipeline(stack, "driven"))
    args = ["--stack", "cw", "--allowed-mem", "512MiB"]
    done = chunkwise("run", file, *args, "--json", env=env).ok()
    same(stack, "driven", local)
    # Intermediates and reports were in the bucket of the stack, and what it cost is what the function was used for.
    assert done.report["executor"] == "lambda" and stack.objects(stack.outputs["Bucket"], f"work/{done.report['id']}/plan.json")
    cost, usage = done.report["cost"], done.report["usage"]
    assert cost["billed"] and cost["region"] == "us-east-1"
    assert (cost["actual"]["invocations"], cost["actual"]["gb_seconds"]) == (usage["invocations"], usage["gb_seconds"])
    assert cost["actual_money"]["function"] > 0
    assert "\ncost 0.0" in chunkwise("run", file, *args, "--overwrite", env=env).ok().stderr


def test_what_fails_says_why(stack, env, tmp_path):
    topic, sqs = stack.aws.client("sns"), stack.aws.client("sqs")
    queue = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": arn}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [policy]})})
    topic.subscribe(TopicArn=stack.outputs["Topic"], Protocol="sqs", Endpoint=arn)

    file = tmp_path / "foreign.yaml"
    file.write_text(pipeline(stack, "foreign").replace(INPUTS, "s3://foreign/era"))
    chunkwise("submit", file, "--wait", env=env).failed("s3://foreign/era", "outside of what may be read")
    messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5).get("Messages", [])
    assert any("s3://foreign/era" in m["Body"] for m in messages), messages

    # A task that fails: its chunk is damaged. The cause is what the task has reported, not that some item of a map has failed.
    s3 = stack.aws.client("s3")
    for key, body in stack.objects("inputs", f"{PREFIX}/winds.zarr/uwnd").items():
        s3.put_object(Bucket="inputs", Key=f"{PREFIX}/damaged.zarr/uwnd{key}", Body=body[: len(body) // 2] if key.startswith("/c/") else body)
    file.write_text(f"inputs: {{u: {INPUTS}/damaged.zarr/uwnd}}\noutputs: {{'{stack.outputs['Results']}/damaged.zarr': u * 2}}\n")
    done = chunkwise("submit", file, "--wait", env=env).failed("Chunkwise.TaskFailed", "damaged.zarr")
    run = done.stdout.strip()
    chunkwise("status", run, env=env).failed("has failed")
    assert "ERROR" in chunkwise("logs", run, env=env).ok().stdout

    file.write_text("inputs: {}\noutputs: {")
    chunkwise("submit", file, "--wait", env=env).failed("the pipeline is wrong")


def test_what_cannot_be_handed_over(stack, env, tmp_path):
    file = tmp_path / "x.yaml"
    chunkwise("submit", file, env=env).failed("cannot read")
    chunkwise("status", "nothing", env=env).failed("nothing")
    chunkwise("status", "a/b", env=env).failed("no name of a run")
    chunkwise("status", "x", "--stack", "other", env=env).failed("other")
    chunkwise("status", "x", env={k: v for k, v in env.items() if k != "CHUNKWISE_STACK"}).failed("--stack")


def slow(x, times=40):
    """An expression that takes a while."""
    return functools.reduce(lambda inner, i: f"arctan2({inner}, {x} + {i})", range(times), x)


def put_array(stack, folder, name, values, chunks):
    """Writes an array here and to the inputs of the stack."""
    write_array(folder / name, values, chunks=chunks)
    for file in (folder / name).rglob("*"):
        if file.is_file():
            stack.aws.client("s3").put_object(Bucket="inputs", Key=f"{PREFIX}/{file.relative_to(folder)}", Body=file.read_bytes())


def test_cancelled_runs_can_be_resumed(stack, env, tmp_path):
    """A run is cancelled when it has done some of its tasks; the next one takes over what they have written, and does the others."""
    put_array(stack, tmp_path, "some.zarr", np.random.default_rng(1).random((16, 1 << 18)), (1, 1 << 18))
    text = f"""
inputs: {{x: INPUTS/some.zarr}}
outputs: {{"OUTPUTS/cancelled.zarr": {{array: "{slow("x")}", chunks: [1, -1]}}}}
"""
    file, here = tmp_path / "some.yaml", tmp_path / "here.yaml"
    file.write_text(text.replace("INPUTS", INPUTS).replace("OUTPUTS", stack.outputs["Results"]))
    here.write_text(text.replace("INPUTS", str(tmp_path)).replace("OUTPUTS", str(tmp_path)))
    bucket, function, states = stack.outputs["Bucket"], stack.aws.client("lambda"), stack.aws.client("stepfunctions")

    def done():
        return [k for k in stack.keys(bucket, "results/cancelled.zarr/") if "/c/" in k]

    def at_once(n):
        function.put_function_concurrency(FunctionName=stack.outputs["Function"], ReservedConcurrentExecutions=n)

    at_once(1)
    try:
        event = {"document": file.read_text(), "batch": 1}
        states.start_execution(stateMachineArn=stack.outputs["StateMachine"], name="to-be-cancelled", input=json.dumps(event))
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end and stack.execution("to-be-cancelled")["status"] == "RUNNING"
            time.sleep(0.02)
        # Nothing more can start. The run is stopped all the same; that the function is not told yet is an error, and can be repeated.
        at_once(0)
        chunkwise("cancel", "to-be-cancelled", env=env).failed("TooManyRequests")
    finally:
        function.delete_function_concurrency(FunctionName=stack.outputs["Function"])
    chunkwise("cancel", "to-be-cancelled", env=env).ok()
    chunkwise("status", "to-be-cancelled", env=env).failed("was cancelled")
    assert stack.execution("to-be-cancelled")["status"] == "ABORTED"
    # What the function was doing is not stopped.
    before = []
    while before != (before := done()):
        time.sleep(3)
    assert 0 < len(before) < 16 and not stack.keys(bucket, "results/cancelled.zarr/zarr.json"), before

    run = chunkwise("submit", file, "--resume", "--wait", env=env).ok().stdout.strip()
    history = states.get_execution_history(executionArn=stack.execution(run)["executionArn"])["events"]
    (planned,) = [e["stateExitedEventDetails"] for e in history if e.get("stateExitedEventDetails", {}).get("name") == "Plan"]
    (stage,) = json.loads(planned["output"])["run"]["stages"]
    assert 0 < stage["done"] < stage["tasks"] and stage["done"] * 16 / stage["tasks"] <= len(before), (stage, before)
    chunkwise("run", here, "--work-dir", tmp_path / "work", "--allowed-mem", "512MiB").ok()
    found = stack.objects(bucket, "results/cancelled.zarr")
    assert found == {f"/{f.relative_to(tmp_path / 'cancelled.zarr')}": f.read_bytes() for f in (tmp_path / "cancelled.zarr").rglob("*") if f.is_file()}


def test_throttled_invocations_are_tried_again(stack, local):
    """One at a time, where the state machine starts two. The emulator calls it Lambda.Unknown, which is tried again three times."""
    function = stack.aws.client("lambda")
    function.put_function_concurrency(FunctionName=stack.outputs["Function"], ReservedConcurrentExecutions=1)
    try:
        found = stack.start("throttled", document=pipeline(stack, "throttled"), batch=1)
    finally:
        function.delete_function_concurrency(FunctionName=stack.outputs["Function"])
    assert found["status"] == "SUCCEEDED", found["cause"]
    dimensions = [{"Name": "FunctionName", "Value": stack.outputs["Function"]}]
    now = datetime.datetime.now(datetime.UTC)
    points = stack.aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/Lambda", MetricName="Throttles", Dimensions=dimensions, Statistics=["Sum"], Period=3600,
        StartTime=now - datetime.timedelta(hours=1), EndTime=now + datetime.timedelta(hours=1),
    )["Datapoints"]  # fmt: skip
    assert sum(p["Sum"] for p in points) > 0
    same(stack, "throttled", local)


def once(stack, name, event):
    """A run in one invocation: how long that took, in seconds."""
    found = stack.start(name, **event)
    assert found["status"] == "SUCCEEDED", found["cause"]
    (only,) = invocations(stack, name)
    return only["seconds"]


def test_what_is_not_finished_in_time_goes_on_in_the_next_invocation(stack, env, tmp_path):
    put_array(stack, tmp_path, "x.zarr", np.random.default_rng(1).random((8, 1 << 21)), (1, 1 << 21))
    function = stack.aws.client("lambda")

    def limit(seconds):
        function.update_function_configuration(FunctionName=stack.outputs["Function"], Timeout=seconds)

    # Eight tasks in one range, which take a few seconds, however fast the machine is: a function's time is counted in whole ones.
    for times in (2, 4, 8, 16):
        steps = {f"x{i}": slow(f"x{i - 1}") for i in range(1, times + 1)}
        document = f"""
inputs: {{x0: {INPUTS}/x.zarr}}
arrays: {json.dumps(steps)}
outputs: {{"{stack.outputs["Results"]}/slow.zarr": {{array: x{times}, chunks: [1, -1]}}}}
spec: {{allowed_mem: 200MB}}
"""
        event = {"document": document, "mode": "overwrite", "batch": 100}
        if once(stack, f"in-one-go-{times}", event) > 4:
            break
    expected = stack.objects(stack.outputs["Bucket"], "results/slow.zarr")
    file = tmp_path / "slow.yaml"
    file.write_text(document.replace("[1, -1]", "[4, -1]").replace("slow.zarr", "too-slow.zarr"))
    # A machine with other work may be faster or slower a moment later: then it is measured again.
    for attempt in range(4):
        seconds = once(stack, f"again-{attempt}", event)
        try:
            limit(max(2, math.ceil(0.6 * seconds)))
            found = stack.start(f"piece-by-piece-{attempt}", **event)
            # Two tasks, of which none has enough time, however often it is tried.
            limit(max(1, round(0.4 * seconds)))
            too_slow = chunkwise("submit", file, "--wait", "--overwrite", "--allowed-mem", "520MB", env=env)
        finally:
            limit(60)
        if found["status"] == "SUCCEEDED" and len(invocations(stack, f"piece-by-piece-{attempt}")) >= 2 and too_slow.code:
            break
    assert found["status"] == "SUCCEEDED", found["cause"]
    assert 2 <= len(invocations(stack, f"piece-by-piece-{attempt}")) <= 8
    too_slow.failed(("finished none of its tasks", "timed out"))
    assert stack.objects(stack.outputs["Bucket"], "results/slow.zarr") == expected


def test_the_emulator_denies_what_is_outside_of_the_prefixes(aws, stack):
    """With the policy of the deployed role, requests are answered or refused by S3 itself."""
    iam = aws.client("iam")
    role = stack.outputs["FunctionRole"].rsplit("/", 1)[-1]
    document = iam.get_role_policy(RoleName=role, PolicyName="storage")["PolicyDocument"]
    iam.create_user(UserName="like-the-function")
    iam.put_user_policy(UserName="like-the-function", PolicyName="storage", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName="like-the-function")["AccessKey"]
    s3, own = aws.client("s3", key["AccessKeyId"], key["SecretAccessKey"]), stack.outputs["Bucket"]
    allowed = [
        lambda: s3.get_object(Bucket="inputs", Key=f"{PREFIX}/winds.zarr/uwnd/zarr.json"),
        lambda: s3.list_objects_v2(Bucket="inputs", Prefix=f"{PREFIX}/winds.zarr/"),
        lambda: s3.put_object(Bucket=own, Key="work/x", Body=b"1"),
        lambda: s3.put_object(Bucket=own, Key="results/x", Body=b"1"),
        lambda: s3.delete_object(Bucket=own, Key="results/x"),
        lambda: s3.delete_object(Bucket=own, Key="work/x"),
        lambda: s3.list_objects_v2(Bucket=own, Prefix="pipelines/"),
    ]
    denied = [
        lambda: s3.put_object(Bucket="inputs", Key=f"{PREFIX}/x", Body=b"1"),
        lambda: s3.delete_object(Bucket="inputs", Key=f"{PREFIX}/winds.zarr/uwnd/zarr.json"),
        lambda: s3.get_object(Bucket="inputs", Key="era/v10/x"),
        lambda: s3.list_objects_v2(Bucket="inputs"),
        lambda: s3.list_objects_v2(Bucket="inputs", Prefix="era/"),
        lambda: s3.put_object(Bucket=own, Key="pipelines/evil.yaml", Body=b"1"),
        lambda: s3.put_object(Bucket=own, Key="elsewhere", Body=b"1"),
        lambda: s3.get_object(Bucket="foreign", Key="x"),
        lambda: s3.get_object(Bucket="code", Key="bootstrap.zip"),
        lambda: s3.list_buckets(),
        lambda: s3.delete_bucket(Bucket=own),
    ]
    for request in allowed:
        request()
    for i, request in enumerate(denied):
        with pytest.raises(s3.exceptions.ClientError) as error:
            request()
        assert error.value.response["Error"]["Code"] in ("AccessDenied", "403"), (i, error.value)


def test_destroyed_nothing_is_left(aws, stack):
    """The last one: it takes the stack away."""
    stack.destroy()
    left = {
        "functions": [f["FunctionName"] for f in aws.client("lambda").list_functions()["Functions"]],
        "machines": aws.client("stepfunctions").list_state_machines()["stateMachines"],
        "roles": [r for r in aws.client("iam").list_roles()["Roles"] if r["RoleName"].startswith("cw-")],
        "buckets": [b["Name"] for b in aws.client("s3").list_buckets()["Buckets"] if b["Name"] not in ("code", "inputs", "foreign")],
        "queues": [q for q in aws.client("sqs").list_queues().get("QueueUrls", []) if "told" not in q],
        "topics": aws.client("sns").list_topics()["Topics"],
        "rules": [r for r in aws.client("events").list_rules()["Rules"] if r["Name"].startswith("cw-")],
        "alarms": aws.client("cloudwatch").describe_alarms()["MetricAlarms"],
        "logs": aws.client("logs").describe_log_groups(logGroupNamePrefix="/chunkwise/")["logGroups"],
    }
    assert not any(left.values()), left
