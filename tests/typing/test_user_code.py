"""What users write passes mypy --strict and pyright, and does what its types say."""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from child_processes import run
from mypy import api

import sylvan

CODE = Path(__file__).with_name("user_code.py")
README = Path(__file__).parents[2] / "README.md"
PACKAGES = Path(sylvan.__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of somebody who uses Sylvan: the README's tour, and :mod:`user_code`."""
    tour = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert tour is not None
    (tmp_path / "tour.py").write_text(tour[1], encoding="utf-8")
    shutil.copy(CODE, tmp_path)
    return tmp_path


def test_mypy(project: Path) -> None:
    path = "" if PACKAGES.name == "site-packages" else f"mypy_path = {PACKAGES}"
    others = "[mypy-sylvan.*]\nignore_errors = true\n[mypy-torch.*]\nfollow_imports = skip\n"  # most of the time
    (project / "mypy.ini").write_text(f"[mypy]\nstrict = true\n{path}\n{others}", encoding="utf-8")
    files = [str(project / name) for name in ("tour.py", "user_code.py")]
    said, failed, code = api.run(
        ["--config-file", str(project / "mypy.ini"), "--cache-dir", str(project / "cache"), *files]
    )
    assert code == 0, said + failed


def test_pyright(project: Path) -> None:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright isn't installed")
    pyright = [sys.executable, "-m", "pyright"]
    if run([*pyright, "--version"]).returncode:
        pytest.skip("pyright can't be loaded: it needs the internet when it is first used")
    settings = {"reportUnnecessaryTypeIgnoreComment": True, "extraPaths": [str(PACKAGES)]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [*pyright, "--pythonpath", sys.executable, "-p", str(project)]
    done = run(command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_does_what_its_types_say(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("user_code", CODE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.answers_have_names()
    module.saved_models_are_of_the_expected_class(str(tmp_path / "model"))
    module.answers_are_matrices_or_arrays()
