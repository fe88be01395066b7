"""What a tuning chooses from: the dimensions of the space, and how a setting is varied. Every range starts from what
the models declare: words are read from the constraints of their parameters, and a parameter's default is always among
the values, so that the default model is a point of the space whatever it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sylvan.models.base import Estimator
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.xr.presets import PRESETS
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import construct
from sylvan.store.registry import COMMANDS, class_of
from sylvan.text import TfidfVectorizer
from sylvan.version import __version__

# By their names on the command line.
MODELS: Mapping[str, type[Estimator]] = {
    name: class_of(name) for name in ("xr-linear", "neighbors", "lexical", "xr-transformer", "x-transformer")
}


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

    @property
    def takes_texts(self) -> bool:
        """Whether its model makes features of texts itself."""
        return COMMANDS[self.model].texts_alone

    def inner_model(self, n_jobs: int | None = None) -> Estimator:
        """Its model without the vectoriser, not fitted."""
        return construct(MODELS[self.model], {**self.parameters, "n_jobs": n_jobs})

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
        settings = [f"{name}={_short(value)}" for name, value in (*self.parameters.items(), *self.text.items())]
        return f"{self.model}: {', '.join(settings) or 'defaults'}"


def _short(value: Any) -> str:
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
    single = len(members) == 1
    lines = [f"# sylvan train {members[0].model if single else 'ensemble'} TRAIN --model DIR --config THIS_FILE"]
    if pruned_to is not None:
        lines += [f"# sylvan compress DIR --output SMALL_DIR --max-size {pruned_to}"]
    lines += [f"# Parameters that aren't named are at the defaults of Sylvan {__version__}.", ""]
    if options:
        lines += ["[options]", *_lines(options), ""]
    lines += ["[parameters]", *_lines(members[0].parameters if single else {"weights": list(weights)})]
    for number, member in enumerate(() if single else members):
        lines += ["", f"[parameters.member{number}]", *_lines({"model": member.model, **member.parameters})]
        if member.text:
            lines += ["", f"[parameters.member{number}.text]", *_lines(member.text)]
    if single:
        lines += ["", "[text]", *_lines(members[0].text)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name} = {_toml(value)}" for name, value in values.items())


def _toml(value: Any) -> str:
    """A value as TOML writes it; None as the word that the command line takes for it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps("none" if value is None else value, ensure_ascii=False, default=str)


_MANY = {"n_trees": 3, "beam": 20}
# By "auto", negatives count in full where rows have many features, as rows of characters' n-grams have: too much there.
_MILD = {"negative_cost": 0.3}
_GENTLE = {**_MILD, "cost": 0.5, "threshold": 0.03}
_SPARSE = {"max_leaf": 400, "branching": 32, "threshold": 0.2, "beam": 20}
_FEW = {"ngrams": (1, 1), "min_df": 5, "sublinear_tf": True}
_WORDS = {"min_df": 2, "sublinear_tf": True}
_FREQUENT = {"ngrams": (1, 2), "min_df": 5, "sublinear_tf": True, "max_features": 60_000}
_CHARACTERS = {"analyzer": "char_wb", "ngrams": (4, 4), "min_df": 2, "sublinear_tf": True}
_KINDS = ("analyzer", "ngrams", "phrase_weight")  # of terms, which are chosen together
_WORD_TERMS = (("word", (1, 1), None), ("word", (1, 2), None), ("word", (1, 2), 0.5), ("char_wb", (4, 4), None))
_TERMS = (*_WORD_TERMS, ("char_wb", (3, 4), None), ("char_wb", (3, 5), None))
_COMBINE = ("l3_hinge", "paper", "damped")
STEP = 3.0  # by which a number is varied at most
_TELLING = ("cost", "negative_cost", "threshold", "n_trees", "beam", "n_neighbors", "power")  # varied more often
_OFTEN = 3.0  # times as often as others


@dataclass(frozen=True)
class Start:
    """A setting that is tried before any is drawn; ``whole`` ones are measured on all rows, for ensembles."""

    changes: Mapping[str, Any]
    model: str = "xr-linear"
    text: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False


# Settings to begin with after the default, those first that bring much for their time: over matrices, over texts that
# are long or short, and the same where the model's size is limited.
_STARTS = {
    "matrices": (Start({}, "neighbors", whole=True), Start(_GENTLE), Start(_MANY, whole=True)),
    "long": (
        Start({}, text=_WORDS, whole=True), Start({"n_neighbors": 60}, "neighbors", _WORDS, whole=True),
        Start({"tolerance": 0.3}, text=_FREQUENT, whole=True), Start({"n_trees": 3}, text=_WORDS),
        Start({}, text={**_FREQUENT, "max_features": 120_000}, whole=True),  # which few rows would undervalue
        Start({"tolerance": 0.3}, text={**_CHARACTERS, "max_features": 60_000}, whole=True),
    ),
    "short": (
        Start({"n_neighbors": 100}, "neighbors", _CHARACTERS, whole=True),
        Start({**_MILD, "beam": 20}, text=_CHARACTERS, whole=True), Start(_MANY, whole=True),
        Start(_GENTLE, text=_CHARACTERS),
        Start({**_MILD, "cost": 0.5}, text={"ngrams": (1, 1), "sublinear_tf": True}),
        Start({**_MILD, **_MANY}, text=_CHARACTERS),
        Start({**_MILD, "beam": 20, "threshold": 0.03, "tolerance": 0.3}, text={**_CHARACTERS, "ngrams": (3, 5)},
              whole=True),
    ),
    "small matrices": (Start(_SPARSE, whole=True), Start({**_SPARSE, "max_leaf": 800, "threshold": 0.3})),
    # Few terms, as these can't be pruned, and large leaves, so that few layers.
    "small long": (
        Start(_SPARSE, text=_FEW, whole=True), Start(_SPARSE, text={**_FEW, "min_df": 3}),
        Start({**_SPARSE, **_MILD, "cost": 0.5}, text={**_FEW, "min_df": 3}),
        Start({**_SPARSE, "max_leaf": 800}, text={**_FEW, "min_df": 2}),
        Start(_SPARSE, text={**_FEW, "min_df": 1, "max_features": 5_000}, whole=True),
    ),
    "small short": (Start({**_SPARSE, **_MILD}, text={**_CHARACTERS, "max_features": 10_000}),),  # after those for long
}  # fmt: skip


@dataclass(frozen=True)
class Words:
    """A choice of a few values, of any kind that JSON has."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """The value that a trial tries."""
        return json.loads(trial.suggest_categorical(name, [json.dumps(value) for value in self.values]))

    def written(self, value: Any) -> Any:
        """A value as the study keeps it."""
        return json.dumps(value)

    @property
    def movable(self) -> bool:
        """Whether there is another value."""
        return len(self.values) > 1

    def moved(self, written: Any, rng: np.random.Generator) -> Any:
        """Another value, as the study keeps it."""
        alternatives = [self.written(value) for value in self.values if self.written(value) != written]
        return alternatives[int(rng.integers(len(alternatives)))]

    def with_value(self, value: Any) -> Words:
        """The choice that has a value, too."""
        return self if value in self.values else Words((*self.values, value))


@dataclass(frozen=True)
class Numbers:
    """A range of numbers, tried by their logarithm."""

    low: float
    high: float

    def suggest(self, trial: Any, name: str) -> Any:
        """The value that a trial tries; floats have three digits, which a person can read."""
        if isinstance(self.low, int):
            return trial.suggest_int(name, self.low, int(self.high), log=True)
        return float(f"{trial.suggest_float(name, self.low, self.high, log=True):.3g}")

    def written(self, value: Any) -> Any:
        """A value as the study keeps it."""
        return value

    @property
    def movable(self) -> bool:
        """Whether there is another value."""
        return self.low < self.high

    def moved(self, written: Any, rng: np.random.Generator) -> Any:
        """A value up to ``STEP`` times as large or small, as the study keeps it."""
        value = float(np.clip(written * STEP ** rng.uniform(-1, 1), self.low, self.high))
        if not isinstance(self.low, int):
            return value
        if (rounded := round(value)) != written:
            return rounded
        return written + 1 if written < self.high else written - 1

    def with_value(self, value: Any) -> Numbers:
        """The range that holds a value, too."""
        return Numbers(min(self.low, value), max(self.high, value))


Dimension = Words | Numbers


class Space:
    """The dimensions for texts or matrices, a metric and limits."""

    def __init__(
        self, texts: bool, tail: str | None = None, small: bool = False, seed: int = 0, encoder: str | None = None,
        long: bool = False,
    ) -> None:  # fmt: skip
        # whether the texts are long, such as abstracts: other settings are then good, and those of many terms slow
        self.long = long
        self.texts, self.tail, self.small, self.seed = texts, tail, small, seed
        usual, neighbors, vectorizer = XRLinear(), NeighborRanker(), usual_vectorizer()
        self.usual: dict[str, Estimator] = {"xr-linear": usual, "neighbors": neighbors}  # models with their defaults
        tails: dict[str, Dimension] = {} if tail is None else {"tail": Words((None, tail))}
        self.of_model: dict[str, dict[str, Dimension]] = {
            "xr-linear": {**self._of_trees(usual), **tails},
            "neighbors": {
                "n_neighbors": _around(neighbors.n_neighbors, 5, 200), "power": _around(neighbors.power, 0.5, 10.0),
                **tails,
            },
        }  # fmt: skip
        # Parameters of models with an encoder, and those of their ranker that are tried.
        self.fixed: dict[str, Any] = {} if encoder is None else {"encoder": encoder, "frozen": True}
        if self.fixed:
            self.usual["xr-transformer"] = MODELS["xr-transformer"](**self.fixed)
            trees = self._of_trees(self.usual["xr-transformer"].part("ranker"))
            names = ("negatives", "combine", "max_leaf", "n_trees", "beam", "cost", "positive_cost")
            of_ranker = {f"ranker__{name}": trees[name] for name in names}
            self.of_model["xr-transformer"] = {"dense_scale": Words((None, 0.5, 1.0, 2.0)), **of_ranker}
        self.of_text: dict[str, Dimension] = {}
        if texts:
            self.of_text = {
                "terms": _words([getattr(vectorizer, name) for name in _KINDS], _WORD_TERMS if long else _TERMS),
                "min_df": _words(vectorizer.min_df, (1, 2, 3, 5, 10) if small else (1, 2, 3, 5)),
                "sublinear_tf": _words(vectorizer.sublinear_tf, (False, True)),
            }
            if small or long:
                most = (5_000, 10_000, 20_000, 50_000, 120_000) if small else (60_000, 120_000, 240_000)
                self.of_text["max_features"] = _words(vectorizer.max_features, most)

    def _usual_value(self, model: str, name: str) -> Any:
        """A parameter's default, a part's too."""
        outer, _, inner = name.rpartition("__")
        return getattr(self.usual[model].part(outer) if outer else self.usual[model], inner)

    def _usual_terms(self, model: str) -> dict[str, Any]:
        """The parameters of a model's vectoriser by default."""
        owner = self.usual[model]
        return (owner.part("vectorizer") if model == "xr-transformer" else usual_vectorizer()).get_params()

    def _of_trees(self, usual: XRLinear) -> dict[str, Dimension]:
        ranges: Any = XRLinear.constraints
        dimensions: dict[str, Dimension] = {
            "negatives": _words(usual.negatives, ranges["negatives"].options),
            "combine": _words(usual.combine, [word for word in _COMBINE if ranges["combine"].accepts(word)]),
            "branching": _around(usual.branching, 4, 64),
            "max_leaf": _around(usual.max_leaf, 20, 400),
            "clustering": _words(usual.clustering, [word for word in ranges["clustering"].options if word != "random"]),
            "n_trees": Numbers(1, max(3, usual.n_trees)),
            "beam": _around(usual.beam, 5, 40),
            "cost": _around(usual.cost, 0.25, 4.0),
            "positive_cost": _around(usual.positive_cost, 0.5, 4.0),
            "negative_cost": _words(usual.negative_cost, (0.1, 0.3, 0.5, 1.0)),
            "tolerance": _words(usual.tolerance, (0.05, 0.2, 0.3)),
            "threshold": _around(usual.threshold, 0.01, 0.4),
        }
        for preset in (PRESETS["fast"], PRESETS["accurate"]):  # that of the paper is no proposal
            for name in preset.keys() & dimensions.keys():
                dimensions[name] = dimensions[name].with_value(_plain(preset[name]))
        if self.small:
            dimensions["max_leaf"] = _around(usual.max_leaf, 20, 800)
            dimensions["max_weights_per_label"] = _words(usual.max_weights_per_label, (50, 100, 200, 400))
        if not self.texts:
            dimensions["normalize"] = _words(usual.normalize, (False, True))
        return dimensions

    def checksum(self) -> int:
        """The same number for the same dimensions, whose trials can be in one study."""
        return zlib.crc32(repr([self.of_model, self.of_text]).encode("utf-8"))

    def starts(self) -> Iterator[Start]:
        """Settings that have proved good on some data, the default first."""
        yield Start({}, whole=True)
        if self.tail is not None:
            yield Start({"tail": self.tail})
        if self.fixed:
            yield Start({}, "xr-transformer", whole=True)
        kind = "matrices" if not self.texts else "long" if self.long else "short"
        kinds = [kind] if not self.small else ["small long", "small short"] if kind == "short" else [f"small {kind}"]
        last = Start({"negatives": PRESETS["fast"]["negatives"]})
        tails = {} if self.tail is None else {"tail": self.tail}
        for start in (*(start for each in kinds for start in _STARTS[each]), last):
            yield start if start.model == "neighbors" else replace(start, changes={**start.changes, **tails})

    def setting(self, trial: Any) -> Setting:
        """The setting that a trial of the study tries."""
        model = trial.suggest_categorical("model", list(self.of_model))
        parameters = dict(self.fixed) if model == "xr-transformer" else {}
        for name, dimension in self.of_model[model].items():
            value = dimension.suggest(trial, f"{model}.{name}")
            if value != _plain(self._usual_value(model, name)):
                parameters[name] = value
        if self.seed != getattr(self.usual[model], "seed", self.seed):
            parameters["seed"] = int(self.seed)
        text = {name: dimension.suggest(trial, f"text.{name}") for name, dimension in self.of_text.items()}
        if "terms" in text:
            text |= dict(zip(_KINDS, text.pop("terms"), strict=True))
        usual = self._usual_terms(model)
        return Setting(model, parameters, {name: value for name, value in text.items() if value != _plain(usual[name])})

    def point(self, start: Start) -> dict[str, Any]:
        """A start as the study takes it: a value for each dimension."""
        values = {"model": start.model}
        for name, dimension in self.of_model[start.model].items():
            value = start.changes.get(name, self._usual_value(start.model, name))
            values[f"{start.model}.{name}"] = dimension.written(_plain(value))
        text = {**self._usual_terms(start.model), **start.text}
        text["terms"] = [text[name] for name in _KINDS]
        for name, dimension in self.of_text.items():
            values[f"text.{name}"] = dimension.written(_plain(text[name]))
        return values

    def varied(self, point: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """A point near another: one or two of the values that its model depends on are others."""
        sets = ((point["model"], self.of_model[point["model"]]), ("text", self.of_text))
        movable = [(f"{kind}.{name}", each) for kind, of_kind in sets for name, each in of_kind.items() if each.movable]
        chances = np.array([_OFTEN if name.rpartition(".")[2] in _TELLING else 1.0 for name, _ in movable])
        chosen = rng.choice(len(movable), int(rng.integers(1, 3)), replace=False, p=chances / chances.sum())
        changed = (movable[number] for number in chosen.tolist())
        return {**point, **{name: dimension.moved(point[name], rng) for name, dimension in changed}}


def _words(usual: Any, values: Sequence[Any]) -> Words:
    """The values with the default first, each once."""
    plain = [_plain(usual), *map(_plain, values)]
    return Words(tuple(value for position, value in enumerate(plain) if value not in plain[:position]))


def _around(usual: Any, low: float, high: float) -> Dimension:
    """A range that holds the default; that one alone where it is no number."""
    if isinstance(usual, bool) or not isinstance(usual, int | float) or usual <= 0:
        return Words((_plain(usual),))
    return Numbers(min(low, usual), max(high, usual))


def _plain(value: Any) -> Any:
    """A value as JSON has it: with lists instead of tuples."""
    return json.loads(json.dumps(value))
