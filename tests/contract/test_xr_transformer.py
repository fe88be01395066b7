"""XRTransformer and XTransformer keep the contract of everything that ranks, with a bag of hashed words as encoder."""

from typing import Any, ClassVar

import pytest

from contract.texts import TextContract
from sylvan import TransformerMatcher, XRLinear, XRTransformer, XTransformer

pytest.importorskip("torch")


class _Encoded(TextContract):
    """A bag of hashed words as encoder."""

    machine: ClassVar[dict[str, Any]] = {"device": "cpu"}

    def settings(self) -> dict[str, Any]:
        from sylvan.neural import BagTextEncoder

        encoder = BagTextEncoder(dim=16, n_buckets=512)
        ranker = XRLinear(branching=3, max_leaf=4)
        return {"encoder": encoder, "preset": "tiny", "ranker": ranker, **self.machine}

    def made(self, kind: Any, **params: Any) -> Any:
        of_ranker = {f"ranker__{name}": params.pop(name) for name in ("beam",) if name in params}
        return kind(**{**self.settings(), **params}).set_params(**of_ranker)


class TestFrozen(_Encoded):
    """Vectors that nothing was learned of, beside TF-IDF."""

    def make(self, **params: Any) -> Any:
        return self.made(XRTransformer, frozen=True, **params)


class TestXRTransformer(_Encoded):
    """Fine-tuned down the tree."""

    def make(self, **params: Any) -> Any:
        return self.made(XRTransformer, matcher=TransformerMatcher(epochs=1.0), **params)


class TestXTransformer(_Encoded):
    """Fine-tuned to find clusters."""

    def make(self, **params: Any) -> Any:
        return self.made(XTransformer, matcher=TransformerMatcher(epochs=1.0), **params)
