"""The recipes among the examples, as modules: functions of theirs go to workers by value, as those of a script do."""

import importlib.util
from pathlib import Path
from typing import Any


def recipe(name: str) -> Any:
    """``examples/<name>.py``."""
    place = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
