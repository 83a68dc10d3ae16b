"""Parallel fits on the workers of a Dask cluster, through joblib. Dask is imported only when a cluster is used."""

from .context import goes_to_cluster, on_cluster, sent_once, take
from .errors import LostWorkersError

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]
