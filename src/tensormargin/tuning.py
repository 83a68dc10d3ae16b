"""Numbers that make fits fast and change no answer: set by measurement, in one place.

Each is followed by what it buys. `python -m benchmarks.tuning` fits typical samples with half and with twice of each
number and writes the ratios to benchmarks/results/tuning.md, so that a new machine can disagree. Numbers that a user
may want to set are parameters; numbers of mathematics or of a file format stand where they are used.
"""

from __future__ import annotations

# ---- parts of the samples, and threads over them (threads.py) ----

WORTH_SHARING_BYTES = 2**22
"""Less is read through before a second thread has begun."""
FEW_PARTS, MANY_PARTS = 4, 16
"""Parts that threads share out, of few and of many bytes: more even out a busy core, and cost 20 us each."""
MANY_BYTES = 2**24
"""From here on there are `MANY_PARTS`."""

# ---- samples in memory (samples/memory.py) ----

CHUNK_BYTES = 2**22
"""Samples that are cast and contracted at a time: they stay in the second-level cache of two threads."""
CACHED_CHUNK_BYTES = 2**19
"""The same for the first pass, which reads each chunk three times."""
CHUNK_SAMPLES = 8
"""Fewer samples per chunk, and adding up the moments of a chunk costs more than reading it."""
COPY_SHARE = 0.55
"""A working copy may take this share of the samples' memory: float32 of float64 fits, float32 of bytes does not."""
COPY_BYTES = 2**26
"""Smaller copies are made whatever their share."""
KRONECKER_COLUMNS = 16
"""One product with so many columns is as fast as two with 4, and leaves no intermediate."""
WASTEFUL_PRODUCT = 20_000
"""Entries of a mostly zero matrix whose one product beats thousands of tiny ones (MNIST, Tucker: 5 against 20 ms)."""

# ---- the type that is computed in (samples/base.py, samples/door.py) ----

FEW_ENTRIES = 2**18
"""Of all samples: another pass over so few, or another type of them, costs next to nothing."""
MANY_ENTRIES = 2**20
"""Float64 samples with so many entries are contracted in float32 (rank-1 fit of 12k MNIST images: 0.23 to 0.12 s)."""
SINGLE_TOL = 5e-4
"""Unless ``tol`` is smaller: float32 leaves relative errors of about a tenth of it in the objective."""
LOOKED_THROUGH_BYTES = 2**24
"""Samples beyond it are not read once more to look for NaN, which the first pass notices as well."""

# ---- samples on a device (samples/device.py, batched_alternate.py) ----

DEVICE_CHUNK_BYTES = 2**28
"""Temporaries of a pass over the samples: large enough for a GPU's products, small beside its memory."""
DEVICE_MEMORY_SHARE = 0.5
"""Of the free memory that the designs of a batch may take, with what is made of them."""
DESIGN_COPIES = 4
"""Of the designs in float64: what contracting and solving make of them."""
HERE_SECONDS, HERE_SECONDS_PER_ENTRY = 1e-3, 6e-9
"""What a block costs when it is solved here: as such, and per entry of its design (benchmarks/results/gpu.md)."""
THERE_SECONDS, THERE_SECONDS_PER_PRODUCT = 45e-3, 7e-13
"""What a batch costs on a device, most of it for telling the device what to do, and per N d^2 products (same table)."""

# ---- samples in a Dask array (samples/lazy.py) ----

ARRIVING_BYTES = 2**25
"""Parts of a design that the caller holds beside the design itself."""
CHUNKS_AT_ONCE = 16
"""Chunks that are computed together where there is no cluster."""
PART_BYTES = 2**24
"""Smaller parts of a subset are put together: a task costs a millisecond, as reading 1 MB does."""
SLAB_BYTES = 2**26
"""Columns of a design whose Gram matrix is summed at a time."""
TREE = 8
"""Parts that are added up by one task."""

# ---- transformers (preparation/_passes.py) ----

PASS_ENTRIES = 2**20
"""Entries of a part of the samples: what fits into the processor's cache."""
PASS_SAMPLES = 8
"""Fewer samples, and joining parts costs more than reading them; but at most four times as many entries."""
JOINED_AT_ONCE = 8
"""Statistics of chunks that one task joins."""

# ---- block problems (blocks/, designs.py) ----

SMALL_DESIGN = 2**15
"""Entries; such a problem is solved exactly whatever tolerance is asked for, in a millisecond or two."""
BLOCK_CHUNK_ENTRIES = 2**18
"""Rows that are whitened at a time: temporaries of 2 MB stay in the processor's cache."""
TALL = 2
"""Rows per column of a chunk, so that adding up d x d moments is little beside computing them."""
MANY_SAMPLES = 1000
"""From here on an unwhitened design beats the N^3 of its Gram matrix (4000 x 8000: 1.0 s against 8.0 s)..."""
FAR_MORE_COLUMNS = 20
"""...unless it has so many times as many columns as rows."""
MOMENT_ROUNDING = 0.1
"""Share of the gap that second moments in float32 may cost (12k x 257: 9 instead of 16 ms)."""
GRAM_ENTRIES = 2**21
"""Of a chunk of columns whose inner products are added up at a time."""

# ---- coordinate descent (solvers/dual_cd.py) ----

DESCENT_TOL = 1e-7
"""Relative gap from which on the exact solve on the free coordinates is faster than descent."""
FIRST_ROUND, FIRST_ROUND_IF_SMALL = 10, 60
"""Epochs before the first exact solve; the rounds double."""
MOST_STALLS = 2
"""Rounds without progress after which rounding is taken to forbid more."""
PATIENCE = 200
"""Epochs before an interior point is tried; more columns make that costlier and so buy more patience."""
INTERIOR_ITERATIONS = 80
MOST_FREE = 1000
"""Free coordinates beyond which no exact solve is tried."""
NEAR_MARGIN = 0.1
"""A sample at its bound whose margin is so far from 1 stays out of the working set."""
NEARLY_ALL = 0.6
"""Share of the samples from which on all of them are taken into the working set."""
FACE_EPOCHS = 30
"""Multiplications that the exact solve may use, in epochs of descent."""
FACE_WORK_IF_SMALL = 100_000_000
"""The same for small problems, which must be solved exactly."""

# ---- interior points (solvers/interior_point.py, solvers/batched_interior_point.py) ----

TO_THE_WALL = 0.995
"""Share of the way to the nearest bound that a step goes."""
TOO_SHORT = 0.9
"""A step that leaves more of the complementarity than this was caught at a wall..."""
CENTRE = 0.7
"""...and is made again towards so much of it."""
MOST_IDLE = 40
"""Iterations without a better gap before rounding is taken to forbid more; a batch, which waits for all, gives up
after `BATCH_MOST_IDLE`."""
BATCH_MOST_ITERATIONS, BATCH_MOST_IDLE = 80, 12
LEAST_SHARE = 0.3
"""Of the gap asked for, that steps aim at in a batch; smaller products only make the systems worse conditioned."""
LEAST_SQUARES_COPIES = 4
"""Of the designs that least squares make: so many times fewer problems are solved at a time."""

# ---- sweeps (alternate.py, coarse.py) ----

LOOSEST_GAP, LOOSEST_GAP_IF_GOOD = 1e-2, 1e-3
"""Relative gap that the blocks of the first sweep are solved to, from any start and from a good one."""
CHEAP_SOLVES = 100
"""Entries of a sample per parameter from which on solves cost nothing beside contractions, and are made tightly."""
GAP_SHARE = 0.1
"""Of ``tol``, and of the last decrease, that the gap of a block may be."""
REST_SHARE = 0.5
"""Of ``tol``, that the objective may still have to fall."""
SLOWEST_DECAY = 0.99
"""Ratio of one decrease to the one before it that is assumed where too few are known."""
COARSE_SHARE = 8
"""The first sweeps are made on one sample in so many (CP 2, MNIST: 4 sweeps over all of them instead of 6)..."""
COARSE_SAMPLES, COARSE_SAMPLES_PER_PARAMETER = 1024, 8
"""...where that leaves so many, and so many per parameter..."""
COARSE_TOL = 1e-2
"""...to this tolerance: the rest has to be done on all samples anyway."""
CP_REFINEMENTS = 10
"""Rounds of alternating least squares that make a CP start (CP 2, AdrenalMNIST3D: 4 sweeps instead of 7)."""
