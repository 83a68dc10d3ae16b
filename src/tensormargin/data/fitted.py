"""What the attributes of fitted objects may hold: each class of a model declares it once, by `attributes`.

Files of models are written and read by the declarations, tests compare them with the documented attributes, and
``campaigns/models.py`` tampers with all that they name. ``a | None`` also allows None, and ``a | ABSENT`` an attribute
that not every fit sets. Sizes and bounds are numbers or names of other attributes: of a number, of what has a length
or, after a star, of a shape. Conditions on several attributes are those of a method ``_fits``. Parameters hold what
their annotations allow.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from math import inf, prod
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ..runtime import listed

Size = int | float | str | None  # of an attribute, or a bound; None is any

POSITIVE = 5e-324
"""The smallest number above zero."""
_MOST_ENTRIES = 2**28  # of one sample
_FLOATS = np.dtype("f4"), np.dtype("f8")  # in native byte order: compiled code reads no others
_USED_IN_A_FIT = frozenset({"memory", "random_state", "score_func"})  # parameters that no prediction depends on


class UndeclaredError(TypeError):
    """Raised for an object of a class without a declaration."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """What an attribute may hold: a rule in words, and a function that says of a value and its owner whether it holds.

    ``parts`` returns the parts of such a value with constraints of their own. ``fitted`` says of objects whether they
    must be fitted, None if they are as their owner is.
    """

    rule: str
    holds: Callable[[Any, Any], bool]
    parts: Callable[[Any], Iterable[tuple[Any, Constraint]]] = lambda value: ()
    fitted: bool | None = True
    options: tuple[Constraint, ...] = ()

    def __or__(self, other: Constraint | None) -> Constraint:
        return _either(*(self.options or (self,)), one_of(None) if other is None else other)


def _either(*options: Constraint) -> Constraint:
    rules = [one.rule for one in options if one is not ABSENT]
    return Constraint(" or ".join(rules), lambda value, owner: False, options=options)


ABSENT = Constraint("absent", lambda value, owner: False)
flag = Constraint("True or False", lambda value, owner: isinstance(value, bool | np.bool_))
text = Constraint("text", lambda value, owner: isinstance(value, str) and _is_label(value))


def _size(item: Size, owner: Any) -> Any:
    """Return a size or bound, which may be given by the name of an attribute."""
    if not isinstance(item, str):
        return item
    value = getattr(owner, item)
    return value if isinstance(value, Real) else len(value)


def _sizes(items: tuple[Any, ...], owner: Any) -> list[Any]:
    """Return a shape, parts of which may be given by the name of an attribute after a star."""
    sizes: list[Any] = []
    for item in items:
        sizes += getattr(owner, item[1:]) if isinstance(item, str) and item[0] == "*" else [_size(item, owner)]
    return sizes


def _is_between(kind: Any, most: float, low: Size, high: Size, value: Any, owner: Any) -> bool:
    if not isinstance(value, kind) or isinstance(value, bool) or not -most <= value <= most:
        return False
    return (low is None or value >= _size(low, owner)) and (high is None or value <= _size(high, owner))


def _range(low: Size, high: Size) -> str:
    return ("" if low is None else f" from {low}") + ("" if high is None else f" to {high}")


def _is_label(value: Any) -> bool:
    """Return whether a value is a number, or text that can be printed."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, Integral):
        return abs(int(value)) < 2**64
    return isinstance(value, float | np.floating | np.bool_)


def _entries(array: Any) -> list[Any]:
    """Return the entries of an array as objects; a surrogate, which is no label, if they are no text at all."""
    try:
        return array.ravel().tolist()
    except (ValueError, OverflowError, SystemError):  # memory that holds no characters
        return ["\ud800"]


def one_of(*values: Any) -> Constraint:
    """Return the constraint of one of some values."""
    rule = " or ".join(map(repr, values))
    return Constraint(rule, lambda value, owner: any(isinstance(value, type(v)) and value == v for v in values))


def number(low: Size = None, high: Size = None) -> Constraint:
    """Return the constraint of a finite number, within bounds that are included."""
    rule = f"a finite number{_range(low, high)}"
    return Constraint(rule, lambda *both: _is_between(Real, sys.float_info.max, low, high, *both))


def whole(low: Size = None, high: Size = None) -> Constraint:
    """Return the constraint of a whole number, within bounds that are included."""
    return Constraint(
        f"a whole number{_range(low, high)}", lambda *both: _is_between(Integral, 2**63, low, high, *both)
    )


def floats(*shape: Any, low: Size = None, high: Size = None, finite: bool = True) -> Constraint:
    """Return the constraint of an array of float32 or float64; an ellipsis is any shape, and None in it any size."""
    return _array("finite numbers" if finite else "numbers", _FLOATS.__contains__, shape, low, high, finite)


def wholes(*shape: Any, low: Size = None, high: Size = None) -> Constraint:
    """Return the constraint of an array of integers."""
    return _array("whole numbers", lambda dtype: dtype.kind in "iu", shape, low, high)


def flags(*shape: Any) -> Constraint:
    """Return the constraint of an array of truth values."""
    return _array("truth values", lambda dtype: dtype.kind == "b", shape)


def _array(
    noun: str, has_type: Any, shape: Any, low: Size = None, high: Size = None, finite: bool = True
) -> Constraint:
    def holds(value: Any, owner: Any) -> bool:
        if type(value) is not np.ndarray or not has_type(value.dtype):
            return False
        sizes = value.shape if shape == (...,) else _sizes(shape, owner)
        if len(sizes) != value.ndim or any(size not in (None, n) for size, n in zip(sizes, value.shape, strict=True)):
            return False
        if value.size == 0 or (not finite and low is None):
            return True
        least, smallest, largest = _size(low, owner), value.min(), value.max()  # both NaN if there is a NaN
        inside = (least is None or least <= smallest) and (high is None or largest <= _size(high, owner))
        return bool(inside and (-inf < smallest <= largest < inf if finite else smallest <= largest))

    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return Constraint(f"{noun} of shape ({sizes}){_range(low, high)}", holds)


def labels(length: Size = None) -> Constraint:
    """Return the constraint of a vector of labels or names: numbers, text, truth values, or objects that are these."""

    def holds(value: Any, owner: Any) -> bool:
        vector = type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "biufUO"
        if not vector or (length is not None and len(value) != _size(length, owner)):
            return False
        return bool(np.isfinite(value).all()) if value.dtype.kind in "biuf" else all(map(_is_label, _entries(value)))

    return Constraint("a vector of labels", holds)


def list_of(item: Constraint, length: Size = None, kind: Any = list) -> Constraint:
    """Return the constraint of a list, or another kind of sequence, of items with the same constraint."""

    def holds(value: Any, owner: Any) -> bool:
        return type(value) is kind and (length is None or len(value) == _size(length, owner))

    rule = f"a {kind.__name__}" + ("" if length is None else f" of length {length}")
    return Constraint(rule, holds, lambda value: [(one, item) for one in value])


def tuple_of(*items: Constraint) -> Constraint:
    """Return the constraint of a tuple whose items each have a constraint of their own."""
    rule = f"a tuple of {' and '.join(item.rule for item in items)}"
    return Constraint(
        rule,
        lambda value, owner: type(value) is tuple and len(value) == len(items),
        lambda value: zip(value, items, strict=True),
    )


def map_of(item: Constraint | None = None, /, **needed: Constraint) -> Constraint:
    """Return the constraint of a dictionary by text, some keys of which are needed and have their own constraint."""

    def holds(value: Any, owner: Any) -> bool:
        names = type(value) is dict and all(isinstance(name, str) and _is_label(name) for name in value)
        return names and needed.keys() <= value.keys() and (item is not None or len(value) == len(needed))

    def parts(value: Any) -> Iterable[tuple[Any, Constraint]]:
        return [(one, needed.get(name, item or plain)) for name, one in value.items()]

    return Constraint("a dictionary by name" + "".join(f", with {name}" for name in needed), holds, parts)


def instance(*names: str, fitted: bool | None = True) -> Constraint:
    """Return the constraint of an object of a declared class, perhaps with one of some names."""

    def holds(value: Any, owner: Any) -> bool:
        return declaration_of(type(value)) is not None and (not names or type(value).__name__ in names)

    return Constraint(f"an object of class {' or '.join(names) or 'that models may have'}", holds, fitted=fitted)


def _is_shape(value: Any, owner: Any) -> bool:
    if type(value) is not tuple or len(value) > 64:
        return False
    sizes = [size for size in value if size is not None]
    return all(_is_between(Integral, 2**63, 1, None, size, owner) for size in sizes) and prod(sizes) <= _MOST_ENTRIES


def _is_plain(value: Any, owner: Any) -> bool:
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind if type(value) in (np.ndarray, np.ma.MaskedArray) else ""
        objects, words = kind == "O" and value.ndim == 1, kind == "U" and all(map(_is_label, _entries(value)))
        return kind in "biuf" or objects or words
    if isinstance(value, dict | list | tuple):
        return type(value) in (list, tuple) or (type(value) in (dict, OrderedDict) and all(map(_is_label, value)))
    return value is None or _is_label(value) or declaration_of(type(value)) is not None


def _plain_parts(value: Any) -> Iterable[tuple[Any, Constraint]]:
    if isinstance(value, np.ndarray):
        value = np.asarray(value).tolist() if value.dtype == object else ()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [(one, plain) for one in inner]


_PLAIN = "numbers, text, arrays, objects of classes that models may have, or lists and dictionaries of these"
plain = Constraint(_PLAIN, _is_plain, _plain_parts, fitted=False)
shape = Constraint(f"sizes of the modes of a sample, of at most {_MOST_ENTRIES} entries", _is_shape)
shapes = shape | map_of(shape)


def attributes(**own: Constraint) -> Callable[[type], Any]:
    """Return a decorator that declares the attributes of a class, in addition to those of its bases.

    Only classes with a declaration of their own can be in files of models.
    """

    def declare(kind: type) -> type:
        kind._attribute_constraints = own  # type: ignore[attr-defined]
        return kind

    return declare


ELSEWHERE: dict[str, tuple[Mapping[str, Constraint], Callable[[Any], Mapping[str, Any]] | None]] = {}
"""Attributes and conditions of classes of other libraries, by module and name."""
_COMMON: Mapping[str, Constraint] = {
    "n_features_in_": whole(0) | ABSENT,
    "feature_names_in_": labels("n_features_in_") | ABSENT,
    "n_jobs": whole(-1024, 1024) | None,
    "_sklearn_version": text | ABSENT,
    "_sklearn_output_config": map_of(one_of("default", "pandas", "polars")) | ABSENT,
}


@dataclass(frozen=True)
class Declaration:
    """What a class declares."""

    attributes: Mapping[str, Constraint]  # that its objects may have, parameters included
    defaults: Mapping[str, Any]  # of parameters that an object lacks, as in files of versions that did not have them
    needed: frozenset[str]  # attributes that every object has
    fitted: frozenset[str]  # attributes that a fit sets
    fits: Callable[[Any], Mapping[str, Any]] | None  # conditions on several attributes, by the name of one of them
    is_ours: bool  # objects of other libraries may have private attributes besides

    def is_stored(self, name: str, value: Any) -> bool:
        """Return whether files hold an attribute: no generator of random numbers, and nothing private of others."""
        if name in _USED_IN_A_FIT:
            return type(value) in (int, NoneType)
        return self.is_ours or name in self.attributes or not name.startswith("_")


def declaration_of(kind: Any) -> Declaration | None:
    """Return what a class declares; None for a class without a declaration of its own."""
    if kind not in _declarations:
        _declarations[kind] = _declaration(kind)
    return _declarations[kind]


_declarations: dict[Any, Declaration | None] = {}


def _declaration(kind: Any) -> Declaration | None:
    own, fits = ELSEWHERE.get(f"{kind.__module__}.{kind.__qualname__}", (None, None))
    is_ours = "_attribute_constraints" in vars(kind)
    if is_ours:
        every = [vars(base).get("_attribute_constraints", {}).items() for base in reversed(kind.__mro__)]
        own, fits = {name: one for items in every for name, one in items}, getattr(kind, "_fits", None)
    if own is None:
        return None
    parameters, is_estimator = signature(kind).parameters, hasattr(kind, "get_params")
    hints = get_type_hints(kind if is_ours and "__init__" not in vars(kind) else kind.__init__) if is_ours else {}
    taken = parameters if is_estimator else own  # TensorLy's containers have other names for what they take
    defaults = {n: one.default for n, one in parameters.items() if n in taken and one.default is not Parameter.empty}
    every_one = {**_COMMON, **{name: _COMMON.get(name) or _of_hint(hints.get(name)) for name in parameters}, **own}
    certain = frozenset(name for name, one in own.items() if ABSENT not in one.options)
    needed, by_fit = (
        (parameters.keys() - defaults.keys(), certain - parameters.keys()) if is_estimator else (certain, ())
    )
    return Declaration(every_one, defaults, frozenset(needed), frozenset(by_fit), fits, is_ours)


def _of_hint(hint: Any) -> Constraint:
    """Return the constraint of a parameter from its annotation."""
    simple = {bool: flag, int: whole(), float: number(), str: text, NoneType: one_of(None)}
    if hint in simple:
        return simple[hint]
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return one_of(*inner)
    if get_origin(hint) is tuple:
        return list_of(_of_hint(inner[0]), kind=tuple) | list_of(_of_hint(inner[0]))
    if isinstance(hint, UnionType):
        return _either(*(option for part in map(_of_hint, inner) for option in part.options or (part,)))
    return plain


def check_attributes(model: Any, state_of: Callable[[Any], Mapping[str, Any]] = vars) -> list[Any]:
    """Return all objects in a fitted model, each once; raise ValueError unless each is as its class declares.

    ``state_of`` returns the attributes of an object. UndeclaredError is raised for an object of a class without any.
    """
    from sklearn.utils._param_validation import validate_parameter_constraints  # takes long to import

    states: dict[int, tuple[Any, Mapping[str, Any]]] = {}
    complete: set[int] = set()  # objects that were fitted
    seen, left = set[tuple[int, ...]](), deque([(model, instance(), model, True, "it")])
    while left:
        value, constraint, owner, fitted, where = left.popleft()
        if (key := (id(value), id(constraint), id(owner), fitted)) in seen:
            continue  # a value is looked at once per object and constraint, however often it occurs
        seen.add(key)
        rule = constraint.rule
        constraint = next((one for one in constraint.options if one.holds(value, owner)), constraint)
        if not constraint.holds(value, owner):
            raise _misfit(value, rule, where)
        inside = where if where.startswith("a part") else f"a part of {where}"
        left.extend((part, one, owner, fitted, inside) for part, one in constraint.parts(value))
        declared = None if isinstance(value, _VALUES) else declaration_of(type(value))
        if declared is None:
            continue
        fitted, name = fitted if constraint.fitted is None else constraint.fitted, type(value).__name__
        _, state = states.setdefault(id(value), (value, state_of(value)))
        if fitted or declared.fitted & state.keys():
            complete.add(id(value))
        lacking = (declared.needed | (declared.fitted if id(value) in complete else frozenset())) - state.keys()
        others = [one for one in state if one not in declared.attributes and declared.is_stored(one, None)]
        if lacking or others:
            what = f"have {listed(sorted(lacking))}" if lacking else f"not have {listed(others)}, which is not declared"
            raise ValueError(f"{name} must {what}")
        left.extend(
            (state[attribute], one, value, fitted, f"{attribute} of {name}")
            for attribute, one in declared.attributes.items()
            if attribute in state and declared.is_stored(attribute, state[attribute])
        )
    for value, state in states.values():
        constraints = getattr(value, "_parameter_constraints", None) or {}
        parameters = {name: one for name, one in state.items() if name in constraints}
        validate_parameter_constraints(constraints, parameters, type(value).__name__)
        fits = getattr(declaration_of(type(value)), "fits", None) if id(value) in complete else None
        wrong = [] if fits is None else [name for name, condition in fits(value).items() if not condition]
        if wrong:
            got = _described(getattr(value, wrong[0], None))
            raise ValueError(f"{wrong[0]} of {type(value).__name__} must fit its other attributes; got {got}")
    return [value for value, _ in states.values()]


_VALUES = (NoneType, bool, int, float, str, list, tuple, dict, np.ndarray, np.generic)


def _misfit(value: Any, rule: str, where: str) -> Exception:
    if not isinstance(value, _VALUES) and declaration_of(type(value)) is None:
        kind = value if isinstance(value, type) else type(value)
        return UndeclaredError(f"{where} is of class {kind.__module__}.{kind.__qualname__}")
    return ValueError(f"{where} must be {rule}; got {_described(value)}")


def _described(value: Any) -> str:
    """Return a value in a few words, of which no part that may be large or nested is printed."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if value is None or isinstance(value, str | Real) or _is_shape(value, None):
        return f"{value!r:.200}"
    return type(value).__name__
