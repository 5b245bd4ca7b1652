"""A stack of `infra/aws` in the emulator: deployed and destroyed through the API of CloudFormation, as anywhere."""

import io
import json
import pathlib
import time
import zipfile

import boto3

from .function import bootstrap
from .servers import MiniStack, npm_program

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INFRA = ROOT / "infra" / "aws"
TEMPLATE = INFRA / "chunkwise.yaml"
MACHINE = INFRA / "state-machine.asl.json"


class Aws(MiniStack):
    """MiniStack that enforces the policies of roles and users."""

    def arguments(self):
        program, env = super().arguments()
        # Functions inherit the environment of the emulator.
        return program, {**env, "AUTH": "true", "AWS_ENDPOINT_URL": self.url}

    def client(self, service, key="test", secret="test"):
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret)


def function_zip():
    """What is deployed: a zip with the program in it, which can be executed."""
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = 0o755 << 16
    out = io.BytesIO()
    # Not compressed: it is written and read once.
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(entry, bootstrap().read_bytes())
    return out.getvalue()


def asl_validator():
    """The validator of state machines, from npm."""
    return npm_program("asl-validator", "4.0.0")


class Stack:
    """A deployed stack."""

    def __init__(self, aws, name="cw", **parameters):
        self.aws, self.name = aws, name
        self.parameters = {"CodeBucket": "code", "CodeKey": "bootstrap.zip", "StateMachineKey": "state-machine.asl.json", **parameters}
        self.formation = aws.client("cloudformation")

    def deploy(self):
        s3 = self.aws.client("s3")
        s3.create_bucket(Bucket="code")
        s3.put_object(Bucket="code", Key="bootstrap.zip", Body=function_zip())
        s3.put_object(Bucket="code", Key="state-machine.asl.json", Body=MACHINE.read_bytes())
        self.formation.create_stack(
            StackName=self.name,
            TemplateBody=TEMPLATE.read_text(),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in self.parameters.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        self.formation.get_waiter("stack_create_complete").wait(StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        found = self.formation.describe_stacks(StackName=self.name)["Stacks"][0]
        self.outputs = {o["OutputKey"]: o["OutputValue"] for o in found["Outputs"]}
        return self

    def resources(self):
        """Physical ids by type."""
        found = {}
        for r in self.formation.describe_stack_resources(StackName=self.name)["StackResources"]:
            found.setdefault(r["ResourceType"], []).append(r["PhysicalResourceId"])
        return found

    def execution(self, run):
        states = self.aws.client("stepfunctions")
        return states.describe_execution(executionArn=self.outputs["StateMachine"].replace(":stateMachine:", ":execution:") + f":{run}")

    def wait(self, run, seconds=60):
        end = time.monotonic() + seconds
        while (found := self.execution(run))["status"] == "RUNNING":
            assert time.monotonic() < end, f"{run} takes longer than {seconds} s"
            time.sleep(0.2)
        return found

    def runs(self):
        states = self.aws.client("stepfunctions")
        return [e["name"] for e in states.list_executions(stateMachineArn=self.outputs["StateMachine"])["executions"]]

    def start(self, name, **event):
        states = self.aws.client("stepfunctions")
        states.start_execution(stateMachineArn=self.outputs["StateMachine"], name=name, input=json.dumps(event))
        return self.wait(name)

    def keys(self, bucket, prefix):
        pages = self.aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [o["Key"] for p in pages for o in p.get("Contents", [])]

    def objects(self, bucket, prefix):
        """Every object under a prefix, by what comes after it."""
        s3 = self.aws.client("s3")
        return {k.removeprefix(prefix): s3.get_object(Bucket=bucket, Key=k)["Body"].read() for k in self.keys(bucket, prefix)}

    def destroy(self):
        """As documented: what is in the bucket goes first."""
        s3 = self.aws.client("s3")
        for key in self.objects(self.outputs["Bucket"], ""):
            s3.delete_object(Bucket=self.outputs["Bucket"], Key=key)
        self.formation.delete_stack(StackName=self.name)
        self.formation.get_waiter("stack_delete_complete").wait(StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
