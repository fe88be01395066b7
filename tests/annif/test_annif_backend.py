"""The backend by itself: the cases in backend_cases.py, all run once in a process that has Annif."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from child_processes import python

CASES = Path(__file__).with_name("backend_cases.py")
NAMES = re.findall(r"^def (\w+)\(world: World\)", CASES.read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def outcome(annif: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    # A folder of its own each time: a process that takes tests from another may come to this module twice.
    done = annif.run(str(CASES), str(tmp_path_factory.mktemp("cases")))
    assert done.returncode == 0, done.stderr
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_case_is_run(outcome: dict[str, str | None]) -> None:
    assert list(outcome) == NAMES and len(NAMES) > 15


@pytest.mark.parametrize("name", NAMES)
def test_backend(outcome: dict[str, str | None], name: str) -> None:
    assert outcome[name] is None, outcome[name]


def test_without_annif_there_is_a_sentence() -> None:
    code = "import sys; sys.modules['annif'] = None; from sylvan.annif import Config"
    done = python("-c", code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: sylvan.annif needs Annif. Install it with: pip install "sylvan[annif]"'
    )


def test_sylvan_does_not_load_it() -> None:
    code = "import sys, sylvan; print([name for name in sys.modules if 'annif' in name and 'formats' not in name])"
    done = python("-c", code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
