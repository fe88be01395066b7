"""Defaults and ranges of public names are in ``tests/defaults.txt``: whoever changes one sees that users will notice.

After such a change run ``python tests/architecture/test_defaults.py``, which writes that file, and read what changed.
"""

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sylvan.params.fields import Parameterized

ROOT = Path(__file__).parents[2]
SNAPSHOT = ROOT / "tests" / "defaults.txt"


def public() -> Iterator[Any]:
    """Every public function, class and method."""
    spec = importlib.util.spec_from_file_location("public_names", ROOT / "tools" / "public_names.py")
    assert spec is not None and spec.loader is not None
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    for _, value in names.public_names():
        yield value
        if isinstance(value, type):
            yield from (member for _, member in names.members(value) if callable(member))


def lines() -> Iterator[str]:
    """``name(parameter) = default in range``; a None without a range is left out."""
    for value in public():
        if isinstance(value, type) and issubclass(value, (BaseException, tuple)):
            continue
        ranges = value.constraints if isinstance(value, type) and issubclass(value, Parameterized) else {}
        for word, parameter in inspect.signature(value).parameters.items():
            if parameter.default is not parameter.empty and (parameter.default is not None or word in ranges):
                default = re.sub(r"<(?:function|class) '?([\w.]+).*>", r"\1", repr(parameter.default))
                range_ = f" in {ranges[word].describe()}" if word in ranges else ""
                yield f"{value.__qualname__}({word}) = {default}{range_}"


def test_every_default_is_as_it_was_read() -> None:
    changed = set(lines()) ^ set(SNAPSHOT.read_text("utf-8").splitlines())
    assert not changed, "run python tests/architecture/test_defaults.py, and read what changed"


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in sorted(set(lines()))), "utf-8")
