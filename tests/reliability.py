"""Makes the table of docs/reliability.md from the tests of executors. `python tests/reliability.py` writes it."""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reliability.md"
EXECUTORS = ["threads", "processes", "command", "slurm", "kubernetes", "aws-batch", "dask", "ray"]
FILES = ["test_executors", "test_executors_places"]
# Executors whose tests are in files of their own: test_on_EXECUTOR...
OWN_FILES = {"lambda": ["aws_lambda/test_lambda", "aws_lambda/test_lambda_places"]}
# Of tests that are not parametrised by executor, whose name is no argument. `None`: of the worker, which is the same for all.
FIXED = {
    "test_nobody_is_left_behind": EXECUTORS[1:],
    "test_resume_on_another_executor": EXECUTORS,
    "test_exit_codes_of_a_worker": None,
    "test_a_worker_that_is_told_to_stop": None,
    "test_options_are_checked": EXECUTORS,
}
PIPE = "answers come over a pipe; an invalid one ends the worker"
# Why an executor has no test of its own.
WHY = {
    "test_a_straggler_gets_a_second_copy": {"threads": "no copies"},
    "test_two_drivers_at_once": {e: "before there are workers" for e in ("command", "slurm", "aws-batch", "dask", "ray")},
    "test_a_worker_that_is_killed": {"threads": "the driver is the worker"},
    "test_a_driver_kills_a_worker_for_its_memory": {"threads": "the driver is the worker"}
    | {e: "up to the engine" for e in ("command", "slurm", "kubernetes", "aws-batch", "lambda")},
    "test_a_worker_that_is_killed_for_memory": {"threads": "the driver is the worker", "command": "up to the command: it sees signal 9"}
    | {e: "a row below" for e in ("dask", "ray")},
    "test_a_worker_without_network": {"threads": "the driver is the worker", "processes": "the driver's network is theirs"},
    "test_workers_whose_image_does_not_come": {e: "no image" for e in EXECUTORS if e not in ("kubernetes", "aws-batch")} | {"lambda": "no image"},
    "test_workers_that_do_not_start": {"threads": "no workers", "kubernetes": "the image, below", "aws-batch": "the image, below"},
    "test_nobody_is_left_behind": {"threads": "no workers"},
    "test_a_report_that_is_wrong": {"threads": "no reports", "processes": PIPE, "lambda": "a row below; the answer of a function is believed"},
    "test_reports_that_come_twice": {"threads": "no reports", "processes": "attempts have numbers"},
    "test_an_input_that_workers_do_not_see": {"threads": "the driver is the worker", "lambda": "no folders"},
    "test_a_full_disk": {"lambda": "no disk"},
    "test_a_read_only_disk": {"lambda": "no disk"},
    "test_a_work_directory_that_leads_elsewhere": {"lambda": "no folders"},
}  # fmt: skip


def module_of(file):
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location(f"{pathlib.Path(file).name}_table", HERE / "e2e" / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_tests():
    """First sentences of the tests of executors that have a file of their own: {executor: sentences}."""
    found = {}
    for executor, own in OWN_FILES.items():
        functions = [f for file in own for n, f in vars(module_of(file)).items() if n.startswith(f"test_on_{executor}")]
        found[executor] = [f.__doc__.strip().rstrip(".") for f in functions]
    return found


def tests():
    """Each test with its first sentence and its executors."""
    for name, function in (item for file in FILES for item in vars(module_of(file)).items()):
        if name.startswith("test_") and name != "test_the_table_is_of_these_tests":
            marks = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            executors = next((values for names, values in marks if names == "executor"), None)
            yield name, function.__doc__.strip().rstrip("."), FIXED[name] if executors is None else executors


def table():
    names, own = [*EXECUTORS, *OWN_FILES], own_tests()
    lines = ["| what happens | what comes of it | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    shared = list(tests())
    # What only these can suffer comes last.
    for name, texts in own.items():
        for text in texts:
            if all(text.split(": ")[0] != s.split(": ")[0] for _, s, _ in shared):
                shared.append((name, text, []))
    for name, text, executors in shared:
        happens, comes = text.split(": ", 1)
        there = [e for e, texts in own.items() if any(t.split(": ")[0] == happens for t in texts)]
        why = {e: f"only {name}" for e in names} if name in OWN_FILES else WHY.get(name, {})
        # A place without a test and without a reason is an error here.
        cells = ["the worker" if executors is None else "tested" if e in [*executors, *there] else f"({why[e]})" for e in names]
        lines.append(f"| {happens} | {comes} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text()
    start, end = page.index("| what happens"), page.index("\n\n", page.index("| what happens")) + 1
    PAGE.write_text(page[:start] + table() + page[end:])
