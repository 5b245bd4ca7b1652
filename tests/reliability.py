"""Makes the table of docs/reliability.md from the tests of executors. `python tests/reliability.py` writes it."""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reliability.md"
EXECUTORS = ["threads", "processes", "command", "slurm"]
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


def tests():
    """Each test with its first sentence and its executors."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location("executor_tests", HERE / "e2e" / "test_executors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, function in vars(module).items():
        if name.startswith("test_") and name != "test_the_table_is_of_these_tests":
            marks = [m.args for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            executors = next((values for names, values in marks if names == "executor"), None)
            yield name, function.__doc__.strip().rstrip("."), FIXED[name] if executors is None else executors


def table():
    lines = ["| what happens | what comes of it | " + " | ".join(EXECUTORS) + " |", "|---" * (2 + len(EXECUTORS)) + "|"]
    for _, text, executors in tests():
        happens, comes = text.split(": ", 1)
        marks = ["tested" if e in executors else "" for e in EXECUTORS] if executors else ["the worker"] * 4
        lines.append(f"| {happens} | {comes} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text()
    start, end = page.index("| what happens"), page.index("\n\n", page.index("| what happens")) + 1
    PAGE.write_text(page[:start] + table() + page[end:])
