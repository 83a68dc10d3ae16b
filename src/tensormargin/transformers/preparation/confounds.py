"""Removal of what confounds explain linearly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ...data import NEEDS, NO_METADATA, Metadata, fitted, names_of
from ...runtime import Array, FloatArray, as_array, as_like, cast, join_with_and, like, listed, namespace, to_host
from ._base import KeepsTensors
from ._passes import chunked, floating, mapped, reduced, widest, without_explained


class UnseenCategoryWarning(UserWarning):
    """Warning that samples have categories of a confound whose effect is not known, since `fit` has not seen them.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from tensormargin import Deconfound
    >>> step = Deconfound().fit(np.random.rand(8, 3), confounds=list("aabbaabb"))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     changed = step.transform(np.random.rand(1, 3), confounds=["c"])
    >>> [warning.category.__name__ for warning in caught]
    ['UnseenCategoryWarning']
    """


@fitted.attributes(
    names_=fitted.list_of(fitted.text),
    categories_=fitted.list_of(fitted.labels() | None, "names_"),
    mean_=fitted.floats(None),
    scale_=fitted.floats("mean_", low=fitted.POSITIVE, finite=False),
    coef_=fitted.floats("mean_", "*sample_shape_in_"),
    explained_=fitted.number(0, 1),
    explained_alone_=fitted.map_of(fitted.number(0, 1)),
)
@dataclass(eq=False, repr=False)
class Deconfound(KeepsTensors):
    """Remove from every entry what confounds (age, site, motion) explain linearly in the training samples.

    Every entry is regressed on the confounds and an intercept, and ``B (z - mean of z)`` is subtracted from a sample
    with the confounds z; the mean sample stays as it is. Pass the ``confounds`` to `fit` and to `transform`; in a
    pipeline, scikit-learn's metadata routing takes them there.

    Removing is not the same as controlling: what the classes and the confounds share is removed as well, effects that
    are not linear stay, and where classes differ in a confound, a model may still use what is left of it.

    Parameters
    ----------
    confounds : str, sequence of str or int, or None, default=None
        Names (or positions) of the columns to use; None for all of them.
    categorical : str, or sequence of str or int, default=()
        Names (or positions) of columns of numbers that are codes, such as numbers of sites. Columns of text always are
        categories; each category is a column of zeros and ones.
    unseen : {"mean", "error"}, default="mean"
        What to do with a category that the training samples did not have: nothing can be known about its effect. "mean"
        subtracts the mean effect of the categories, that is, nothing for this confound, and warns.

    Attributes
    ----------
    names_ : list of str
        The confounds used.
    categories_ : list of (ndarray or None)
        The categories of each confound in the training samples; None for numbers.
    coef_ : array of shape (n_columns, I_1, ..., I_M)
        Change of every entry per standard deviation of each column of the confounds.
    mean_, scale_ : ndarray of shape (n_columns,)
        Means and standard deviations of the columns in the training samples.
    explained_ : float
        Share of the variance of the training samples (summed over the entries) that was removed.
    explained_alone_ : dict of str to float
        The same for each confound alone. Confounds may share what they explain, so these need not add up.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Deconfound
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, 50)
    >>> X = rng.normal(size=(50, 4, 3)) + 0.1 * age[:, None, None]
    >>> without = Deconfound().fit_transform(X, confounds=age)
    >>> bool(np.abs(np.corrcoef(without[:, 0, 0], age)[0, 1]) < 1e-9)
    True
    """

    confounds: str | Sequence[str | int] | None = None
    categorical: str | Sequence[str | int] = ()
    unseen: str = "mean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "confounds": [str, "array-like", None],
        "categorical": [str, "array-like"],
        "unseen": [StrOptions({"mean", "error"})],
    }

    @property
    def needed_metadata(self) -> set[str]:
        return {"confounds"}

    def _learn(self, X: Any, metadata: Metadata) -> None:
        self._validate_params()
        table = _needed(metadata, "fit")
        self.names_ = self._chosen(table)
        codes = set() if len(self.categorical) == 0 else set(_named(table, self.categorical, "categorical"))
        self.categories_ = [
            np.unique(table[name]) if table[name].dtype.kind == "U" or name in codes else None for name in self.names_
        ]
        design, owners = self._encoded(table)
        self.mean_ = design.mean(axis=0)
        deviation = design.std(axis=0)
        varies = deviation > 10 * np.finfo(np.float64).eps * np.abs(self.mean_)
        self.scale_ = np.where(varies, deviation, np.inf)  # a constant explains nothing
        rows = (design - self.mean_) / self.scale_
        self._check_samples_left(rows)
        found = reduced(X, partial(_crossed, rows=rows), _joined, np.arange(X.shape[0]))
        self._keep(rows, found, np.array(owners), floating(X))

    def _fits(self) -> dict[str, Any]:
        columns = sum(1 if one is None else len(one) for one in self.categories_)
        return {**super()._fits(), "mean_": len(self.mean_) == columns}

    def _keep(self, rows: FloatArray, found: Crossed, owners: Array, dtype: np.dtype[Any]) -> None:
        """Set the coefficients and the shares of the variance that they explain."""
        gram, shape = rows.T @ rows, found.cross.shape
        flat = to_host(found.cross).reshape(len(gram), -1).astype(np.float64)
        solved = np.linalg.pinv(gram, hermitian=True) @ flat
        total = float(found.squares)
        self.coef_ = like(solved.reshape(shape), found.cross, dtype if dtype != widest(found.cross) else None)
        self.explained_ = _share(np.sum(solved * flat), total)
        self.explained_alone_ = {}
        for place, name in enumerate(self.names_):
            own = owners == place
            alone = np.linalg.pinv(gram[np.ix_(own, own)], hermitian=True) @ flat[own]
            self.explained_alone_[name] = _share(np.sum(alone * flat[own]), total)

    def _chosen(self, table: Array) -> list[str]:
        return _named(table, names_of(table) if self.confounds is None else self.confounds, "confounds")

    def _encoded(self, table: Array) -> tuple[FloatArray, list[int]]:
        """Return numbers, and zeros and ones for categories, as columns; and the confound of each column.

        A row of an unseen category has the training samples' means of its columns.
        """
        columns, owners = list[FloatArray](), list[int]()
        for place, (name, categories) in enumerate(zip(self.names_, self.categories_, strict=True)):
            values = table[name]
            kind, found = ("f" if one is None else one.dtype.kind for one in (categories, values))
            if kind != found:
                raise ValueError(
                    f"confound {name!r} must hold {'numbers' if kind == 'f' else 'text'}, as in fit; got "
                    f"{values[0]!r}. Pass values of the same type"
                )
            if categories is None:
                columns.append(values)
                owners.append(place)
                continue
            block = (values[:, None] == categories).astype(np.float64)
            self._fill_unseen(block, name, values, len(owners))
            columns += list(block.T)
            owners += [place] * block.shape[1]
        return np.column_stack(columns), owners

    def _fill_unseen(self, block: FloatArray, name: str, values: Array, first: int) -> None:
        unseen = ~block.any(axis=1)
        if not unseen.any():
            return
        problem = (
            f"confound {name!r} has categories that the training samples did not have: "
            f"{listed(map(str, np.unique(values[unseen])[:5]))} ({int(unseen.sum())} of {len(values)} samples)"
        )
        if self.unseen == "error":
            raise ValueError(
                f'{problem}. Fit to samples of all categories, or use unseen="mean", which removes nothing for them'
            )
        warnings.warn(f"{problem}; for them nothing is removed", UnseenCategoryWarning, stacklevel=2)
        block[unseen] = self.mean_[first : first + block.shape[1]]

    def _check_samples_left(self, rows: FloatArray) -> None:
        rank = int(np.linalg.matrix_rank(rows)) if rows.size else 0
        if rank >= len(rows) - 1 and rank > 0:
            raise ValueError(
                f"there must be more samples than columns of confounds, or nothing is left of them; got {len(rows)} "
                f"samples and {rank} independent columns ({', '.join(self.names_)}). Use fewer confounds"
            )

    def _rows(self, metadata: Metadata) -> FloatArray:
        """Return the centred and scaled columns of the confounds of samples."""
        table = _needed(metadata, "transform")
        given = names_of(table)
        missing = [name for name in self.names_ if name not in given]
        added = set(given) - set(self.names_) if self.confounds is None else set()
        if missing or added:
            raise ValueError(
                f"confounds must be those seen in fit, {', '.join(self.names_)}; got {', '.join(given)}. Pass the same "
                "columns under the same names"
            )
        rows: FloatArray = (self._encoded(table)[0] - to_host(self.mean_)) / to_host(self.scale_)
        return rows

    def check_categories(self, confounds: Any) -> None:
        """Warn, or raise ValueError, as `transform` does for samples of categories that were not seen in the fit.

        Parameters
        ----------
        confounds : ndarray of shape (n_samples,)
            As `SampleSet` holds them.
        """
        self._encoded(confounds)

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return self._removed(X, np.arange(X.shape[0]), self._rows(metadata))

    def _change_lazily(self, X: Any, metadata: Metadata) -> Any:
        change = partial(self._snapshot()._removed, rows=self._rows(metadata))
        return mapped(X, change, chunked(np.arange(X.shape[0]), X), dtype=floating(X))

    def _removed(self, X: Any, positions: Array, rows: FloatArray) -> Any:
        """Return samples without what their rows explain; ``positions`` are those of the samples among the rows."""
        coef = as_like(self.coef_, X, floating(X))
        return without_explained(X, positions, rows, namespace(X).reshape(coef, (coef.shape[0], -1)))

    def pull_back(self, weight: Any) -> Array:
        """Return the weight as it is: scores differ by a linear function of the confounds."""
        return as_array(weight)

    def words(self) -> str:
        names = ["confounds"] if self.confounds is None else self.confounds
        names = getattr(self, "names_", [names] if isinstance(names, str) else list(names))
        verb = "explains" if len(names) == 1 and names != ["confounds"] else "explain"
        share = f" ({100 * self.explained_:.3g} % of the variance)" if hasattr(self, "explained_") else ""
        return f"what {join_with_and(names)} {verb} linearly was removed from every entry{share}"

    def brief(self) -> str:
        return f"without {self.words().partition(' linearly')[0]}"


class Crossed(NamedTuple):
    """Number of samples, means of rows and samples, their cross products, and the samples' squared deviations."""

    number: int
    row_mean: Any
    mean: Any
    cross: Any
    squares: Any


def _crossed(part: Any, positions: Array, rows: FloatArray) -> Crossed:
    """Return the cross products of some samples with their rows of confounds."""
    xp = namespace(part)
    part = cast(part, widest(part))
    own = rows[positions]
    mean, row_mean = xp.mean(part, axis=0), own.mean(axis=0)
    centred = xp.reshape(part - mean, (part.shape[0], -1))
    cross = like((own - row_mean).T, part, widest(part)) @ centred
    squares = xp.sum(centred * centred)
    return Crossed(len(own), row_mean, mean, xp.reshape(cross, (cross.shape[0], *part.shape[1:])), squares)


def _joined(one: Crossed, other: Crossed) -> Crossed:
    """Return those of both together, without cancellation."""
    xp = namespace(one.mean)
    number = one.number + other.number
    share, both = other.number / number, one.number * other.number / number
    apart, rows_apart = other.mean - one.mean, other.row_mean - one.row_mean
    rows_there = like(rows_apart, one.mean, widest(one.mean))
    between = xp.reshape(rows_there, (-1, *(1,) * apart.ndim)) * apart[None, ...]
    return Crossed(
        number,
        one.row_mean + share * rows_apart,
        one.mean + share * apart,
        one.cross + other.cross + both * between,
        one.squares + other.squares + both * xp.sum(apart * apart),
    )


def _needed(metadata: Metadata, method: str) -> Array:
    if metadata.confounds is None:
        raise ValueError(NEEDS["confounds"].format(method=method))
    return metadata.confounds


def _named(table: Array, wanted: Any, parameter: str) -> list[str]:
    """Return names of columns, given by name or position; raise ValueError for unknown ones."""
    known = names_of(table)
    requested = [wanted] if isinstance(wanted, str) else list(wanted)
    names = [known[one] if not isinstance(one, str) and 0 <= one < len(known) else one for one in requested]
    unknown = [str(name) for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"{parameter} must be names or positions of columns; {', '.join(unknown) or 'none'} is not among "
            f"{', '.join(known)}"
        )
    return [str(name) for name in dict.fromkeys(names)]


def _share(part: float, total: float) -> float:
    return float(min(max(part / total, 0.0), 1.0)) if total > 0 else 0.0
