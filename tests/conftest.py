"""Settings for all tests.

Hypothesis tries the same examples every time, unless HYPOTHESIS_PROFILE=explore. NumPy and PyTorch compute on one
thread, in this process and in those that tests start: each of pytest's processes has a core already, and threads that
wait for each other on a busy machine take ten times as long. A test of threads asks for as many as it needs.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # read when NumPy and PyTorch are imported

# A suite that was started in the background ignores Ctrl-C, and so would the commands whose Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
