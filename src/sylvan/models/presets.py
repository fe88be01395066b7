"""Presets of models over texts: four words, from the quickest training to the best answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload

from sylvan.models.base import Estimator
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.reranker.reranker import Reranker
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.xr.presets import PRESETS
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import Choice, check_value

TextPreset = Literal["fast", "balanced", "accurate", "best"]


class Member(NamedTuple):
    """A model by its command, and the parameters of it and of its vectoriser that aren't at their defaults."""

    model: str
    parameters: Mapping[str, Any] = MappingProxyType({})
    text: Mapping[str, Any] = MappingProxyType({})


class Recipe(NamedTuple):
    """What a preset is: the command that trains it, and its members."""

    command: str
    members: tuple[Member, ...]


# Other features make other errors, and another seed another tree. Nearest rows add to an order that is learned; to a
# mean they added nothing that held on every set.
_FREQUENT = {"min_df": 2, "sublinear_tf": True, "max_features": 120_000}
_CHARACTERS = {"analyzer": "char_wb", "ngrams": (4, 4), **_FREQUENT}
_TREES = (
    Member("xr-linear"),
    Member("xr-linear", {"seed": 1}, {"ngrams": (1, 2), **_FREQUENT}),
    Member("xr-linear", {"seed": 2}, _CHARACTERS),
)
TEXT_PRESETS: Mapping[TextPreset, Recipe] = MappingProxyType({
    "fast": Recipe("xr-linear", (Member("xr-linear", PRESETS["fast"]),)),
    "balanced": Recipe("xr-linear", (Member("xr-linear", PRESETS["balanced"]),)),
    "accurate": Recipe("ensemble", _TREES),
    "best": Recipe(
        "reranker", (*_TREES, Member("neighbors"), Member("neighbors", text=_CHARACTERS), Member("lexical"))
    ),
})  # fmt: skip


@overload
def preset(name: Literal["fast", "balanced"], n_jobs: int | None = None, **parameters: Any) -> TextModel: ...
@overload
def preset(name: Literal["accurate"], n_jobs: int | None = None, **parameters: Any) -> Ensemble: ...
@overload
def preset(name: Literal["best"], n_jobs: int | None = None, **parameters: Any) -> Reranker: ...
def preset(name: TextPreset, n_jobs: int | None = None, **parameters: Any) -> TextModel | Ensemble | Reranker:
    """A model over texts, by how much time its training may take.

    Parameters
    ----------
    name : {"fast", "balanced", "accurate", "best"}
        - ``"balanced"`` is the default, ``TextModel()``: one :class:`XRLinear`, calibrated.
        - ``"fast"`` is the same with easier negatives and without calibration: its scores aren't probabilities.
        - ``"accurate"`` is an :class:`Ensemble` of three: that of ``"balanced"``; one on the 120,000 most frequent
          words and pairs of words; and one on as many 4-grams of characters within words.
        - ``"best"`` is a :class:`Reranker` of these three, two NeighborRankers, on words and on parts of words, and a
          :class:`LexicalMatcher`. Its training needs ``pip install "sylvan[rerank]"``, or ``scorer="trees"``.
    n_jobs : int, optional
        Number of threads of every part.
    **parameters
        Others of the model, or of its parts: ``model__beam=20`` of the first two, ``member0__model__beam=20`` of the
        others, ``label_encoder="models/minilm"`` of ``"best"``.

    Returns
    -------
    TextModel, Ensemble or Reranker
        Not fitted. ``fit`` of each takes ``label_texts``, what labels are called, which matters most for ``"best"``.

    Raises
    ------
    ParameterError
        When there is no such preset or parameter.

    Examples
    --------
    >>> from sylvan import preset
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> tagger = preset("accurate").fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> tagger.rank(["a baker bakes breads"], k=1).names
    [['Baking']]
    >>> [type(member).__name__ for member in preset("best").members][-2:]
    ['TextModel', 'LexicalMatcher']
    """
    check_value("name", name, Choice(tuple(TEXT_PRESETS)), "preset")
    recipe = TEXT_PRESETS[name]
    models: dict[str, Any] = {"xr-linear": XRLinear, "neighbors": NeighborRanker, "lexical": LexicalMatcher}
    members: list[Estimator] = []
    for member in recipe.members:
        ranker = models[member.model](**member.parameters, n_jobs=n_jobs)
        is_whole = isinstance(ranker, LexicalMatcher)
        members.append(ranker if is_whole else TextModel(usual_vectorizer(**member.text, n_jobs=n_jobs), ranker))
    joined = {"ensemble": Ensemble, "reranker": Reranker}.get(recipe.command)
    model: Any = members[0] if joined is None else joined(members, n_jobs=n_jobs)
    model.set_params(**parameters)
    return model  # type: ignore[no-any-return]
