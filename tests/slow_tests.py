"""Which tests are slow: those listed in slow_tests.txt, by file and function, without the values of parameters.

``pytest -m "not slow"`` leaves them out, for daily work. The list is measured: ``tools/list_slow_tests.py`` makes it
from the times of a whole run, so that what remains takes a minute and a half and has a test of every file.
"""

from pathlib import Path

LIST = Path(__file__).with_name("slow_tests.txt")


def slow_tests() -> frozenset[str]:
    """Names such as ``cli/test_demo.py::test_it_is_good`` and ``contract/test_irli.py::TestIRLI::test_fit``."""
    lines = LIST.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def name_of(node_id: str) -> str:
    """A test's name in the list."""
    return node_id.partition("[")[0].removeprefix("tests/")
