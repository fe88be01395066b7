"""What a project's settings make of Sylvan's models; the words that its analyser finds, for Sylvan's vectoriser."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sylvan.errors import ParameterError, UnsupportedError
from sylvan.models import Ensemble, NeighborRanker, TextModel, XRLinear
from sylvan.models.base import Estimator
from sylvan.models.text_estimator import TextEstimator
from sylvan.params.wording import did_you_mean
from sylvan.text import TfidfVectorizer

# The names are Annif's own where it has one; ``ngram`` is the most words that a term has.
WORD_PARAMETERS: Mapping[str, Any] = {
    "ngram": "auto", "min_df": 1, "max_df": 1.0, "max_features": None, "sublinear_tf": False,
}  # fmt: skip
_APART = re.compile(r"\W")
_LINEAR = (
    "branching", "max_leaf", "beam", "negatives", "cost", "positive_cost", "threshold", "max_weights_per_label",
    "weight_dtype", "n_trees", "calibration", "keep_rows", "seed",
)  # fmt: skip
_NEIGHBORS = ("n_neighbors", "power")
# What a project has besides, which Annif itself reads.
_OF_ANNIF = ("name", "language", "backend", "analyzer", "transform", "vocab", "access", "allow_learn", "limit")
_TRUE, _FALSE = ("1", "yes", "true", "on"), ("0", "no", "false", "off")
# What a project may set, and what holds where it doesn't: Sylvan's own values.
DEFAULTS: Mapping[str, Any] = {
    "model": "linear",
    "weights": None,
    **WORD_PARAMETERS,
    **{name: getattr(XRLinear(), name) for name in _LINEAR},
    **{name: getattr(NeighborRanker(), name) for name in _NEIGHBORS},
}


def word_vectorizer(parameters: Mapping[str, Any], n_jobs: int | None) -> TfidfVectorizer:
    """A vectoriser of texts from :func:`joined_words`: its words are those between spaces."""
    values = {name: value for name, value in parameters.items() if name in WORD_PARAMETERS and name != "ngram"}
    longest = parameters["ngram"]
    ngrams = (1, longest) if isinstance(longest, int) else longest
    return TfidfVectorizer(ngrams=ngrams, min_token_length=1, cjk="word", n_jobs=n_jobs, **values)


def joined_words(tokenize_words: Callable[[str], Iterable[str]], text: str) -> str:
    """A text's words with spaces between them; inside a word there is nothing that the vectoriser would part it at."""
    return " ".join(_APART.sub(_letters, word) for word in tokenize_words(text) if word)


def _letters(match: re.Match[str]) -> str:
    """Letters in place of a character that is none: marks, which tell words apart, by their numbers."""
    character = match[0]
    return f"_{ord(character):x}_" if unicodedata.category(character).startswith("M") else "_"


def text_model(settings: Mapping[str, Any], n_jobs: int | None = None) -> TextModel:
    """The model that a project's settings describe, not fitted."""
    values = {name: plain_value(settings.get(name, default), default) for name, default in DEFAULTS.items()}
    members = _members(values, n_jobs)
    ranker = members[0]
    if len(members) > 1:
        weights = _weights(values["weights"])
        ranker = Ensemble(members, weights=weights, n_jobs=n_jobs, calibration=values["calibration"])
    model = TextModel(word_vectorizer(values, n_jobs), ranker)
    for part in (model, *members):
        part.check_params()
    return model


def need_known(parameters: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse settings that neither the backend knows nor Annif: a misspelt one would have no effect."""
    names = [*allowed, *(name for name in _OF_ANNIF if name not in allowed)]
    for name in parameters:
        if name not in names:
            raise ParameterError(f"There is no parameter {name!r}. {did_you_mean(name, names)}")


def resumes(model: TextModel) -> bool:
    """Whether its training can be gone on from a checkpoint."""
    return all(isinstance(ranker, XRLinear) for ranker in _rankers(model))


def need_rows(model: TextEstimator) -> None:
    """Refuse to bring a model up to date that forgot its training rows: it would answer new labels too often."""
    if any(isinstance(ranker, XRLinear) and ranker.training_rows_ is None for ranker in _rankers(model)):
        raise UnsupportedError(
            "The model keeps no training rows, which it needs for learning more: set keep_rows=true for the project "
            "and train it again."
        )


def _rankers(model: TextEstimator) -> list[Any]:
    return list(getattr(model.inner(), "members", [model.inner()]))


def _members(values: Mapping[str, Any], n_jobs: int | None) -> list[Estimator]:
    """One model for each word of ``model``; trees of another seed each."""
    linear = {name: values[name] for name in _LINEAR if name != "seed"}
    members: list[Estimator] = []
    for word in str(values["model"]).replace(" ", "").split("+"):
        if word == "linear":
            seed = values["seed"]
            if isinstance(seed, int):  # or else it is refused
                seed += sum(isinstance(member, XRLinear) for member in members)
            members.append(XRLinear(**linear, seed=seed, n_jobs=n_jobs))
        elif word == "neighbors":
            members.append(NeighborRanker(**{name: values[name] for name in _NEIGHBORS}, n_jobs=n_jobs))
        else:
            raise ParameterError(
                "The 'model' parameter must be 'linear' or 'neighbors', or several of them joined by '+', such as "
                f"'linear+neighbors'. Got {values['model']!r} instead."
            )
    if len(members) == 1 and isinstance(members[0], NeighborRanker):
        members[0].calibration = values["calibration"]  # in an ensemble it is the whole that is calibrated
    return members


def _weights(weights: Any) -> Any:
    """The members' weights out of text such as "2,1"."""
    if weights is None or weights == "fit":
        return weights
    try:
        return [float(number) for number in str(weights).split(",")]
    except ValueError:
        raise ParameterError(
            f"The 'weights' parameter must be numbers with commas between, such as '2,1', or 'fit'. Got {weights!r} "
            "instead."
        ) from None


def plain_value(value: Any, default: Any) -> Any:
    """A value out of a configuration file, where everything is text; what it may be is said by the model."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if isinstance(default, bool) and word in (*_TRUE, *_FALSE):
        return word in _TRUE
    if word in ("", "none"):
        return None
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return value.strip()
