"""The recipes of docs/training-loop.md for other libraries' loops train, where these libraries are installed."""

from pathlib import Path
from typing import Any

import pytest
from document_blocks import blocks

PAGE = Path(__file__).parents[2] / "docs" / "training-loop.md"


@pytest.mark.parametrize("library", ["transformers", "pytorch_lightning"])
def test_a_recipe_trains(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for needed in (library, "accelerate") if library == "transformers" else (library,):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    model, *others = blocks(PAGE)
    (recipe,) = (block for block in others if block.not_run and f" {library} " in block.text[:60])
    names: dict[str, Any] = {"__name__": "recipe"}
    for block in (model, recipe):
        exec(compile(block.text, str(PAGE), "exec"), names)
    assert capsys.readouterr().out.splitlines()[-1] == "True"
