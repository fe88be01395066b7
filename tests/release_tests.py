"""Which tests only a release needs: ``pytest`` leaves them out, ``pytest -m release`` runs them in one
process (two Ray clusters at once would find each other), ``.ci/run`` runs all.

They need what few machines have, or test what seldom changes: a machine with Sylvan's own dependencies answers the
others in minutes. Whoever names a folder, a file or a test gets it whatever it is.
"""

from collections import Counter
from pathlib import Path

import pytest

# By the beginning of a test's name, below tests/.
CLUSTER, COMPILER = "a Ray cluster of several nodes", "PyTorch's compiler"
BENCHMARKS = "benchmarks of whole processes"
OPERATION = "the files for operation, run"
PROCESSES, PLANS = "processes that train together", "plans beside real trainings"
RELEASE = {
    "annif/test_annif_": "Annif in an environment of its own",
    "architecture/test_source_distribution.py::test_a_wheel_is_built_from_it": "a wheel built from the sources",
    "benchmarks/test_alternatives_benchmark.py::test_every_structure": BENCHMARKS,  # compiles C++
    "benchmarks/test_alternatives_benchmark.py::test_a_revision_beside_itself": BENCHMARKS,
    "benchmarks/test_scale_benchmark.py::test_a_size_is_measured": BENCHMARKS,
    "distributed/test_ray_": CLUSTER,
    "distributed/test_recorded_jobs.py": CLUSTER,
    "docs/test_documents.py::test_blocks_run[docs/cluster.md]": CLUSTER,
    "docs/test_documents.py::test_blocks_run[docs/operations/index.md]": OPERATION,
    "docs/test_documents.py::test_blocks_run[docs/tutorials/table-to-page.md]": "fifteen commands of a tutorial",
    "docs/test_training_loops.py": "loops of other libraries",
    "models/irli/test_irli_shards.py::test_processes_train": PROCESSES,
    "models/transformer/test_tuning_processes.py": PROCESSES,
    "models/xr/test_plan.py::test_memory_and_size_are_near_the_real_ones": PLANS,
    "models/xr/test_plan.py::test_sizes_are_near_the_real_ones": PLANS,
    "neural/loop/test_data_parallel.py": PROCESSES,
    "neural/loop/test_processes.py": PROCESSES,
    "sampling/heads/test_beam_tree_head.py::test_compiled_it_is_the_same": COMPILER,
    "sampling/losses/test_every_loss.py::test_compiled_it_is_the_same": COMPILER,
    "serve/test_annif_client.py": "Annif in an environment of its own",
    "serve/test_operations.py::test_run_": OPERATION,
    "serve/test_page_": "the page in Chromium",
    "typing/test_user_code.py": "type checkers",
}
MOST_LINES = 10
TESTS = Path(__file__).parent


def reason(node_id: str) -> str:
    """What a test needs a release for; empty where every run has it."""
    name = node_id.removeprefix("tests/")
    return next((why for beginning, why in RELEASE.items() if name.startswith(beginning)), "")


def left_out(config: pytest.Config) -> bool:
    """Whether these tests are: not where ``-m`` speaks of them, nor where folders, files or tests are named."""
    named = any(Path(word.partition("::")[0]).resolve() not in (TESTS, TESTS.parent) for word in config.args)
    return not named and "release" not in config.option.markexpr


def needless(path: Path, config: pytest.Config) -> bool:
    """Whether the run needn't read this file: none of its tests is listed, with ``-m release``, or all, if left out."""
    if not path.is_relative_to(TESTS) or path.suffix != ".py":
        return False
    name = path.relative_to(TESTS).as_posix()
    listed = [beginning for beginning in RELEASE if name.startswith(beginning.partition("::")[0])]
    if config.option.markexpr == "release":
        return not listed
    return left_out(config) and any("::" not in beginning for beginning in listed)


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of a release, and take them from the run."""
    for item in items:
        if reason(item.nodeid):
            item.add_marker("release")
    if left_out(config):
        config.hook.pytest_deselected(items=[item for item in items if reason(item.nodeid)])
        items[:] = [item for item in items if not reason(item.nodeid)]


def write_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What wasn't run and why, in ten lines at most."""
    skipped = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in reporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    lines = [f"{count} skipped: {why}" for why, count in skipped.most_common()]
    if left_out(config):
        lines.insert(0, f"left out, pytest -m release runs them: {', '.join(dict.fromkeys(RELEASE.values()))}")
    for line in lines[: MOST_LINES - (len(lines) > MOST_LINES)]:
        reporter.write_line(line[:200])
    if len(lines) > MOST_LINES:
        reporter.write_line(f"… and {len(lines) - MOST_LINES + 1} more reasons: pytest -rs shows them")
