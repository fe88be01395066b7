"""Every example runs as it stands."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each prints, and the least per cent that it may be; they come to 95, 99, 63 and 45.
SAYS = {
    "beside_scikit_learn.py": (r"iris, XRLinear: accuracy 0\.(\d+)", 90),
    "phase_by_phase.py": (r"beam 10: P@1 ([\d.]+)", 90),
    "sampled_softmax.py": (r"right: (\d+)%", 50),
    "tag_books.py": (r"P@1 ([\d.]+)", 35),
}
# Recipes for other tools, and what runs them.
RECIPES = {
    "mlflow_model.py": "hub/test_mlflow_recipe.py",
    "ray_serve.py": "distributed/test_ray_serve.py",
    "ray_train.py": "distributed/test_ray_train.py",
}


def test_no_example_is_forgotten() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted([*SAYS, *RECIPES])
    tests = Path(__file__).parents[1]
    assert all(name.removesuffix(".py") in (tests / test).read_text("utf-8") for name, test in RECIPES.items())


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capfd.readouterr()
    pattern, least = SAYS[name]
    found = re.search(pattern, said.out)
    assert found is not None and float(found[1]) >= least, said.out
    assert said.err == ""
    assert list(tmp_path.iterdir()) == []
