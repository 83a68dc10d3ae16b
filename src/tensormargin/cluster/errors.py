"""What can go wrong on a cluster."""

from __future__ import annotations


class LostWorkersError(ConnectionError):
    """The cluster gave a job back without an answer: its workers died, or the scheduler went away."""
