"""Many fits on the workers of a Dask cluster, through joblib. Dask is imported when a cluster is asked for."""

from .context import goes_to_cluster, on_cluster, sent_once, take
from .errors import LostWorkersError

__all__ = ["LostWorkersError", "goes_to_cluster", "on_cluster", "sent_once", "take"]
