"""A trained reranker, for those tests that only ask it."""

from __future__ import annotations

import pytest
from rows_with_pairs import X, parity, reranker, y

from sylvan import Reranker


@pytest.fixture(scope="session")
def fitted() -> Reranker:
    return reranker(columns=parity).fit(X, y)
