"""How errors and warnings are asserted: by class and by what their sentences name, not by their wording.

The wording is in ``tests/sentences.txt``, which ``tests/architecture/test_sentences.py`` compares with the sources.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def says(sentence: str, value: object) -> bool:
    """Whether a value stands in a sentence, and not as a part of a longer word or number."""
    text = str(value)
    before = r"(?<![\w])(?<!\d[.,])" if re.match(r"\w", text) else ""
    minus = r"(?<!\W-)" if text[0].isdigit() else ""
    after = r"(?!\w|[.,]\d)" if re.search(r"\w$", text) else ""
    return re.search(before + minus + re.escape(text) + after, sentence) is not None


def _flat(values: Iterable[object]) -> list[object]:
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], *values: object) -> Iterator[Any]:
    """``pytest.raises`` for an error whose sentence names all values: parameters, numbers, files, labels, ``row 3``.

    A value may be a tuple of values, so that cases of ``parametrize`` can name several.
    """
    __tracebackhide__ = True
    with pytest.raises(kind) as caught:
        yield caught
    missing = [value for value in _flat(values) if not says(str(caught.value), value)]
    assert not missing, f"{missing} should stand in: {caught.value}"


@contextmanager
def warns(kind: type[Warning], *values: object) -> Iterator[Any]:
    """``pytest.warns`` for a warning whose sentence names all values."""
    __tracebackhide__ = True
    with pytest.warns(kind) as caught:
        yield caught
    said = [str(each.message) for each in caught if issubclass(each.category, kind)]
    assert any(all(says(sentence, value) for value in _flat(values)) for sentence in said), f"{values}: {said}"
