"""Every example in a docstring of the package runs and prints what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

import sylvan

SOURCE = Path(sylvan.__path__[0])
FILES = sorted(path for path in SOURCE.rglob("*.py") if ">>>" in path.read_text("utf-8"))
MODULES = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__") for path in FILES]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name in ("sylvan.annif", "sylvan.annif.backend"):
        pytest.importorskip("annif.backend", reason="Annif isn't here")
    module = importlib.import_module(name)
    for found in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        assert not any(doctest.SKIP in example.options for example in found.examples), f"{found.name} is never run"
        said: list[str] = []
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=said.append)
        assert not failed.failed, "".join(said)
