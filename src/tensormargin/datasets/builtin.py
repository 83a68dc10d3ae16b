"""Data sets that come with the dependencies and need no download."""

from __future__ import annotations

from sklearn.utils import Bunch

from ._store import described


def load_digits_tensor() -> Bunch:
    """Return scikit-learn's 1,797 handwritten digits as 8x8 tensors.

    Returns
    -------
    Bunch
        ``data`` of shape (1797, 8, 8), ``target`` with the digits 0 to 9, and ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_digits_tensor
    >>> digits = load_digits_tensor()
    >>> digits.data.shape, digits.target[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits  # also imports what downloads other data sets

    bunch = load_digits()
    return described(Bunch(data=bunch.images, target=bunch.target, DESCR=bunch.DESCR), ["row", "column"])
