"""chunkwise-lambda in MiniStack, which runs it over the real Runtime API and is called through the real API of Lambda."""

import base64
import io
import json
import os
import pathlib
import shutil
import subprocess
import zipfile

import boto3
from botocore.config import Config
from harness import binary

from .servers import MissingService, s3_env


def bootstrap():
    """The program of the function, built beside the command."""
    path = pathlib.Path(os.environ.get("CHUNKWISE_BOOTSTRAP") or pathlib.Path(binary()).with_name("bootstrap"))
    if not path.is_file():
        raise MissingService(f"{path} is not there: cargo build -p chunkwise-lambda, or point CHUNKWISE_BOOTSTRAP at it")
    return path


def stripped(folder, program=None):
    """A program, or that of the function, without what only debuggers read, for it is sent through JSON."""
    target = pathlib.Path(folder) / "bootstrap"
    if not target.exists():
        shutil.copy(program or bootstrap(), target)
        subprocess.run(["strip", str(target)], check=True)
    return target


def archive(files):
    """A zip of `{name: bytes}` whose files can be executed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = 0o755 << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return out.getvalue()


# Holds the program to less memory than Lambda's emulator says: the emulator has no limit of its own.
IN_CGROUP = """#!/bin/sh
echo $$ >"$CHUNKWISE_TEST_CGROUP/cgroup.procs" || exit 3
exec "$(dirname "$0")/program"
"""

# The first environment has no network, also not to the service that gives it invocations.
WITHOUT_NETWORK = """#!/bin/sh
if mkdir "$CHUNKWISE_TEST_ONCE" 2>/dev/null; then exec unshare --net "$(dirname "$0")/program" >"$CHUNKWISE_TEST_ONCE/said" 2>&1; fi
exec "$(dirname "$0")/program"
"""

# Another program, which greets whatever it is asked.
OTHER = """#!/usr/bin/env python3
import os, urllib.request
runtime = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation"
while True:
    with urllib.request.urlopen(f"{runtime}/next") as event:
        number = event.headers["Lambda-Runtime-Aws-Request-Id"]
        event.read()
    urllib.request.urlopen(f"{runtime}/{number}/response", data=b'"hello"').close()
"""

# Ends at once as often as there is a file to remove.
FAILS_AT_FIRST = """#!/bin/sh
for f in "$CHUNKWISE_TEST_FAILURES"/*; do
  if [ -e "$f" ] && rm "$f" 2>/dev/null; then echo "told to fail" >&2; exit 1; fi
done
exec "$(dirname "$0")/program"
"""


class Function:
    """A function of its own; leaving the block deletes it."""

    def __init__(self, server, name, program, prefixes, memory=512, timeout=60, wrapper=None, reserved=None, s3=None, **variables):
        self.server, self.name = server, name
        self.client = self.connect(server.url)
        files = {"bootstrap": program.read_bytes()} if wrapper is None else {"bootstrap": wrapper, "program": program.read_bytes()}
        environment = {"AWS_ENDPOINT_URL": s3 or server.url, "AWS_ALLOW_HTTP": "true", "CHUNKWISE_ALLOWED_PREFIXES": ",".join(prefixes)}
        self.client.create_function(
            FunctionName=name,
            Runtime="provided.al2023",
            Handler="bootstrap",
            Role="arn:aws:iam::000000000000:role/chunkwise",
            Code={"ZipFile": archive(files)},
            MemorySize=memory,
            Timeout=timeout,
            Environment={"Variables": {**environment, **variables}},
        )
        if reserved is not None:
            self.client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=reserved)

    @staticmethod
    def connect(url):
        config = Config(retries={"max_attempts": 1}, read_timeout=120)
        keys = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
        return boto3.client("lambda", endpoint_url=url, config=config, **keys)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.delete_function(FunctionName=self.name)

    @property
    def env(self):
        """What the command needs to know."""
        return s3_env(self.server.url)

    def invoke(self, event, **options):
        """The answer, or the error, and the end of its log."""
        payload = event if isinstance(event, (bytes, str)) else json.dumps(event)
        done = self.client.invoke(FunctionName=self.name, Payload=payload, LogType="Tail", **options)
        log = base64.b64decode(done.get("LogResult", "")).decode()
        answer = json.loads(done["Payload"].read())
        return answer, done.get("FunctionError"), log
