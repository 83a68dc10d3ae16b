"""Arrays, devices, threads, processes, clusters and files, as everything above uses them.

It imports no other wing. It knows nothing of samples, labels or weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

if TYPE_CHECKING:
    from .array_api import as_array as as_array, as_like as as_like, cast as cast, detached as detached
    from .array_api import device_of as device_of, dtype_of as dtype_of, free_bytes as free_bytes
    from .array_api import has_float64 as has_float64, inverses as inverses, is_foreign as is_foreign
    from .array_api import is_lazy as is_lazy, like as like, namespace as namespace, on_cpu as on_cpu
    from .array_api import rows_of as rows_of, thin_product as thin_product, to_host as to_host
    from .atomic import TEMPORARY as TEMPORARY, all_or_none as all_or_none, replacing as replacing
    from .cluster import goes_to_cluster as goes_to_cluster, on_cluster as on_cluster, sent_once as sent_once
    from .cluster import take as take
    from .dask_waits import arriving as arriving, client_in_use as client_in_use, computed as computed
    from .dask_waits import gathered as gathered
    from .progress import Costs as Costs, Deadline as Deadline
    from .host import available_bytes as available_bytes, used_data_bytes as used_data_bytes
    from .processes import worker_options as worker_options
    from .progress import EqualStages as EqualStages, Forecast as Forecast, Progress as Progress
    from .progress import WorkMeter as WorkMeter, stage_progress as stage_progress
    from .threads import over_parts as over_parts, slices as slices, sum_over_parts as sum_over_parts
    from .threads import worker_threads as worker_threads
    from .array_api import Array as Array, FloatArray as FloatArray
    from .host import software_versions as software_versions
    from .words import counted as counted, in_bytes as in_bytes, join_with_and as join_with_and, listed as listed
    from .words import percent as percent
    from .words import points as points, quoted as quoted, short_number as short_number, shortened as shortened

__getattr__, __dir__ = lazy_exports(__name__)
