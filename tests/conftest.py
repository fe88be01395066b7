"""Settings for all tests.

Hypothesis tries the same examples every time, unless HYPOTHESIS_PROFILE=explore. NumPy and PyTorch compute on one
thread, in this process and in those that tests start: each of pytest's processes has a core already, and threads that
wait for each other on a busy machine take ten times as long. A test of threads asks for as many as it needs.

Tests have the same surroundings whoever starts them (``surroundings``), and the processes that they start end with them
(``child_processes``).

The folders of tmp_path lie in memory where the system has room for them: a model is written through to the disk before
it takes its name, and waiting for a disk takes longer than most tests. TMPDIR chooses another place.
"""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import surroundings

surroundings.settle_process()  # before anything reads what is set there

import child_processes  # noqa: E402
import pytest  # noqa: E402
import release_tests  # noqa: E402
import slow_tests  # noqa: E402
from hypothesis import settings  # noqa: E402

_MEMORY = "/dev/shm"
_ENOUGH = 4 << 30  # bytes; the tests need about a tenth


def in_memory() -> bool:
    """Whether this system has a file system in memory with room, on which programs may lie."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK) or not hasattr(os, "ST_NOEXEC"):
        return False
    return shutil.disk_usage(_MEMORY).free > _ENOUGH and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and "PYTEST_DEBUG_TEMPROOT" not in os.environ and in_memory():
    os.environ["PYTEST_DEBUG_TEMPROOT"] = _MEMORY


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Each of several processes begins with a stretch of the tests, so that what a file makes is made once."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: three processes on two cores, as a third of the time tests wait for servers and other processes."""
    from sylvan.parallel import resolve_jobs

    return -(-3 * resolve_jobs(None) // 2)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    release_tests.choose(config, items)
    slow = slow_tests.slow_tests()
    for item in items:
        if slow_tests.name_of(item.nodeid) in slow:
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays until the end: the garbage collector needn't look at it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return release_tests.needless(collection_path, config) or None  # None: others may still say so


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    release_tests.write_summary(terminalreporter, config)
    spent = os.times()  # with that of processes that have ended, pytest's own among them
    terminalreporter.write_line(f"processor: {spent.user + spent.children_user:,.0f} s of the programs, "
                                f"{spent.system + spent.children_system:,.0f} s of the system")  # fmt: skip


def pytest_sessionstart(session: pytest.Session) -> None:
    surroundings.settle_environment()
    child_processes.mark_all()
    if getattr(session.config.option, "numprocesses", None):
        child_processes.guard()  # pytest's own processes too end with this one


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fails at the end of a session if a process that it has started still runs; that process is killed."""
    yield
    if left := child_processes.leftovers():
        pytest.fail("These processes should have ended with their tests, and were left running:\n" + "\n".join(left))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """What a test starts has ended when it has; Ctrl-C is answered as before another test changed that."""
    surroundings.hear_interrupts()
    with child_processes.ended_with():
        yield


settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture
def torch_threads() -> Iterator[None]:
    """For a test that changes PyTorch's number of threads: it is as before afterwards."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
