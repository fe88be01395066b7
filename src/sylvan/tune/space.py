"""What a tuning chooses from: the dimensions of the space, and how a setting is varied. Every range starts from what
the models declare: words are read from the constraints of their parameters, and a parameter's default is always among
the values, so that the default model is a point of the space whatever it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sylvan.models.base import Estimator
from sylvan.models.ensembles.ensemble import Ensemble
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.xr.xr_linear import PRESETS, XRLinear
from sylvan.params.fields import Choice, Constraint, construct
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

    @classmethod
    def of_key(cls, key: str) -> Setting:
        """The setting of :attr:`key`."""
        return cls(*json.loads(key))

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
        given = [f"{name}={_short(value)}" for name, value in (*self.parameters.items(), *self.text.items())]
        return f"{self.model}: {', '.join(given) or 'defaults'}"


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
    one = len(members) == 1
    lines = [f"# sylvan train {members[0].model if one else 'ensemble'} TRAIN --model DIR --config THIS_FILE"]
    if pruned_to is not None:
        lines += [f"# sylvan compress DIR --output SMALL_DIR --max-size {pruned_to}"]
    lines += [f"# Parameters that aren't named are at the defaults of Sylvan {__version__}.", ""]
    if options:
        lines += ["[options]", *_lines(options), ""]
    lines += ["[parameters]", *_lines(members[0].parameters if one else {"weights": list(weights)})]
    for number, member in enumerate(() if one else members):
        lines += ["", f"[parameters.member{number}]", *_lines({"model": member.model, **member.parameters})]
        if member.text:
            lines += ["", f"[parameters.member{number}.text]", *_lines(member.text)]
    if one:
        lines += ["", "[text]", *_lines(members[0].text)]
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


_MANY = {"n_trees": 3, "beam": 20}
# By "auto", negatives count in full where rows have many features, as rows of characters' n-grams have: too much there.
_MILD = {"negative_cost": 0.3}
_GENTLE = {**_MILD, "cost": 0.5, "threshold": 0.03}
_SPARSE = {"max_leaf": 400, "branching": 32, "threshold": 0.2, "beam": 20}
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


def starts_for(
    texts: bool, long: bool = False, small: bool = False, tail: str | None = None, encoder: bool = False
) -> Iterator[Start]:
    """The settings to begin with: the default, then others, those first that bring much for their time."""
    tails = {} if tail is None else {"tail": tail}
    yield Start({}, whole=True)
    if tails:
        yield Start(tails)
    if encoder:
        yield Start({}, "xr-transformer", whole=True)
    if small:
        yield from _small(texts, long, tails)
    elif not texts:
        yield Start({}, "neighbors", whole=True)
        yield Start({**_GENTLE, **tails})
        yield Start({**_MANY, **tails}, whole=True)
    elif long:
        yield Start(tails, text=_WORDS, whole=True)
        yield Start({"n_neighbors": 60}, "neighbors", _WORDS, whole=True)
        yield Start({"tolerance": 0.3, **tails}, text=_FREQUENT, whole=True)
        yield Start({"n_trees": 3, **tails}, text=_WORDS)
        yield Start(tails, text={**_FREQUENT, "max_features": 120_000}, whole=True)  # which few rows would undervalue
        yield Start({"tolerance": 0.3, **tails}, text={**_CHARACTERS, "max_features": 60_000}, whole=True)
    else:
        yield Start({"n_neighbors": 100}, "neighbors", _CHARACTERS, whole=True)
        yield Start({**_MILD, "beam": 20, **tails}, text=_CHARACTERS, whole=True)
        yield Start({**_MANY, **tails}, whole=True)
        yield Start({**_GENTLE, **tails}, text=_CHARACTERS)
        yield Start({**_MILD, "cost": 0.5, **tails}, text={"ngrams": (1, 1), "sublinear_tf": True})
        yield Start({**_MILD, **_MANY, **tails}, text=_CHARACTERS)
        gentle = {**_MILD, "beam": 20, "threshold": 0.03, "tolerance": 0.3}
        yield Start({**gentle, **tails}, text={**_CHARACTERS, "ngrams": (3, 5)}, whole=True)
    yield Start({"negatives": PRESETS["fast"]["negatives"], **tails})


def _small(texts: bool, long: bool, tails: Mapping[str, Any]) -> Iterator[Start]:
    """Where the model's size is limited: few terms, as these can't be pruned, and large leaves, so that few layers."""
    few = {"ngrams": (1, 1), "min_df": 5, "sublinear_tf": True}
    if not texts:
        yield Start({**_SPARSE, **tails}, whole=True)
        yield Start({**_SPARSE, "max_leaf": 800, "threshold": 0.3, **tails})
        return
    yield Start({**_SPARSE, **tails}, text=few, whole=True)
    yield Start({**_SPARSE, **tails}, text={**few, "min_df": 3})
    yield Start({**_SPARSE, **_MILD, "cost": 0.5, **tails}, text={**few, "min_df": 3})
    yield Start({**_SPARSE, "max_leaf": 800, **tails}, text={**few, "min_df": 2})
    yield Start({**_SPARSE, **tails}, text={**few, "min_df": 1, "max_features": 5_000}, whole=True)
    if not long:
        yield Start({**_SPARSE, **_MILD, **tails}, text={**_CHARACTERS, "max_features": 10_000})


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
        others = [self.written(value) for value in self.values if self.written(value) != written]
        return others[int(rng.integers(len(others)))]

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
        if (whole := round(value)) != written:
            return whole
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
        tails: dict[str, Dimension] = {} if tail is None else {"tail": Words((None, tail))}
        self.of_model: dict[str, dict[str, Dimension]] = {
            "xr-linear": {**self._of_trees(usual), **tails},
            "neighbors": {
                "n_neighbors": _around(neighbors.n_neighbors, 5, 200), "power": _around(neighbors.power, 0.5, 10.0),
                **tails,
            },
        }  # fmt: skip
        self.fixed: dict[str, Any] = {}  # parameters of models with an encoder
        if encoder is not None:
            self.fixed = {"encoder": encoder, "frozen": True}
            self.of_model["xr-transformer"] = self._of_encoder()
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
        self._usual_text = vectorizer.get_params()

    def _of_encoder(self) -> dict[str, Dimension]:
        ranker = self._usual("xr-transformer").part("ranker")
        names = ("negatives", "combine", "max_leaf", "n_trees", "beam", "cost", "positive_cost")
        trees = self._of_trees(ranker)
        return {"dense_scale": Words((None, 0.5, 1.0, 2.0)), **{f"ranker__{name}": trees[name] for name in names}}

    def _usual(self, model: str) -> Estimator:
        """A model with its defaults."""
        return MODELS[model](**(self.fixed if model == "xr-transformer" else {}))

    def _usual_value(self, model: str, name: str) -> Any:
        """A parameter's default, a part's too."""
        outer, _, inner = name.rpartition("__")
        usual = self._usual(model)
        return getattr(usual.part(outer) if outer else usual, inner)

    def _usual_terms(self, model: str) -> dict[str, Any]:
        """The parameters of a model's vectoriser by default."""
        return self._usual(model).part("vectorizer").get_params() if model == "xr-transformer" else self._usual_text

    def _of_trees(self, usual: XRLinear) -> dict[str, Dimension]:
        ranges = XRLinear.constraints
        dimensions: dict[str, Dimension] = {
            "negatives": _words(usual.negatives, _options(ranges["negatives"])),
            "combine": _words(usual.combine, [word for word in _COMBINE if ranges["combine"].accepts(word)]),
            "branching": _around(usual.branching, 4, 64),
            "max_leaf": _around(usual.max_leaf, 20, 400),
            "clustering": _words(usual.clustering, [w for w in _options(ranges["clustering"]) if w != "random"]),
            "n_trees": Numbers(1, max(3, usual.n_trees)),
            "beam": _around(usual.beam, 5, 40),
            "cost": _around(usual.cost, 0.25, 4.0),
            "positive_cost": _around(usual.positive_cost, 0.5, 4.0),
            "negative_cost": _words(usual.negative_cost, (0.1, 0.3, 0.5, 1.0)),
            "tolerance": _words(usual.tolerance, (0.05, 0.2, 0.3)),
            "threshold": _around(usual.threshold, 0.01, 0.4),
        }
        for preset in PRESETS.values():
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
        return starts_for(self.texts, self.long, self.small, self.tail, bool(self.fixed))

    def setting(self, trial: Any) -> Setting:
        """The setting that a trial of the study tries."""
        model = trial.suggest_categorical("model", list(self.of_model))
        parameters = {
            name: dimension.suggest(trial, f"{model}.{name}") for name, dimension in self.of_model[model].items()
        }
        changed = {name: value for name, value in parameters.items() if value != _plain(self._usual_value(model, name))}
        text = {name: dimension.suggest(trial, f"text.{name}") for name, dimension in self.of_text.items()}
        if "terms" in text:
            text |= dict(zip(_KINDS, text.pop("terms"), strict=True))
        usual = self._usual_terms(model)
        text = {name: value for name, value in text.items() if value != _plain(usual[name])}
        return Setting(model, self._seeded(model, changed), text)

    def _seeded(self, model: str, parameters: dict[str, Any]) -> dict[str, Any]:
        usual = self._usual(model)
        seeded = hasattr(usual, "seed") and self.seed != usual.seed
        fixed = self.fixed if model == "xr-transformer" else {}
        return {**fixed, **parameters, "seed": self.seed} if seeded else {**fixed, **parameters}

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
        dimensions = {f"{point['model']}.{name}": one for name, one in self.of_model[point["model"]].items()}
        dimensions |= {f"text.{name}": one for name, one in self.of_text.items()}
        names = [name for name, one in dimensions.items() if one.movable]
        chances = np.array([_OFTEN if name.rpartition(".")[2] in _TELLING else 1.0 for name in names])
        chosen = rng.choice(len(names), int(rng.integers(1, 3)), replace=False, p=chances / chances.sum())
        changed = {names[at]: dimensions[names[at]].moved(point[names[at]], rng) for at in chosen.tolist()}
        return {**point, **changed}


def _options(constraint: Constraint) -> list[str]:
    assert isinstance(constraint, Choice)
    return list(constraint.options)


def _words(usual: Any, values: Sequence[Any]) -> Words:
    """The values with the default first, each once."""
    plain = [_plain(usual), *map(_plain, values)]
    return Words(tuple(value for at, value in enumerate(plain) if value not in plain[:at]))


def _around(usual: Any, low: float, high: float) -> Dimension:
    """A range that holds the default; that one alone where it is no number."""
    if isinstance(usual, bool) or not isinstance(usual, int | float) or usual <= 0:
        return Words((_plain(usual),))
    return Numbers(min(low, usual), max(high, usual))


def _plain(value: Any) -> Any:
    """A value as JSON has it: with lists instead of tuples."""
    return json.loads(json.dumps(value))
