"""A setting: which model with which parameters, as a configuration file says it, and the models it makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sylvan.models.base import Estimator
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.transformer.x_transformer import XRTransformer, XTransformer
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.text import TfidfVectorizer
from sylvan.version import __version__

# By their names on the command line.
MODELS: Mapping[str, type[Estimator]] = {
    "xr-linear": XRLinear, "neighbors": NeighborRanker, "lexical": LexicalMatcher, "xr-transformer": XRTransformer,
    "x-transformer": XTransformer,
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A model and the parameters that aren't at their defaults."""

    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the model; of its parts as `ranker__beam`
    text: Mapping[str, Any] = field(default_factory=dict)  # of the vectoriser; empty for matrices

    @property
    def key(self) -> str:
        """The same text for the same setting."""
        return json.dumps([self.model, dict(self.parameters), dict(self.text)], sort_keys=True)

    @property
    def text_key(self) -> str:
        """The same text for the same features."""
        return json.dumps(dict(self.text), sort_keys=True)

    @classmethod
    def of_key(cls, key: str) -> Setting:
        """The setting of :attr:`key`."""
        return cls(*json.loads(key))

    @property
    def takes_texts(self) -> bool:
        """Whether its model makes features of texts itself."""
        return self.model in ("lexical", "xr-transformer", "x-transformer")

    def inner_model(self, n_jobs: int | None = None) -> Estimator:
        """Its model without the vectoriser, not fitted."""
        of_parts = {name: value for name, value in self.parameters.items() if "__" in name}
        own = {name: value for name, value in self.parameters.items() if "__" not in name}
        return MODELS[self.model](**{**own, "n_jobs": n_jobs}).set_params(**of_parts)

    def vectorizer(self, n_jobs: int | None = None) -> TfidfVectorizer:
        """Its vectoriser, not fitted."""
        return usual_vectorizer(**self._text(), n_jobs=n_jobs)

    def _text(self) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in self.text.items()}

    def build(self, texts: bool, n_jobs: int | None = None) -> Estimator:
        """Its model, over texts or over matrices, not fitted."""
        model = self.inner_model(n_jobs)
        if self.takes_texts:
            return model.set_params(**{f"vectorizer__{name}": value for name, value in self._text().items()})
        return TextModel(self.vectorizer(n_jobs), model) if texts else model

    def words(self) -> str:
        """The setting in a few words: what isn't at its default."""
        given = [f"{name}={_plain(value)}" for name, value in (*self.parameters.items(), *self.text.items())]
        return f"{self.model}: {', '.join(given) or 'defaults'}"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def joined(members: Sequence[Setting], weights: Sequence[float], texts: bool, n_jobs: int | None = None) -> Estimator:
    """One setting's model, or the ensemble of several; not fitted."""
    if len(members) == 1:
        return members[0].build(texts, n_jobs)
    return Ensemble([member.build(texts, n_jobs) for member in members], weights=list(weights), n_jobs=n_jobs)


def toml_of(
    members: Sequence[Setting], weights: Sequence[float], options: Mapping[str, Any] | None = None,
    pruned_to: int | None = None,
) -> str:  # fmt: skip
    """A configuration file for ``sylvan train MODEL --config``, which trains the same model without tuning. A model
    that was then compressed to a size has the command for that in a remark."""
    model = members[0].model if len(members) == 1 else "ensemble"
    lines = [
        f"# sylvan train {model} TRAIN --model DIR --config THIS_FILE",
        f"# Parameters that aren't named are at the defaults of Sylvan {__version__}.", "",
    ]  # fmt: skip
    if pruned_to is not None:
        lines[1:1] = [f"# sylvan compress DIR --output SMALL_DIR --max-size {pruned_to}"]
    if options:
        lines += ["[options]", *_lines(options), ""]
    if len(members) == 1:
        (one,) = members
        lines += ["[parameters]", *_lines(one.parameters), "", "[text]", *_lines(one.text)]
        return "\n".join(lines) + "\n"
    lines += ["[parameters]", f"weights = {_toml(list(weights))}"]
    for number, member in enumerate(members):
        lines += ["", f"[parameters.member{number}]", f"model = {_toml(member.model)}"]
        lines += _lines(member.parameters)
        if member.text:
            lines += ["", f"[parameters.member{number}.text]", *_lines(member.text)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name} = {_toml(value)}" for name, value in values.items())


def _toml(value: Any) -> str:
    """A value as TOML writes it; None as the word that the command line takes for it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps("none" if value is None else str(value), ensure_ascii=False)
