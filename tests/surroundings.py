"""The surroundings of the tests: what pytest inherits from whoever starts it, made the same every time.

A suite may be started from a terminal, by a script in the background (where SIGINT is ignored), under ``nohup``, by a
scheduler without a home, or in a shell with another language, a proxy or a wish for colours. Its own processes would
inherit all of that, and so would the commands that are tested.
"""

import atexit
import locale
import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # read when NumPy and PyTorch are imported
# Variables that change what programs write, whom they ask or which of several processes they are.
REMOVED = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE"),
    *("LANG", "LANGUAGE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_COLLATE", "CDPATH", "BASH_ENV", "ENV"),
    *("PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONSAFEPATH", "PYTHONINSPECT"),
    *("PYTHONDEVMODE", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME"),
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RAY_ADDRESS", "PROMETHEUS_MULTIPROC_DIR"),
    *("SYLVAN_DEBUG", "SYLVAN_API_KEY", "SYLVAN_ADMIN_KEY", "_SYLVAN_COMPLETE"),
)
# Python ignores these itself, and subprocess gives them back to children.
_PYTHONS_OWN = {getattr(signal, name, None) for name in ("SIGPIPE", "SIGXFSZ")}


def settle_process() -> None:
    """Set what has to be set before anything is imported: threads, signals, and the permissions of new files."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ["OMP_WAIT_POLICY"] = "passive"  # where a test asks for more, one that waits leaves its core to others
    os.umask(0o022)
    _hear_signals()


def settle_environment() -> None:
    """Set the environment of the tests and of all that they start, once pytest has read its own of it."""
    for name in REMOVED:
        os.environ.pop(name, None)
    os.environ["LC_ALL"] = _locale()
    os.environ["TERM"] = "dumb"
    if path := os.environ.get("PYTHONPATH"):  # a command that runs in another folder finds the same modules
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(place) for place in path.split(os.pathsep) if place)
    if not os.access(Path.home(), os.W_OK | os.X_OK):
        os.environ["HOME"] = home = tempfile.mkdtemp(prefix="home-of-tests-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)


def _locale() -> str:
    """A locale of UTF-8 in which programs speak English."""
    before = locale.setlocale(locale.LC_CTYPE)
    for name in ("C.UTF-8", "en_US.UTF-8"):
        try:
            locale.setlocale(locale.LC_CTYPE, name)
            return name
        except locale.Error:
            continue
        finally:
            locale.setlocale(locale.LC_CTYPE, before)
    return "C"


def _hear_signals() -> None:
    """Children begin with the usual answer to every signal, whatever this process ignores or holds back.

    What is ignored stays ignored here, but by a handler: a program that is started inherits what is ignored, and no
    handlers.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and number not in _PYTHONS_OWN:
            signal.signal(number, _ignore)
    if signal.getsignal(signal.SIGINT) in (_ignore, signal.SIG_DFL):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as from a terminal: Ctrl-C is tested here too
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one that is ignored takes the exit codes of children with it


def hear_interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt again, where a library has left an answer of its own, as Ray Train does."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""
