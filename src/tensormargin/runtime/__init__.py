"""Arrays, devices, threads, processes, clusters and files, as everything above uses them.

It imports no other wing. It knows nothing of samples, labels or weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

if TYPE_CHECKING:
    from .array_api import Array, FloatArray, as_array, as_like, cast, detached, device_of, dtype_of, free_bytes
    from .array_api import has_float64, inverse_of_factor, inverses, is_foreign, is_lazy, like, namespace, on_cpu
    from .array_api import rows_of, thin_product, to_host
    from .atomic import all_or_none, replacing
    from .cluster import goes_to_cluster, on_cluster, sent_once, take
    from .dask_waits import arriving, client_in_use, computed, gathered
    from .folders import is_marked, mark, remove_leftovers, remove_marker
    from .host import available_bytes, block_bytes, software_versions, used_data_bytes
    from .lazy import from_extra
    from .locks import ForkSafeLock, UsedByThreads
    from .notes import note
    from .processes import worker_options
    from .progress import Costs, Deadline, EqualStages, Forecast, Progress, WorkMeter, stage_progress
    from .renamed import warn_of_old_name
    from .signals import ENDING_SIGNALS
    from .terminal import EscapedStream, escape_streams, escaped_streams
    from .threads import over_parts, slices, sum_over_parts, worker_threads
    from .words import counted, escaped, in_bytes, join_with_and, listed, percent, points, quoted, short_number
    from .words import shortened

__getattr__, __dir__ = lazy_exports(__name__)
