"""Parallel fits on the workers of a Dask cluster, through joblib. Dask is imported only when a cluster is used."""

from ..dask_waits import LostWorkersError
from .context import goes_to_cluster, on_cluster, sent_once, take

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]
