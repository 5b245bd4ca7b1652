"""The six workloads on an S3 server with every executor: byte for byte what a run over files gives, with the requests of the projection."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from faults import Run, files
from harness import chunkwise
from services import MiniStack
from services.podman import IMAGE
from services.servers import stored, upload

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKLOADS = ["quadratic_means", "vorticity", "tem", "climatology", "rechunk", "ata"]
EXECUTORS = ["threads", "processes", "slurm", "kubernetes", "aws-batch", "container"]
ALLOWED = 120_000_000
MIB = 1 << 20
CLEAN = {k: "" for k in os.environ if k.startswith(("AWS_", "AZURE_", "GOOGLE_"))}


class Workload:
    """Inputs in a bucket, and what a run over files on one thread makes of them."""

    def __init__(self, server, folder, name):
        self.server, self.folder, self.name = server, folder, name
        generate = [sys.executable, "-W", "ignore", str(ROOT / "examples/workloads/generate.py"), name, "--small", "--gigabytes", "0.008"]
        subprocess.run([*generate, "--directory", str(folder / "data")], check=True, capture_output=True)
        self.text = (ROOT / f"examples/workloads/{name}.yaml").read_text()
        here = folder / "here.yaml"
        # Planned like those on S3: the steps of a sum follow the share of a worker, and so does the rounding of floats.
        here.write_text(self.planned(self.text.replace("data/", f"{folder}/data/").replace("../out/", f"{folder}/out/"), folder / "work"))
        chunkwise("run", here, "--workers", "1").ok()
        self.expected = files(folder / "out")
        self.store = server.bucket(self.bucket)
        upload(self.store, folder / "data", "data")

    @property
    def bucket(self):
        return "workload-" + self.name.replace("_", "-")

    def pipeline(self, executor):
        """The pipeline with places of its own for the executor, and its plan: for workers that run one task at a time."""
        place = f"s3://{self.bucket}"
        text = self.text.replace("data/", f"{place}/data/").replace("../out/", f"{place}/{executor}/")
        path = self.folder / f"{executor}.yaml"
        path.write_text(self.planned(text, f"{place}/work-{executor}"))
        return path, json.loads(chunkwise("plan", path, "--format", "json", env=self.env).ok().stdout)

    @staticmethod
    def planned(text, work):
        # With so little memory it depends on the place how far chunks can be joined.
        spec = f"spec: {{workers: 1, allowed_mem: {ALLOWED}, join_chunks: false, work_dir: '{work}'}}\n"
        return "".join(spec if line.startswith("spec:") else line for line in text.splitlines(keepends=True))

    @property
    def env(self):
        return {**CLEAN, **self.server.env}

    def objects(self, prefix):
        return stored(self.store, prefix)


@pytest.fixture(scope="module", params=WORKLOADS)
def workload(request, tmp_path_factory):
    with MiniStack() as server:
        yield Workload(server, tmp_path_factory.mktemp(request.param), request.param)


def start(request, executor, workload, path):
    """Runs the pipeline; its report."""
    args, env = ["--workers", "1"], dict(workload.env)
    options = ["poll=0.2", "tasks=4"]
    if executor == "container":
        podman = request.getfixturevalue("podman")
        variables = [f"--env={k}={v}" for k, v in workload.server.env.items()]
        limit = ["--user", f"{os.getuid()}:{os.getgid()}", f"--memory={ALLOWED + 64 * MIB}", f"--memory-swap={ALLOWED + 64 * MIB}", "--read-only", "--cap-drop=all"]
        done = podman.run(IMAGE, "run", f"/data/{path.name}", "--json", "--workers", "1", options=[*limit, *variables, f"--volume={path.parent}:/data:ro"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    if executor == "slurm":
        env |= request.getfixturevalue("slurm").env
        options += ["mem=200MB"]
    elif executor == "kubernetes":
        api = request.getfixturevalue("kubernetes")
        api.secrets["storage"] = workload.server.env
        options += ["image=chunkwise:test", "env_secrets=storage", f"endpoint={api.url}", "env=CHUNKWISE_TEST_MARK={mark}"]
    elif executor == "aws-batch":
        api = request.getfixturevalue("batch")
        api.definition["environment"] = workload.server.env
        env["AWS_ENDPOINT_URL_BATCH"] = api.url
        options += ["queue=queue", "definition=worker", "env=CHUNKWISE_TEST_MARK={mark}"]
    elif executor == "processes":
        options = ["processes=2"]
    if executor != "threads":
        args = ["--executor", executor, *(x for o in options for x in ("--executor-option", o))]
    with Run("run", path, *args, "--json", env=env) as run:
        run.ok()
    return json.loads(run.stdout)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_workloads_on_s3(request, workload, executor):
    path, plan = workload.pipeline(executor)
    report = start(request, executor, workload, path)
    found = workload.objects(executor)
    assert found.keys() == workload.expected.keys()
    assert not [k for k, v in found.items() if v != workload.expected[k]]
    assert not [k for k in workload.objects(f"work-{executor}") if "/c/" in k], "intermediates are left"
    assert report["retries"] == 0
    stages = plan["stages"]
    made = {k: sum(r[k] for r in report["requests"]) for k in report["requests"][0]}
    reads, writes = made["gets"] + made["heads"], made["puts"]
    projected_reads, projected_writes = (sum(s["cost"][k] for s in stages) for k in ("gets", "puts"))
    print(f"{workload.name:16} {executor:10} reads {reads} of {projected_reads}, writes {writes} of {projected_writes}")
    if executor in ("threads", "container"):
        # Intermediates stay in memory while there is room.
        assert reads <= 1.05 * projected_reads and writes <= projected_writes
    else:
        assert abs(reads - projected_reads) <= 0.05 * projected_reads and writes == projected_writes
