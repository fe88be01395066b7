"""What a project's settings make of Sylvan's models; the words that its analyser finds, for Sylvan's vectoriser."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sylvan.errors import ParameterError, UnsupportedError
from sylvan.models import Ensemble, NeighborRanker, Reranker, TextModel, XRLinear
from sylvan.models.base import Estimator
from sylvan.models.presets import TEXT_PRESETS, preset
from sylvan.params.fields import Choice, check_value, check_values
from sylvan.params.wording import did_you_mean
from sylvan.text import TfidfVectorizer

# The names are Annif's own where it has one; ``ngram`` is the most words that a term has.
WORD_PARAMETERS: Mapping[str, Any] = {
    "ngram": "auto", "min_df": 1, "max_df": 1.0, "max_features": None, "sublinear_tf": False,
}  # fmt: skip
_WHOLE_WORDS: Mapping[str, Any] = {"min_token_length": 1, "cjk": "word"}  # of a vectoriser: those between spaces
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
    "preset": "balanced",
    "scorer": "lightgbm",
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
    return TfidfVectorizer(ngrams=ngrams, n_jobs=n_jobs, **_WHOLE_WORDS, **values)


def joined_words(tokenize_words: Callable[[str], Iterable[str]], text: str) -> str:
    """A text's words with spaces between them; inside a word there is nothing that the vectoriser would part it at."""
    return " ".join(_APART.sub(_letters, word) for word in tokenize_words(text) if word)


def _letters(match: re.Match[str]) -> str:
    """Letters in place of a character that is none: marks, which tell words apart, by their numbers."""
    character = match[0]
    return f"_{ord(character):x}_" if unicodedata.category(character).startswith("M") else "_"


def project_model(settings: Mapping[str, Any], n_jobs: int | None = None) -> TextModel | Ensemble | Reranker:
    """The model that a project's settings describe, not fitted: whatever they say goes before the preset's parameters,
    even what is the default without a preset."""
    values = {name: plain_value(settings.get(name, default), default) for name, default in DEFAULTS.items()}
    name = values.pop("preset")
    check_value("preset", name, Choice(tuple(TEXT_PRESETS)), "the project")
    for kind, names in ((XRLinear, _LINEAR), (NeighborRanker, _NEIGHBORS), (Reranker, ("scorer",))):
        check_values(kind.constraints, kind.__name__, **{each: values[each] for each in names})  # used or not
    changed = {name: value for name, value in values.items() if name in settings}
    recipe = TEXT_PRESETS[name]
    if recipe.command == "xr-linear":
        return _text_model({**values, **recipe.members[0].parameters, **changed}, n_jobs)
    if (wrong := next((each for each in (*WORD_PARAMETERS, "model", "weights", "seed") if each in changed), None)):
        raise ParameterError(
            f"The {wrong!r} parameter is for the presets 'fast' and 'balanced': the members of {name!r} have their own."
        )
    model: Ensemble | Reranker = preset(name, n_jobs)
    for part in (model, *model.members, *(member.model for member in model.members if isinstance(member, TextModel))):
        own = [each for each in part.parameter_names() if each != "n_trees" or isinstance(part, XRLinear)]
        part.set_params(**{each: value for each, value in changed.items() if each in own})
        part.check_params()
    for member in model.members:
        if isinstance(member, TextModel) and member.vectorizer.analyzer == "word":
            member.vectorizer.set_params(**_WHOLE_WORDS)
    return model


def _text_model(values: Mapping[str, Any], n_jobs: int | None) -> TextModel:
    """The TextModel of settings that are read, not fitted."""
    members, weights = _members(values, n_jobs), _weights(values["weights"])
    ranker = members[0]
    if len(members) == 1 and weights is not None:
        raise ParameterError(
            "The 'weights' parameter is for several models, such as model=linear+neighbors. Got "
            f"{values['weights']!r} with {values['model']!r}."
        )
    if len(members) > 1:
        ranker = Ensemble(members, weights=weights, n_jobs=n_jobs, calibration=values["calibration"])
    model = TextModel(word_vectorizer(values, n_jobs), ranker)
    for part in (model, *members):
        part.check_params()
    return model


def learns_names(model: TextModel | Ensemble | Reranker) -> bool:
    """Whether a project's model learns from what subjects are called; rows that stay would have other ids by them."""
    ranker = model.model if isinstance(model, TextModel) else None
    return isinstance(model, Ensemble | Reranker) or (isinstance(ranker, XRLinear) and not ranker.keep_rows)


def need_known(parameters: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse settings that neither the backend knows nor Annif: a misspelt one would have no effect."""
    names = [*allowed, *(name for name in _OF_ANNIF if name not in allowed)]
    for name in parameters:
        if name not in names:
            raise ParameterError(f"There is no parameter {name!r}. {did_you_mean(name, names)}")


def resumes(model: Any) -> bool:
    """Whether its training can be gone on from a checkpoint."""
    return not isinstance(model, TextModel) or all(isinstance(ranker, XRLinear) for ranker in _rankers(model))


def need_rows(model: Any) -> None:
    """Refuse to bring a model up to date that forgot its training rows: it would answer new labels too often."""
    if any(isinstance(ranker, XRLinear) and ranker.training_rows_ is None for ranker in _rankers(model)):
        raise UnsupportedError(
            "The model keeps no training rows, which it needs for learning more: set keep_rows=true for the project "
            "and train it again."
        )


def _rankers(model: Any) -> list[Any]:
    """The models over features that a project's model is made of."""
    inner = model.inner() if hasattr(model, "inner") else model
    return [ranker for member in getattr(inner, "members", ()) for ranker in _rankers(member)] or [inner]


def _members(values: Mapping[str, Any], n_jobs: int | None) -> list[Estimator]:
    """One model for each word of ``model``; trees of another seed each."""
    linear = {name: values[name] for name in _LINEAR if name != "seed"}
    members: list[Estimator] = []
    for word in str(values["model"]).replace(" ", "").split("+"):
        if word == "linear":
            seed = values["seed"] + sum(isinstance(member, XRLinear) for member in members)
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
