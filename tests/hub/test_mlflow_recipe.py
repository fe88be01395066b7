"""The recipe for MLflow: a model logged from code into a local store, opened again, asked with a pandas frame."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises

import sylvan

mlflow = pytest.importorskip(
    "mlflow", reason="MLflow isn't here: pip install mlflow-skinny pandas, then run this file again"
)
pd = pytest.importorskip("pandas", reason="the recipe answers with pandas' frames")

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "mlflow_model.py"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tracking store in files, and a folder to work in with the recipe where the document says it is."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(work)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield tmp_path / "mlruns"
    mlflow.set_tracking_uri(before)


def block_of_the_document() -> str:
    text = (ROOT / "docs" / "hub.md").read_text("utf-8")
    (found,) = re.findall(r"```python\n(import mlflow\n.*?)```", text, re.DOTALL)
    return str(found)


def test_the_block_of_the_document(store: Path, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(saved, "runs/books")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(block_of_the_document(), "hub.md", "exec", dont_inherit=True), names)
    frame = names["frame"]
    answer = names["served"].predict(frame, params={"k": 2})
    top = sylvan.load(saved).rank(frame["text"].tolist(), k=2)
    assert answer["labels"].tolist() == top.names
    assert [len(row) for row in answer["scores"]] == [len(row) for row in top.names]
    assert [score for row in answer["scores"] for score in row] == [float(one) for one in top.scores.ravel()]
    # The signature is the model's: five labels unless asked otherwise, and no frame without the column of texts.
    signature = names["served"].metadata.signature
    assert [one.name for one in signature.inputs] == ["text"]
    assert len(names["served"].predict(frame)["labels"][0]) == 3
    with raises(mlflow.exceptions.MlflowException, "text"):
        names["served"].predict(pd.DataFrame({"body": ["whale"]}))


def test_nothing_in_the_store_is_pickled(store: Path, saved: str) -> None:
    with mlflow.start_run():
        mlflow.pyfunc.log_model(
            name="books", python_model=str(RECIPE), artifacts={"model": saved}, pip_requirements=["sylvan"]
        )
    files = [path for path in store.rglob("*") if path.is_file()]
    assert any(path.name == "manifest.json" for path in files) and any(path.name == RECIPE.name for path in files)
    for path in files:
        assert path.suffix not in (".pkl", ".pickle", ".joblib"), path
        assert not path.read_bytes().startswith(b"\x80"), f"{path} begins as a pickle does"


def test_the_recipe_is_short_and_parses() -> None:
    tree = ast.parse(RECIPE.read_text("utf-8"))
    assert any(isinstance(node, ast.ClassDef) and node.name == "Tagger" for node in tree.body)
