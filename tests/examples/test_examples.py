"""Every example runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sylvan

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "phase_by_phase.py": "beam 10: P@1 ",
    "sampled_softmax.py": "right: ",
    "tag_books.py": "P@5 ",
}


def test_no_example_is_forgotten() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, tmp_path: Path) -> None:
    source = str(Path(sylvan.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": source + os.pathsep + os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout and done.stderr == ""
    assert list(tmp_path.iterdir()) == []
