"""Makes the table of docs/reliability.md from the tests of executors. `python tests/reliability.py` writes it."""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reliability.md"
EXECUTORS = ["threads", "processes", "command", "slurm"]
# Executors whose tests are in files of their own: test_on_EXECUTOR...
OWN_FILES = {"lambda": "test_lambda"}
# Of tests that are not parametrised by executor, whose name is no argument.
FIXED = {
    "test_a_straggler_gets_a_second_copy": ["processes"],
    "test_workers_that_do_not_start": ["processes"],
    "test_nobody_is_left_behind": ["processes", "command", "slurm"],
    "test_a_report_that_is_wrong": ["command"],
    "test_reports_that_come_twice": ["command"],
    "test_resume_on_another_executor": EXECUTORS,
    "test_exit_codes_of_a_worker": [],
    "test_a_worker_that_is_told_to_stop": [],
    "test_options_are_checked": EXECUTORS,
}


def module_of(file):
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location(f"{file}_table", HERE / "e2e" / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_tests():
    """First sentences of the tests of executors that have a file of their own: {executor: sentences}."""
    found = {}
    for executor, file in OWN_FILES.items():
        functions = [f for n, f in vars(module_of(file)).items() if n.startswith(f"test_on_{executor}")]
        found[executor] = [f.__doc__.strip().rstrip(".") for f in functions]
    return found


def tests():
    """Each test with its first sentence and its executors."""
    for name, function in vars(module_of("test_executors")).items():
        if name.startswith("test_") and name != "test_the_table_is_of_these_tests":
            marks = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            executors = next((values for names, values in marks if names == "executor"), None)
            yield name, function.__doc__.strip().rstrip("."), FIXED[name] if executors is None else executors


def table():
    names, own = [*EXECUTORS, *OWN_FILES], own_tests()
    lines = ["| what happens | what comes of it | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    shared = [(text, executors) for _, text, executors in tests()]
    # What only these can suffer comes last.
    for texts in own.values():
        for text in texts:
            if all(text.split(": ")[0] != s.split(": ")[0] for s, _ in shared):
                shared.append((text, None))
    for text, executors in shared:
        happens, comes = text.split(": ", 1)
        there = [e for e, texts in own.items() if any(t.split(": ")[0] == happens for t in texts)]
        marks = ["the worker"] * len(names) if executors == [] else ["tested" if e in [*(executors or []), *there] else "" for e in names]
        lines.append(f"| {happens} | {comes} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text()
    start, end = page.index("| what happens"), page.index("\n\n", page.index("| what happens")) + 1
    PAGE.write_text(page[:start] + table() + page[end:])
