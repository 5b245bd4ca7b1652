"""What plans would cost on AWS Lambda, and what runs have cost."""

import json
import pathlib
import re

import numpy as np
import pytest
from harness import chunkwise, write_inputs, write_pipeline

EXPRESSIONS = {"y": "x * 2", "m": 'mean(x, dim="a")'}
# Nothing of the environment of whoever runs the tests.
PLAIN = {"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "CHUNKWISE_PRICES": ""}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cost")
    x = np.arange(600 * 400, dtype="f8").reshape(600, 400)
    inputs = write_inputs(folder, {"x": (x, (100, 100), ("a", "b"))})
    return write_pipeline(folder, inputs, EXPRESSIONS, {"out.zarr/y": "y", "out.zarr/m": "m"})


def plan(pipeline, *args, env=None):
    return chunkwise("plan", pipeline, "--allowed-mem", "1GiB", *args, env={**PLAIN, **(env or {})})


def test_a_plan_says_what_it_would_cost(pipeline):
    assert "Lambda" not in plan(pipeline).ok().stdout, "who runs it elsewhere is not told"
    text = plan(pipeline, "--executor", "lambda").ok().stdout
    line = next(line for line in text.splitlines() if line.startswith("on AWS Lambda"))
    assert line.startswith("on AWS Lambda in us-east-1 (x86_64, 1024 MB): about 0.0")
    table = [row.split() for row in text.splitlines()]
    requests = sum(int(row[-1]) for row in table if row and row[0].isdigit())
    # Each invocation reads the plan and writes its reports besides.
    invocations = int(re.search(r"in (\d+) invocations", line)[1])
    assert int(re.search(r"(\d+) requests", line)[1]) == requests + 2 * invocations

    # Documents stay documents.
    assert json.loads(plan(pipeline, "--format", "json").ok().stdout)["format"].startswith("chunkwise-plan/")
    details = plan(pipeline, "--cost", "--region", "eu-central-1", "--architecture", "arm64", "--function-memory", "2GiB").ok().stdout
    assert "in eu-central-1 (arm64, 2048 MB)" in details
    assert all(word in details for word in ["GB-s", "together: ", "outputs, each month: ", "prices of s3: "])


def money(text, what="together"):
    return float(re.search(rf"^{what}: ([0-9.]+) USD$", text, re.M)[1])


def test_prices_are_the_users(pipeline, tmp_path):
    file = tmp_path / "prices.toml"
    names = ["lambda_gb_second_x86_64", "lambda_million_requests", "s3_thousand_puts", "s3_thousand_gets", "s3_gb_month"]
    file.write_text("[regions.us-east-1]\n" + "".join(f"{n} = 0\n" for n in names) + "[sources]\nlambda = 'my contract'\n")
    text = plan(pipeline, "--cost", "--prices", file).ok().stdout
    assert money(text) == 0 and "prices of lambda: my contract" in text
    assert money(plan(pipeline, "--cost", env={"CHUNKWISE_PRICES": str(file)}).ok().stdout) == 0
    assert money(plan(pipeline, "--cost").ok().stdout) > 0
    # A slow network is long and dear.
    file.write_text("[rates]\nnetwork_bytes = 1e3\n")
    assert money(plan(pipeline, "--cost", "--prices", file).ok().stdout) > 100 * money(plan(pipeline, "--cost").ok().stdout)


def test_the_prices_of_the_guide_can_be_used(pipeline, tmp_path):
    guide = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "aws.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", guide, re.S)
    file = tmp_path / "prices.toml"
    file.write_text(example)
    args = ["--cost", "--region", "eu-west-1", "--architecture", "arm64"]
    cheaper, usual = (money(plan(pipeline, *args, *more).ok().stdout, "function") for more in (["--prices", file], []))
    assert 0 < cheaper < usual


def test_wrong_prices_are_refused(pipeline, tmp_path):
    file = tmp_path / "prices.toml"
    for text, name in [("x", "prices.toml"), ("[rates]\nflops = -1", "flops"), ("[regions.us-east-1]\ns3_gb = 1", "s3_gb")]:
        file.write_text(text)
        plan(pipeline, "--cost", "--prices", file).failed(name)
    plan(pipeline, "--cost", "--prices", tmp_path / "none").failed("cannot read")
    plan(pipeline, "--cost", "--region", "mars-1").failed("mars-1", "us-east-1")
    # Who does not ask still gets the plan.
    assert "no cost is projected" in plan(pipeline, "--executor", "lambda", env={"AWS_REGION": "mars-1"}).ok().stdout


def test_a_run_is_compared_with_its_projection(pipeline):
    report = chunkwise("run", pipeline, "--overwrite", "--json", env={**PLAIN, "AWS_REGION": "eu-west-1"}).ok().report
    cost = report["cost"]
    assert cost["region"] == "eu-west-1" and cost["billed"] is False
    assert cost["actual"]["task_seconds"] == pytest.approx(sum(report["task_seconds"])) and cost["actual"]["task_seconds"] > 0
    counted = sum(r["gets"] + r["heads"] for r in report["requests"]) + cost["actual"]["invocations"]
    assert cost["actual"]["gets"] == counted
    assert cost["actual_money"]["function"] > 0 and cost["projected_money"]["function"] > 0
