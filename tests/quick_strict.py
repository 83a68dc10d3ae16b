"""array-api-strict with faster checks of types, which took half the time of the tests on its arrays."""

from __future__ import annotations

import sys
from functools import cache

from array_api_strict._dtypes import DType

compare = DType.__eq__


class Kinds(tuple):
    """A tuple of types of array-api-strict that looks up members by hash instead of comparing them one by one."""

    def __contains__(self, one: object) -> bool:
        return one._np_dtype in self.kinds if type(one) is DType else super().__contains__(one)


def equal(one: DType, other: object) -> bool:
    """Compare two types at once, and anything else as array-api-strict does."""
    return one._np_dtype == other._np_dtype if type(other) is DType else compare(one, other)


@cache
def compare_types_quickly() -> None:
    """Replace the comparison of types in array-api-strict, and all its tuples of types, by faster ones."""
    DType.__eq__ = equal
    for name in [name for name in sys.modules if name.startswith("array_api_strict.")]:
        for place in (vars(sys.modules[name]), getattr(sys.modules[name], "_dtype_categories", {})):
            for key, value in list(place.items()):
                if type(value) is tuple and value and all(type(one) is DType for one in value):
                    place[key] = Kinds(value)
                    place[key].kinds = frozenset(one._np_dtype for one in value)
