"""The tool that counts what a training runs through."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sylvan

TOOL = Path(__file__).parents[2] / "tools" / "trace_fit.py"


@pytest.mark.skipif(not TOOL.exists(), reason="no tools beside these tests")
@pytest.mark.skipif(sys.gettrace() is not None, reason="somebody else traces")
def test_a_training_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(sylvan.__file__).parents[1]))
    command = [sys.executable, str(TOOL), "XRLinear", "BeamTreeClassifier", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    models = json.loads(done.stdout)["models"]
    assert list(models) == ["XRLinear", "BeamTreeClassifier"]
    for found in models.values():
        assert 1 < found["files"] == len(found["entered"]) <= found["functions"]
        assert found["files"] <= found["changes_of_file"]
    assert "validate.py" in models["XRLinear"]["entered"]
