"""Settings for all tests.

Hypothesis tries the same examples every time, unless HYPOTHESIS_PROFILE=explore. NumPy and PyTorch compute on one
thread, in this process and in those that tests start: each of pytest's processes has a core already, and threads that
wait for each other on a busy machine take ten times as long. A test of threads asks for as many as it needs.

The folders of tmp_path lie in memory where the system has room for them: a model is written through to the disk before
it takes its name, and waiting for a disk takes longer than most tests. TMPDIR chooses another place.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # read when NumPy and PyTorch are imported

_MEMORY = "/dev/shm"
_ENOUGH = 4 << 30  # bytes; the tests need about a tenth


def in_memory() -> bool:
    """Whether this system has a file system in memory with room, on which programs may lie."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK) or not hasattr(os, "ST_NOEXEC"):
        return False
    return shutil.disk_usage(_MEMORY).free > _ENOUGH and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and "PYTEST_DEBUG_TEMPROOT" not in os.environ and in_memory():
    os.environ["PYTEST_DEBUG_TEMPROOT"] = _MEMORY

# A suite that was started in the background ignores Ctrl-C, and so would the commands whose Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Each of several processes begins with a stretch of the tests, so that what a file makes is made once."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


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
