"""Declared parameters: a field says a parameter's type, range and default once; all else is derived from it.

A class with parameters derives from :class:`Parameterized`, stands under ``@parameterized``, and has one field for each
of them, in the order of its constructor; what they mean stands in its docstring, or its base's, alone::

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
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

from sylvan.errors import ParameterError
from sylvan.params.ranges import (
    Choice,
    Constraint,
    Flag,
    Instance,
    Jobs,
    Number,
    PerLabel,
    PerLayer,
    Range,
    check_value,
    check_values,
)  # fmt: skip
from sylvan.params.wording import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:  # typing has it from Python 3.11 on, and only type checkers read it
        return lambda decorator: decorator


__all__ = [
    "KW_ONLY", "Choice", "Constraint", "Flag", "Instance", "Jobs", "Number", "Parameterized", "PerLabel",
    "PerLayer", "Range", "Seed", "Threads", "attribute", "check_value", "check_values", "construct", "fresh",
    "parameterized",
]  # fmt: skip

_Self = TypeVar("_Self", bound="Parameterized")
_Class = TypeVar("_Class", bound="type[Parameterized]")
_T = TypeVar("_T")
# The entries of a docstring's "Parameters".
_SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=^\n*\S[^\n]*\n-{3,}$|\Z)", re.DOTALL | re.MULTILINE)


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
    """Add to the docstring's "Parameters", in the constructor's order, those that only a base's docstring describes."""
    bases = cls.__mro__[: cls.__mro__.index(Parameterized)]
    docs = [inspect.cleandoc(doc) for base in bases if "Parameters\n" in (doc := vars(base).get("__doc__") or "")]
    if len(docs) < 2 or "Parameters\n" not in (cls.__doc__ or ""):
        return
    entries: dict[str, str] = {}  # of each parameter, its class's own or its nearest base's
    for doc in reversed(docs):
        section = _SECTION.search(doc)
        for entry in re.findall(r"^\S.*\n(?:(?: .*)?\n)*", f"{section[0]}\n" if section else "", re.MULTILINE):
            names = entry.partition("\n")[0].partition(" : ")[0]
            entries.update(dict.fromkeys(names.split(", "), entry.rstrip("\n") + "\n"))
    listed = dict.fromkeys(entries[name] for name in cls.parameter_names() if name in entries)
    cls.__doc__ = _SECTION.sub(lambda _: "".join(listed), docs[0], count=1)


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
