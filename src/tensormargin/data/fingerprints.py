"""Fingerprints of computations: equal for the same samples, settings and code, and for nothing else.

Code of installed packages goes by its name and version. Code of the user goes by what it does: bytecode, constants,
defaults, closures, and all functions, classes and values that it refers to.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import resolve_name
from pathlib import Path
from pickle import PicklingError
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from ..runtime import device_of, is_foreign, is_lazy, software_versions, to_host
from .sample_summaries import survey
from .validation import chunked_along_samples
from .views import Views

_PACKAGE = __name__.partition(".")[0]
_INSTALLED = {"site-packages", "dist-packages"}
_ABSENT = "absent"
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
_CODE = ("co_code", "co_exceptiontable", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags",
         "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_consts")  # fmt: skip
_BY_NAME = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_DYNAMIC = {"eval", "exec", "globals", "__import__", "import_module"}  # reach what code does not name
_OF_PROCESSES = ("n_jobs", "verbose")  # parameters that do not change results


def fingerprint(content: Any) -> str:
    """Return a checksum of arrays, estimators, functions and settings, together with the software versions.

    Raise `pickle.PicklingError` for what cannot be told from another version of it.
    """
    checksum = _Checksum()
    try:
        checksum.add((_software(), content))
    except RecursionError as error:
        raise PicklingError("code or settings are nested too deeply to be told from others") from error
    return checksum.hexdigest()


@cache
def _software() -> Mapping[str, str]:
    """Return the software versions, and a digest of this package's files, which change between releases too."""
    root, digest = Path(__file__).parents[1], hashlib.sha1(usedforsecurity=False)
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".so", ".pyd")):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size} ".encode() + path.read_bytes())
    return {**software_versions(), "tensorly": version("tensorly"), "files": digest.hexdigest()}


class _Checksum:
    """A checksum of values, to which each is added with its type and its length."""

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self._met: dict[int, tuple[int, Any]] = {}  # number and object by its id, which no other object gets then
        self._in_clone = False

    def hexdigest(self) -> str:
        return self._sha1.hexdigest()

    def _write(self, kind: str, content: Any = b"") -> None:
        content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self._sha1.update(f"{kind} {len(content)} ".encode())
        self._sha1.update(content)

    def _add_all(self, kind: str, values: Sequence[Any]) -> None:
        self._write(kind, str(len(values)))
        for value in values:
            self.add(value)

    def add(self, value: Any) -> None:
        """Add a value of any kind."""
        kind = type(value)
        if kind in _PLAIN:
            self._write(kind.__name__, value if kind in (str, bytes) else f"{value:x}" if kind is int else repr(value))
        elif kind is tuple:
            self._add_all("tuple", value)
        elif kind is CodeType:
            self._add_all("code", [getattr(value, name) for name in _CODE])
        elif kind in (np.ndarray, np.memmap):
            self._add_array(value)
        elif kind in (set, frozenset):
            self._add_all("set", sorted(_checksum_of(entry) for entry in value))
        elif id(value) in self._met:
            self._write("again", str(self._met[id(value)][0]))
        else:
            self._met[id(value)] = len(self._met), value
            self._add_object(value)

    def _add_array(self, array: Any) -> None:
        self._write("array", f"{array.dtype.descr if array.dtype.names else array.dtype.str} {array.shape}")
        if array.dtype.hasobject:
            self._add_all("entries", array.ravel().tolist())
        else:
            self._write("entries", np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _add_object(self, value: Any) -> None:  # noqa: C901 - one case per kind
        kind = type(value)
        if kind is list:
            self._add_all("list", value)
        elif kind in (dict, MappingProxyType):
            self._add_all("dict", list(value.items()))
        elif kind is ModuleType:
            self._add_module(value)
        elif kind is FunctionType:
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif kind is MethodType:
            self._add_all("method", (value.__func__, value.__self__))
        elif kind is BuiltinFunctionType:
            self._add_all("builtin", (value.__name__, value.__self__))
        elif kind in (MemberDescriptorType, GetSetDescriptorType):
            self._add_all("descriptor", (value.__name__, value.__objclass__))
        elif kind in (staticmethod, classmethod):
            self._add_all(kind.__name__, (value.__func__,))
        elif kind is property:
            self._add_all("property", (value.fget, value.fset, value.fdel))
        elif kind is cached_property:
            self._add_all("cached_property", (value.func,))
        elif kind is Views:
            self._add_all("views", list(value.items()))
        elif is_lazy(value):
            self._add_all("lazy", (value.chunks, str(value.dtype), survey(chunked_along_samples(value)).digests))
        elif is_foreign(value) and hasattr(value, "shape"):  # an array, and no model of PyTorch
            self._add_all("foreign", (kind, str(device_of(value)), to_host(value)))
        elif isinstance(value, BaseEstimator) and not self._in_clone:
            self._add_estimator(value)
        else:
            self._add_instance(value)

    def _add_estimator(self, value: BaseEstimator) -> None:
        """Add an estimator without what an earlier fit has left."""
        model = clone(value)
        model.set_params(**{name: None for name in model.get_params() if name.rpartition("__")[2] in _OF_PROCESSES})
        self._in_clone = True  # a clone holds fitted models only if they are settings, such as FrozenEstimator's
        try:
            self._met[id(model)] = len(self._met), model
            self._add_instance(model)
        finally:
            self._in_clone = False

    def _add_instance(self, value: Any) -> None:
        """Add an object as pickle takes it apart, with its class."""
        if self._add_name(value):
            return
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduction = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:
            raise PicklingError(f"{_words(value)} cannot be told from another one") from error
        if isinstance(reduction, str):  # a name
            if not hasattr(value, "__wrapped__"):
                raise PicklingError(f"{_words(value)} may have changed since")
            self._add_all("wrapper", (type(value), value.__wrapped__))
            return
        function, arguments, *rest = reduction
        items = [None if some is None else list(some) for some in rest[1:3]]
        self._add_all("instance", (type(value), function, arguments, *rest[:1], *items, *rest[3:]))

    # ---- code ----

    def _add_name(self, value: Any) -> bool:
        """Add something that an installed package has under its name, and return whether that is so."""
        name = getattr(value, "__qualname__", None) or (value.__name__ if isinstance(value, np.ufunc) else None)
        modules = (getattr(value, "__module__", None), *(("numpy", "scipy.special") if type(value) is np.ufunc else ()))
        for module in (module for module in modules if isinstance(module, str) and isinstance(name, str)):
            target: Any = sys.modules.get(module)
            for step in str(name).split("."):
                target = getattr(target, step, None)
            installed = _version_of(module)
            if target is value and installed is not None:
                self._add_all("name", (module, name, installed))
                return True
        return False

    def _add_module(self, module: ModuleType) -> None:
        installed = _version_of(module.__name__)
        if installed is not None:
            self._add_all("name", (module.__name__, installed))
        else:
            self._add_all("module", sorted(pair for pair in vars(module).items() if not _is_special(pair[0])))

    def _add_function(self, function: FunctionType) -> None:
        if not self._add_name(function):
            code, cells = function.__code__, tuple(map(_content, function.__closure__ or ()))
            values = (code, function.__defaults__, function.__kwdefaults__, cells, vars(function))
            self._add_all("function", (*values, *_references(code, function.__globals__)))

    def _add_class(self, kind: type) -> None:
        if not self._add_name(kind):
            entries = [pair for pair in vars(kind).items() if _does_something(*pair)]
            self._add_all("class", (kind.__qualname__, type(kind), *kind.__bases__, *entries))


def _checksum_of(value: Any) -> str:
    checksum = _Checksum()
    checksum.add(value)
    return checksum.hexdigest()


def _words(value: Any) -> str:
    return f"{getattr(value, '__name__', 'an object')} ({type(value).__module__}.{type(value).__qualname__})"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _ABSENT


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _does_something(name: str, value: Any) -> bool:
    """Return whether an entry of a class may change what its objects do: annotations and documentation do not."""
    if name == "_abc_impl" or name.startswith("__annotat"):
        return False
    return not _is_special(name) or callable(value) or hasattr(type(value), "__get__")


def _references(code: CodeType, namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of what code reaches by name; of modules of the user only what it takes, if that is clear.

    Raise PicklingError for code that may reach anything.
    """
    if "import_module" in code.co_names:
        raise PicklingError(f"{code.co_qualname} imports by import_module, and what it imports may have changed since")
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = (steps[place - back].argval for back in (2, 1))
            yield from _imported(resolve_name("." * level + step.argval, namespace.get("__package__") or ""), names)
        elif step.opname in _BY_NAME and step.argval in namespace:
            name, value, after = step.argval, namespace[step.argval], place + 1
            while _is_of_user(value) and steps[after].opname in ("LOAD_ATTR", "LOAD_METHOD"):
                name, value = f"{name}.{steps[after].argval}", getattr(value, steps[after].argval, _ABSENT)
                after += 1
            yield name, value
        elif step.opname in _BY_NAME and step.argval in _DYNAMIC:
            raise PicklingError(f"{code.co_qualname} uses {step.argval}, and what that reaches may have changed since")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _references(constant, namespace)


def _imported(name: str, attributes: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """Yield a module that code imports, and those of its attributes that may be modules."""
    try:
        module = import_module(name)
        yield name, module
        for attribute in attributes or ():
            if _is_of_user(module) and attribute != "*":
                if not hasattr(module, attribute):
                    import_module(f"{name}.{attribute}")
                yield attribute, getattr(module, attribute)
    except ImportError:
        yield name, _ABSENT
    except PicklingError:
        raise
    except Exception as error:
        raise PicklingError(f"{name} cannot be imported") from error


def _is_of_user(value: Any) -> bool:
    return isinstance(value, ModuleType) and _version_of(value.__name__) is None


def _version_of(module: str) -> str | None:
    """Return the version of the package that an installed module belongs to; None for a module of the user."""
    package = module.partition(".")[0]
    if package == _PACKAGE:
        return ""  # its files are part of the software
    files = (getattr(sys.modules.get(name), "__file__", None) for name in (module, package))
    file = next((file for file in files if file is not None), None)
    if file is None:
        return "" if package in sys.stdlib_module_names else None
    stated = getattr(sys.modules.get(package), "__version__", None)
    return _version_of_file(file, stated if isinstance(stated, str) else None)


@cache
def _version_of_file(file: str, stated: str | None) -> str | None:
    """Return the version that an installed package states, or else a digest; None for a file of the user."""
    folder = Path(file).parent.resolve()  # a package that is linked to its sources is not installed
    if _INSTALLED.isdisjoint(folder.parts):
        library = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
        return "" if any(map(folder.is_relative_to, library)) else None
    return stated or hashlib.sha1(Path(file).read_bytes(), usedforsecurity=False).hexdigest()
