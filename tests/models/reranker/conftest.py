"""A trained reranker, for those tests that only ask it."""

import pytest
from rows_with_pairs import X, parity, reranker, y

from sylvan import Reranker


@pytest.fixture(scope="session")
def fitted() -> Reranker:
    return reranker(columns=parity).fit(X, y)
