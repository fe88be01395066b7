"""The tool that counts what a training, a ranking and a request run through."""

import json
import runpy
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "trace_fit.py"


@pytest.mark.skipif(not TOOL.exists(), reason="no tools beside these tests")
@pytest.mark.skipif(sys.gettrace() is not None, reason="somebody else traces")
def test_a_training_a_ranking_and_a_request_are_traced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And stay within the budget of files and functions, which only goes down."""
    budgets = json.loads(Path(__file__).with_name("budgets.json").read_text("utf-8"))["run through (files, functions)"]
    monkeypatch.setattr(sys, "argv", [str(TOOL), *budgets, "--json"])
    runpy.run_path(str(TOOL), run_name="__main__")
    models = json.loads(capsys.readouterr().out)["models"]
    assert list(models) == list(budgets)
    for name, found in models.items():
        assert 1 < found["files"] == len(found["entered"]) <= found["functions"]
        assert found["files"] <= found["changes_of_file"]
        files, functions = budgets[name]
        assert found["files"] <= files and found["functions"] <= functions, name
    assert "arrays/validate.py" in models["XRLinear"]["entered"]
    assert "matching/beam.py" in models["TextModel.rank"]["entered"]
    assert {"serve/bodies.py", "serve/engine.py", "matching/beam.py"} <= set(models["HTTP"]["entered"])
