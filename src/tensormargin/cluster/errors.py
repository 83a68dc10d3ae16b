"""Errors raised by fits on a cluster."""

from __future__ import annotations


class LostWorkersError(ConnectionError):
    """A job returned no result because its workers died or the scheduler went away.

    Examples
    --------
    >>> from tensormargin.cluster import LostWorkersError
    >>> issubclass(LostWorkersError, Exception)
    True
    """
