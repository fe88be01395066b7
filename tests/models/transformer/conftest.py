"""Trained models over a few texts, for those tests that only ask them."""

from typing import Any

import pytest
from encoded_texts import LABELS, TEXTS, small

from sylvan import XTransformer


@pytest.fixture(scope="module")
def frozen() -> Any:
    return small(frozen=True).fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def tuned() -> Any:
    return small().fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def matched() -> Any:
    return small(XTransformer).fit(TEXTS, LABELS)
