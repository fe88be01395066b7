"""The tool that counts what a training runs through."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from child_processes import python

TOOL = Path(__file__).parents[2] / "tools" / "trace_fit.py"


@pytest.mark.skipif(not TOOL.exists(), reason="no tools beside these tests")
@pytest.mark.skipif(sys.gettrace() is not None, reason="somebody else traces")
def test_a_training_is_traced() -> None:
    done = python(TOOL, "XRLinear", "BeamTreeClassifier", "--json", check=True)
    models = json.loads(done.stdout)["models"]
    assert list(models) == ["XRLinear", "BeamTreeClassifier"]
    for found in models.values():
        assert 1 < found["files"] == len(found["entered"]) <= found["functions"]
        assert found["files"] <= found["changes_of_file"]
    assert "validate.py" in models["XRLinear"]["entered"]
