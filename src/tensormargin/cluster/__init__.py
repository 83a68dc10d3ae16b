"""Many fits on the workers of a Dask cluster, through joblib. Dask is imported when a cluster is asked for."""

from .context import LostWorkersError, goes_to_cluster, on_cluster, sent_once, take

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]
