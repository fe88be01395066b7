"""Declared parameters: a field says a parameter's type, range and default once; all else is derived from it.

A class with parameters derives from :class:`Parameterized`, stands under ``@parameterized``, and has one field for each
of them, in the order of its constructor; what they mean stands in its docstring, or its base's, alone, as what it
raises does::

    @parameterized
    class Ranker(Estimator):
        branching: Annotated[int, Range(2)] = 16
        loss: Annotated[str, Choice(LOSSES)] = "hinge"
        weights: Literal["auto", "none"] = "auto"  # these are the choices, which type checkers know too
        max_weights: Annotated[int | None, Range(1)] = None  # None is allowed where the type says so
        normalize: bool = False  # True or False
        tree: LabelTree | None = None  # an object of that class
        inner: Estimator = fresh(factory=XRLinear)  # nothing, or None: a new XRLinear
        counts: Any = None  # no range: checked by whoever uses it
        seed: Seed = 0  # a type with its range that many classes share

        weights_: list[Weights] = attribute()  # no parameter: ``fit`` sets it

What is derived: ``__init__``, which only assigns, ``help()`` and ``inspect.signature``; ``constraints``, by which
``check_params``, the command line and configuration files go; ``get_params``, ``set_params`` and ``repr``. Fields below
``_: KW_ONLY`` (of :mod:`dataclasses`) are given by name only. A field without a default must be given.

A subclass under ``@parameterized`` has its bases' fields first (of those given by name its own); one that it declares
again keeps its place, has the new default and, unless it declares another, the old range. ``__post_init__``, where
there is one, is called once everything is assigned; a ``torch.nn.Module`` (named after ``Parameterized`` among the
bases) is initialised before. Types must be importable when the ranges are first asked for, so not under
``if TYPE_CHECKING``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

import numpy as np

from sylvan.errors import ParameterError
from sylvan.params.wording import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:  # typing has it from Python 3.11 on, and only type checkers read it
        return lambda decorator: decorator


@dataclass(frozen=True)
class Constraint:
    """One allowed range; subclasses say what it is in words and whether a value lies in it."""

    optional: bool = dataclasses.field(default=False, kw_only=True)

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is allowed (``None`` is decided by ``optional`` before this is asked)."""
        raise TypeError("Constraint is abstract.")

    def describe(self) -> str:
        """The allowed range in words, to follow "must be"."""
        return self._words() + (" or None" if self.optional else "")

    def _words(self) -> str:
        raise TypeError("Constraint is abstract.")

    def received(self, value: Any) -> str:
        """A value that isn't allowed, to follow "Got"; of what has parameters the type, as it may hold whole tables."""
        return f"one of type {type(value).__name__}" if isinstance(value, Parameterized) else repr(value)

    def parse(self, text: str) -> Any:
        """The value that ``text`` from a command line means; a ``ValueError`` when it means none."""
        if self.optional and text.lower() in {"none", ""}:
            return None
        return self._parse(text)

    def _parse(self, text: str) -> Any:
        raise ValueError("can only be set from Python")

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        """This range for a field of one of the types ``kinds``, or None as well where it's ``optional``."""
        return dataclasses.replace(self, optional=optional)


@dataclass(frozen=True)
class Range(Constraint):
    """A finite number from ``low`` to ``high``, both allowed unless ``open_low``; or a ``word``, where one is given."""

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    word: str | None = None
    kind: type = float  # of the field: int or float

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str) and self.word is not None:
            return value == self.word
        if isinstance(value, bool) or not isinstance(value, numbers.Integral if self.kind is int else numbers.Real):
            return False
        if self.kind is not int and not math.isfinite(value):
            return False
        if self.low is not None and (value < self.low or (self.open_low and value == self.low)):
            return False
        return self.high is None or value <= self.high

    def describe(self) -> str:
        article = "an int" if self.kind is int else "a float"
        left = "(-inf" if self.low is None else f"{'(' if self.open_low else '['}{self.low}"
        right = "inf)" if self.high is None else f"{self.high}]"
        word = "" if self.word is None else f", or {self.word!r}"
        return f"{article} in {left}, {right}" + (" or None" if self.optional else "") + word

    def _parse(self, text: str) -> Any:
        return text if text == self.word else self.kind(text)

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        if int not in kinds and float not in kinds:
            raise TypeError("Range is for a field of type int or float")
        return dataclasses.replace(self, optional=optional, kind=int if int in kinds else float)


@dataclass(frozen=True)
class PerLabel(Range):
    """A number of the range for all labels, or one for each: a list, or an array of shape (n_labels,)."""

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, (list, tuple, np.ndarray)):
            return super().accepts(value)
        array = np.asarray(value)
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
            return False
        return super().accepts(array.min().item()) and super().accepts(array.max().item())

    def describe(self) -> str:
        return f"{super().describe()}, or an array of them, one a label"

    def received(self, value: Any) -> str:
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        numbers = listed if isinstance(listed, (list, tuple)) else []
        allowed = super().accepts
        wrong = (f"{number!r} for label {label}" for label, number in enumerate(numbers) if not allowed(number))
        return next(wrong, super().received(value))

    def _parse(self, text: str) -> Any:
        return [self.kind(number) for number in text.split(",")] if "," in text else super()._parse(text)


def Number(
    kind: type, low: float | None = None, high: float | None = None, optional: bool = False, open_low: bool = False
) -> Range:
    """A range of numbers of ``kind`` outside of a field, which would say its type itself."""
    return Range(low, high, open_low, kind=kind, optional=optional)


@dataclass(frozen=True)
class Jobs(Constraint):
    """A number of threads: an int from 1, or -1 for every core."""

    def accepts(self, value: Any) -> bool:
        integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return integral and (int(value) >= 1 or int(value) == -1)

    def describe(self) -> str:
        return "an int in [1, inf), or -1" + (" or None" if self.optional else "") + " for every core"

    def _parse(self, text: str) -> Any:
        return int(text)


@dataclass(frozen=True)
class Choice(Constraint):
    """One of a few words."""

    options: Collection[str]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def _words(self) -> str:
        return f"one of {', '.join(repr(option) for option in self.options)}"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class PerLayer(Choice):
    """One of a few words for every layer of a tree, or a list of them from the top layer to the last."""

    def accepts(self, value: Any) -> bool:
        words = value if isinstance(value, (list, tuple)) else [value]
        return len(words) > 0 and all(super(PerLayer, self).accepts(word) for word in words)

    def _words(self) -> str:
        return f"{super()._words()}, or a list of them, one a layer"

    def _parse(self, text: str) -> Any:
        return text.split(",") if "," in text else text


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def _words(self) -> str:
        return "True or False"

    def _parse(self, text: str) -> Any:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ValueError("not a truth value")
        return words[text.lower()]


@dataclass(frozen=True)
class Instance(Constraint):
    """An object of one of the classes, by default those of the field's type, described in words."""

    classes: tuple[type, ...] = ()
    words: str = ""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.classes)

    def _words(self) -> str:
        return self.words

    def of_types(self, kinds: Sequence[Any], optional: bool) -> Constraint:
        classes = self.classes or tuple(typing.get_origin(kind) or kind for kind in kinds)
        names = [kind.__name__ for kind in classes]
        words = self.words or " or ".join(f"an {name}" if name[0] in "AEIOUX" else f"a {name}" for name in names)
        return Instance(classes, words, optional=optional)


@dataclass(frozen=True)
class Tested(Constraint):
    """What a test lets through, in words; text from a command line is taken as it is."""

    test: Callable[[Any], bool]
    words: str

    def accepts(self, value: Any) -> bool:
        return self.test(value)

    def _words(self) -> str:
        return self.words

    def _parse(self, text: str) -> Any:
        return text


def check_value(name: str, value: Any, constraint: Constraint, owner: str = "") -> None:
    """Check the parameter ``name`` (of ``owner``, a class) against its range."""
    if constraint.optional if value is None else constraint.accepts(value):
        return
    whose = f" of {owner}" if owner else ""
    raise ParameterError(
        f"The {name!r} parameter{whose} must be {constraint.describe()}. Got {constraint.received(value)} instead."
    )


def check_values(ranges: Mapping[str, Constraint], owner: str = "", /, **values: Any) -> None:
    """Check each of ``values`` against the range of its name, where there is one, as :func:`check_value` does."""
    for name, value in values.items():
        if name in ranges:
            check_value(name, value, ranges[name], owner)


_Self = TypeVar("_Self", bound="Parameterized")
_Class = TypeVar("_Class", bound="type[Parameterized]")
_T = TypeVar("_T")
Seed = Annotated[int, Range(0, 2**31 - 1)]
Threads = Annotated[int | None, Jobs()]


def attribute(default: Any = dataclasses.MISSING, *, init: Literal[False] = False) -> Any:
    """A field that is no parameter but set later, by ``fit`` say; a default is that of the class."""
    return dataclasses.field(default=default, init=False)


def fresh(*, factory: Callable[[], _T], kw_only: bool = False) -> _T:
    """A parameter that is a new ``factory()`` where it's None or not given; type checkers go by that word."""
    return cast(_T, dataclasses.field(default=None, kw_only=kw_only, metadata={"fresh": factory}))


@dataclass_transform(eq_default=False, field_specifiers=(attribute, fresh))
def parameterized(cls: _Class) -> _Class:
    """Make a class's fields its parameters; the module's docstring says how they are written."""
    if not (isinstance(cls, type) and issubclass(cls, Parameterized)):
        raise TypeError(f"@parameterized is for subclasses of Parameterized. Got {cls!r} instead.")
    for base in cls.__mro__[: cls.__mro__.index(Parameterized)]:
        if "__init__" in vars(base) and not hasattr(vars(base)["__init__"], "of_fields"):
            raise TypeError(
                f"{base.__name__}.__init__ would never run: {cls.__name__} is under @parameterized, which writes it. "
                "Declare its parameters as fields, and put what else it does into __post_init__."
            )
    dataclass(init=False, eq=False, repr=False, match_args=False)(cls)
    annotations = inspect.get_annotations(cls)
    init_fields = [field for field in dataclasses.fields(cast(Any, cls)) if field.init]
    for field in init_fields:
        if field.name in annotations and (field.name.startswith("_") or field.name.endswith("_")):
            raise TypeError(
                f"{cls.__name__}.{field.name} isn't named as a parameter: if fit sets it, write "
                f"'{field.name}: {field.type} = attribute()'."
            )
        if field.name in vars(cls):
            delattr(cls, field.name)  # the constructor has the default; an object without the parameter has none
    cls.__init__ = _constructor(cls, init_fields)  # type: ignore[method-assign]
    _describe_inherited(cls)
    return cls


def _describe_inherited(cls: type[Parameterized]) -> None:
    """Add to the docstring's "Parameters", in the constructor's order, and "Raises" what only a base's has."""
    bases = cls.__mro__[: cls.__mro__.index(Parameterized)]
    docs = [_sections(doc) for base in bases if (doc := vars(base).get("__doc__"))]
    for title in ("Parameters", "Raises"):
        entries: dict[str, str] = {}  # of each name, the class's own or its nearest base's
        for doc in reversed(docs):
            for entry in re.findall(r"^\S.*\n(?:(?: .*)?\n)*", doc.get(title, ""), re.MULTILINE):
                names = entry.partition("\n")[0].partition(" : ")[0]
                entries.update(dict.fromkeys(names.split(", "), entry.rstrip("\n") + "\n"))
        order = cls.parameter_names() if title == "Parameters" else [*entries]
        if entries:
            docs[0][title] = "".join(dict.fromkeys(entries[name] for name in order if name in entries))
    first = ("", "Parameters", "Attributes", "Raises")
    titles = sorted(docs[0], key=lambda title: first.index(title) if title in first else len(first))
    parts = (f"{title}\n{'-' * len(title)}\n{docs[0][title]}" if title else docs[0][title] for title in titles)
    cls.__doc__ = "\n".join(parts).rstrip("\n")


def _sections(doc: str) -> dict[str, str]:
    """The sections of a docstring by their titles; that without one is what stands before them."""
    before, *rest = re.split(r"^(\S[^\n]*)\n-{3,}\n", inspect.cleandoc(doc) + "\n", flags=re.MULTILINE)
    sections = {"": before, **dict(zip(rest[::2], rest[1::2], strict=True))}
    return {title: body.rstrip("\n") + "\n" for title, body in sections.items()}


def _constructor(cls: type, fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    """An ``__init__`` that assigns the fields, with the signature of one that is written out."""

    def generation(field: dataclasses.Field[Any]) -> int:
        return max(depth for depth, base in enumerate(cls.__mro__) if field.name in inspect.get_annotations(base))

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    late = False
    for field in (*(f for f in fields if not f.kw_only), *sorted((f for f in fields if f.kw_only), key=generation)):
        if field.default_factory is not dataclasses.MISSING:
            raise TypeError(f"{cls.__name__}.{field.name} has a default_factory: write fresh(factory=...) instead.")
        required = field.default is dataclasses.MISSING
        if required and late and not field.kw_only:
            raise TypeError(f"{cls.__name__}.{field.name} has no default, but fields before it have one.")
        late = late or not required
        kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if required else field.default
        holder = next(base for base in cls.__mro__ if field.name in inspect.get_annotations(base))
        written = _plain_type(holder, field.type)
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=written))
    signature = inspect.Signature(parameters, return_annotation="None")
    factories = {field.name: field.metadata["fresh"] for field in fields if "fresh" in field.metadata}
    after = cls.__mro__[cls.__mro__.index(Parameterized) + 1 : -1]
    is_module = any("__init__" in vars(base) for base in after)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            names = [name for name in signature.parameters if name != "self"]
            hint = f". {did_you_mean(unknown[1], names)}" if unknown else ""
            raise TypeError(f"{type(self).__name__}.__init__() {error}{hint}") from None
        bound.apply_defaults()
        if is_module:
            super(Parameterized, self).__init__()
        for name, value in bound.arguments.items():
            if name != "self":
                setattr(self, name, factories[name]() if value is None and name in factories else value)
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.of_fields = True  # type: ignore[attr-defined]
    return __init__


def _plain_type(cls: type, written: Any) -> str:
    """A field's type as signatures show it: without the range, and str for one of a few words."""
    if isinstance(written, str):
        if written.startswith("Annotated["):
            depth, start = 0, len("Annotated[")
            for place in range(start, len(written)):
                depth += (written[place] in "([{") - (written[place] in ")]}")
                if written[place] == "," and depth == 0:
                    return _plain_type(cls, written[start:place])
        defined = vars(sys.modules[cls.__module__])
        if typing.get_origin(defined.get(written)) is not Annotated:  # one name for a type with its range, as Seed
            of_words = (name for name in re.findall(r"\w+", written) if typing.get_origin(defined.get(name)) is Literal)
            return re.sub("|".join([r"Literal\[[^]]*\]", *(rf"\b{name}\b" for name in of_words)]), "str", written)
        written = defined[written]
    if typing.get_origin(written) is Annotated:
        return _plain_type(cls, written.__origin__)
    if typing.get_origin(written) in (typing.Union, types.UnionType):
        return " | ".join(_plain_type(cls, part) for part in typing.get_args(written))
    if typing.get_origin(written) is Literal:
        return "str"
    return "None" if written is type(None) else written.__name__ if isinstance(written, type) else str(written)


def _constraint_of(hint: Any, inherited: Constraint | None) -> Constraint | None:
    """The range that a field's resolved type declares, or that of the field it overrides; None for none."""
    marks, kinds, waiting = [], [], [hint]
    while waiting:
        part = waiting.pop(0)
        if typing.get_origin(part) is Annotated:
            marks += [mark for mark in part.__metadata__ if isinstance(mark, Constraint)]
            waiting.append(part.__origin__)
        elif typing.get_origin(part) in (typing.Union, types.UnionType):
            waiting += typing.get_args(part)
        elif typing.get_origin(part) is Literal and not marks:
            marks.append(Choice(typing.get_args(part)))
        else:
            kinds.append(part)
    optional = type(None) in kinds
    kinds = [kind for kind in kinds if kind is not type(None)]
    if len(marks) > 1:
        raise TypeError("two ranges are declared")
    constraint = marks[0] if marks else inherited
    if constraint is not None:
        return constraint.of_types(kinds, optional)
    if kinds == [bool]:
        return Flag(optional=optional)
    if kinds and all(kind in (int, float, str) for kind in kinds):
        raise TypeError("no range is declared: write Annotated[type, Range(...)] or Choice(...), or Any where none is")
    own_kinds = all(isinstance(kind, type) and kind.__module__ not in ("builtins", "typing") for kind in kinds)
    return Instance().of_types(kinds, optional) if kinds and own_kinds else None


class _Constraints:
    """``constraints`` of a class: the ranges of its fields, worked out when they are first asked for."""

    def __get__(self, instance: Any, owner: type) -> Mapping[str, Constraint]:
        if "_constraints" not in vars(owner):
            constraints: dict[str, Constraint] = {}
            for base in reversed(owner.__mro__):
                if isinstance(vars(base).get("constraints"), Mapping):  # ranges declared without fields
                    constraints |= vars(base)["constraints"]
                elif "__dataclass_fields__" in vars(base):
                    constraints |= _own_constraints(base, constraints)
            setattr(owner, "_constraints", constraints)  # noqa: B010  # no attribute that type checkers should offer
        return vars(owner)["_constraints"]  # type: ignore[no-any-return]


def _own_constraints(cls: type, inherited: Mapping[str, Constraint]) -> dict[str, Constraint]:
    """The ranges of the fields that the class itself declares."""
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    annotated = {name: hint for name, hint in inspect.get_annotations(cls).items() if name in names}
    holder = type(cls.__name__, (), {"__annotations__": annotated, "__module__": cls.__module__})
    try:
        hints = inspect.get_annotations(holder, eval_str=True)
    except NameError as error:
        raise TypeError(
            f"The types of {cls.__name__}'s parameters can't be read: {error}. Import it where the module runs, not "
            "under TYPE_CHECKING."
        ) from error
    constraints = {}
    for name, hint in hints.items():
        try:
            constraints[name] = _constraint_of(hint, inherited.get(name))
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.{name}: {error}.") from error
    return {name: constraint for name, constraint in constraints.items() if constraint is not None}


_FOR_CLASSES = {  # no name of these is a parameter, and none is in the reference
    "added", "at_ranking", "check_params", "constraints", "from_state", "gives_probabilities", "kind", "layout",
    "least_rows", "not_saved", "parameter_names", "part", "presets", "takes_class_names", "to_state", "training",
    "unlearns",
}  # fmt: skip


class Parameterized:
    """Base of everything with parameters, which :func:`parameterized` reads from the fields of its subclasses."""

    constraints: ClassVar[Mapping[str, Constraint]] = cast(Any, _Constraints())

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Names of the constructor's parameters, in its order."""
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as a dict; ``deep`` adds those of nested objects as ``outer__inner``."""
        values: dict[str, Any] = {}
        for name in self.parameter_names():
            values[name] = getattr(self, name)
            if deep and isinstance(part := self.part(name), Parameterized):
                values.update({f"{name}__{inner}": v for inner, v in part.get_params().items()})
        return values

    def __dir__(self) -> list[str]:
        """For completion: without what is there for the package and for classes of models alone."""
        return [name for name in super().__dir__() if name not in _FOR_CLASSES]

    def part(self, name: str) -> Any:
        """The object whose parameters are ``name__inner``: a parameter's value, or what stands for None there."""
        return getattr(self, name)

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name; an unknown name raises :class:`~sylvan.errors.ParameterError`."""
        names = self.parameter_names()
        for name, value in sorted(values.items(), key=lambda item: "__" in item[0]):  # objects before what is in them
            outer, _, inner = name.partition("__")
            if outer not in names:
                raise ParameterError(f"{type(self).__name__} has no parameter {outer!r}. {did_you_mean(outer, names)}")
            if inner:
                part = self.part(outer)
                if not hasattr(part, "set_params"):
                    raise ParameterError(
                        f"The {name!r} parameter can't be set: the {outer!r} of this {type(self).__name__} is "
                        f"{part!r}, which has no parameters. Give it an object first."
                    )
                part.set_params(**{inner: value})
                setattr(self, outer, part)
            else:
                setattr(self, name, value)
        return self

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Check every declared constraint, also those of parameters that have parameters."""
        names = self.parameter_names() if names is None else names
        # A subclass with a constructor of its own needn't have what it takes as attributes.
        values = {name: getattr(self, name) for name in names if name in self.constraints or hasattr(self, name)}
        check_values(self.constraints, type(self).__name__, **values)
        for name, part in values.items():
            if isinstance(part, Parameterized):
                try:
                    part.check_params()
                except ParameterError as error:
                    where = f"This {type(part).__name__} is the {name!r} of {type(self).__name__}."
                    raise ParameterError(f"{error} {where}") from error

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = []
        for name in self.parameter_names():
            value, default = getattr(self, name), defaults[name].default
            if value is not default and not (type(value) is type(default) and value == default):
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


def construct(owner: type[_Self], parameters: Mapping[str, Any]) -> _Self:
    """An object of some parameters, those of its parts as ``ranker__beam`` among them."""
    of_parts = {name: value for name, value in parameters.items() if "__" in name}
    return owner(**{name: parameters[name] for name in parameters if name not in of_parts}).set_params(**of_parts)
