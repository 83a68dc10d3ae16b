"""Measured constants that affect the speed of fits but not their results.

Each is followed by its purpose. `python -m benchmarks.tuning` times typical fits with half and twice each number and
writes the ratios to benchmarks/results/tuning.md, so that they can be checked on a new machine. Numbers that users may
want to set are parameters; mathematical constants and those of file formats are defined where they are used.
"""

from __future__ import annotations

# ---- parts of the samples, and threads over them (threads.py) ----

WORTH_SHARING_BYTES = 2**23
"""Less data is read before a second thread has started."""
FEWEST_PARTS, MOST_PARTS, PART_BYTES = 4, 16, 2**23
"""Number of parts, and the size of each if that leads to one in between: more of them balance the load better, but each
takes Python's global lock a few times, which fits in other threads wait for."""

# ---- samples in memory (samples/memory.py) ----

CHUNK_BYTES = 2**22
"""Size of the chunks in which samples are cast and contracted: they stay in the L2 cache of two threads."""
CHUNK_SAMPLES = 8
"""Samples per chunk: with fewer, adding up the moments of a chunk costs more than reading it."""
COPY_SHARE = 0.55
"""Size of a working copy relative to the samples: allows float32 for float64, but not float32 for bytes."""
COPY_BYTES = 2**26
"""Smaller copies are always made."""
KRONECKER_COLUMNS = 16
"""One product with this many columns is as fast as two with 4, and needs no intermediate."""
WASTEFUL_PRODUCT = 20_000
"""Entries of a mostly zero matrix: one product with it beats thousands of tiny ones (MNIST, Tucker: 5 vs. 20 ms)."""

# ---- working precision (samples/base.py, samples/storage.py) ----

FEW_ENTRIES = 2**18
"""Entries of all samples: up to here another pass or a copy in another dtype costs almost nothing."""
MANY_ENTRIES = 2**20
"""From here on float64 samples are contracted in float32 (rank-1 fit of 12k MNIST images: 0.23 to 0.12 s)..."""
SINGLE_TOL = 5e-4
"""...unless ``tol`` is smaller: float32 leaves relative errors of about a tenth of it in the objective."""
LOOKED_THROUGH_BYTES = 2**24
"""Larger samples are not read separately to look for NaN, which the first pass detects as well."""

# ---- samples on a device (samples/device.py, batched_alternation.py) ----

DEVICE_CHUNK_BYTES = 2**28
"""Temporaries of a pass over the samples: large enough for a GPU's products, small compared with its memory."""
DEVICE_MEMORY_SHARE = 0.5
"""Share of the free memory that the designs of a batch and their copies may use."""
DESIGN_COPIES = 4
"""Number of float64 copies of the designs made by contracting and solving."""
HOST_SECONDS, HOST_SECONDS_PER_ENTRY = 1e-3, 2.2e-9
"""Cost of a block on the host: fixed, and per entry of its design (benchmarks/results/gpu.md)."""
HELD_PRODUCTS = 2**23
"""From so many products N d^2 on, the second moments of a block that is solved on the host are made on the device: that
takes 2 ms and more (1,200 x 64: 1.3 ms on the host, 5.6 with the device; 12,000 x 256: 15 and 7 ms)."""
DEVICE_SECONDS, DEVICE_SECONDS_PER_PRODUCT = 45e-3, 7e-13
"""Cost of a batch on a device: fixed (mostly kernel launches), and per each of the N d^2 products (same table)."""

# ---- samples in a Dask array (samples/lazy.py) ----

ARRIVING_BYTES = 2**25
"""Parts of a design that the caller holds in addition to the design itself."""
CHUNKS_AT_ONCE = 16
"""Chunks that are computed together without a cluster."""
SLAB_BYTES = 2**26
"""Columns of a design that are added to its Gram matrix at a time."""
TREE = 8
"""Number of parts summed by one task."""
LOADED_SHARE = 0.125
"""Share of the available memory up to which the samples of a Dask array are read into memory: copies that folds and
threads make fit beside them, and one read replaces dozens (benchmarks/dask_samples.py)..."""
LOADED_FROM_CLUSTER_BYTES = 2**28
"""...and from the workers of a cluster only up to this size: they arrive faster than many small tasks start."""
ROUND_SHARE = 0.0625
"""Share of the available memory for the designs that one pass brings to the caller..."""
ROUND_LEAST_BYTES = 2**22
"""...and what they may use at least."""
COORDINATE_COPIES = 4
"""Copies of the samples' coordinates that fits of full weights make, as far as these use a quarter of the memory."""
CHUNK_DESIGNS_BYTES = 2**27
"""Designs that a worker computes at a time."""

# ---- samples in files (io/lazy.py, io/samples.py) ----

BLOCK_BYTES = 2**24
"""Samples that are read from a file at a time..."""
BLOCK_SAMPLES = 4096
"""...and, at most, predicted at a time: twice as many take three times as long, since they leave the cache."""

# ---- transformers (preparation/_passes.py) ----

PASS_ENTRIES = 2**20
"""Entries per part of the samples, to fit into the processor's cache."""
PASS_SAMPLES = 8
"""Samples per part: with fewer, joining parts costs more than reading them. At most four times `PASS_ENTRIES`."""
JOINED_AT_ONCE = 8
"""Number of chunks whose statistics one task joins."""

# ---- kernels (kernels/) ----

EXACT_KERNEL_SAMPLES = 3000
"""Up to here all features of a kernel are computed: their number grows with the samples, and the time with its cube."""
LANDMARKS = 2000
"""Landmarks for more samples..."""
KERNEL_FEATURES = 1000
"""...and features: of 12,000 MNIST images, as accurate as 2,000 and fitted to five times as fast."""
SAMPLES_PER_LANDMARK = 3
"""Samples among which landmarks are chosen, for each of them."""
KERNEL_ENTRIES = 2**22
"""Entries of a block of kernel values: 32 MB, so that blocks are small beside the features."""

# ---- block problems (blocks.py, designs.py) ----

SMALL_DESIGN, SMALL_GRAM = 2**16, 2**15
"""Entries of a design, or of the Gram matrix of the samples for a flat weight: up to here a problem is solved exactly
whatever the tolerance, in a few milliseconds (one-vs-rest problems of more samples share their factorisation)."""
BLOCK_CHUNK_ENTRIES = 2**20
"""Entries of the rows that are whitened at a time: temporaries of 8 MB; smaller ones are no faster."""
TALL = 2
"""Rows per column of a chunk: below this, summing the d x d moments costs more than computing them."""
MANY_SAMPLES = 1000
"""From here on an unwhitened design beats the N^3 of its Gram matrix (4000 x 8000: 1.0 s against 8.0 s)..."""
FAR_MORE_COLUMNS = 20
"""...unless the ratio of columns to rows is larger than this."""
MOMENT_ROUNDING = 0.1
"""Share of the gap that rounding second moments to float32 may use up (12k x 257: 9 instead of 16 ms)."""
GRAM_ENTRIES = 2**21
"""Entries of the columns whose inner products are added up at a time."""

# ---- coordinate descent (solvers/dual_cd.py) ----

DESCENT_TOL = 1e-7
"""Relative gap below which the exact solve on the free coordinates is faster than descent."""
FIRST_ROUND, FIRST_ROUND_IF_SMALL = 10, 60
"""Epochs before the first exact solve; later rounds double in length."""
SMALL_ROUNDS, SMALL_EPOCHS = 6, 60
"""Rounds of descent on a small problem, and epochs of each, before the active-set method takes over..."""
NEAR_GAP = 1e-2
"""...and the relative gap above which not even a second round is worth it (benchmarks/tuning.py)."""
SMALL_DESCENT_TOL = 1e-2
"""Relative gap at which descent on a small problem hands over to an exact solve: early, since that is cheap."""
MOST_STALLS = 2
"""Rounds without progress after which rounding is assumed to prevent any more: no gain in speed, but an end."""
PATIENCE = 200
"""Epochs before the interior-point method is tried; at least the number of columns, which make it more expensive."""
INTERIOR_ITERATIONS = 80
"""Maximum number of iterations of the interior-point method when coordinate descent makes no progress."""
MOST_FREE = 1000
"""Maximum number of free coordinates for an exact solve."""
NEAR_MARGIN = 0.1
"""A sample at its bound whose margin is farther than this from 1 stays out of the working set."""
NEARLY_ALL = 0.6
"""If more than this share of the remaining samples is wanted, the working set takes all of them."""
FACE_EPOCHS = 30
"""Multiplications allowed for the exact solve, in epochs of descent. Without it, fits take 0.75 to 1.3 times as long,
but MNIST 3-8 with a Tucker weight at lambda 1000 takes 3 times."""
FACE_WORK_IF_SMALL = 100_000_000
"""Multiplications allowed for small problems, which must be solved exactly."""

PRODUCT_ROUNDS = 8
"""Rounds of descent by inner products, each with twice the epochs of the last, before another way is taken."""

# ---- interior-point methods (solvers/interior_point.py) ----

TO_THE_WALL = 0.995
"""Maximum step, as a share of the distance to the nearest bound."""
TOO_SHORT = 0.9
"""A step that leaves more than this share of the complementarity was stopped by a bound..."""
CENTRE = 0.7
"""...and is replaced by one that aims at this share of it."""
MOST_IDLE = 40
"""Iterations without a better gap after which rounding is assumed to prevent any more; a batch, which waits for its
slowest problem, gives up after `BATCH_MOST_IDLE`."""
BATCH_MOST_ITERATIONS, BATCH_MOST_IDLE = 80, 12
LEAST_SHARE = 0.3
"""Share of the requested gap that steps aim at; smaller products only make the systems worse conditioned."""
LEAST_SQUARES_COPIES = 4
"""Number of copies of the designs that least squares need; this many times fewer problems are solved at a time."""

# ---- sweeps (alternation.py) ----

LOOSEST_GAP, LOOSEST_GAP_IF_GOOD = 1e-2, 1e-3
"""Relative gap for the blocks of the first sweep, from an arbitrary start and from a good one."""
CHEAP_SOLVES = 100
"""Entries of a sample per parameter: from here on solves cost far less than contractions, and are made tightly."""
GAP_SHARE = 0.1
"""Allowed gap of a block, as a share of ``tol`` and of the last decrease."""
REST_SHARE = 0.5
"""Allowed remaining decrease of the objective as a share of ``tol``, by extrapolation, which is often too low..."""
REST_SHARE_OF_FEW = 0.2
"""...and where sweeps are cheap (210 random problems that are continued to 1e-7: 10 % fall by more than ``tol / 2``,
with 0.5 a third. With many samples it would cost a quarter more time for 0.2 to 0.4 % of the objective)."""
SLOWEST_DECAY = 0.99
"""Largest ratio of successive decreases, and the one assumed if too few are known."""
NOISE_SAMPLES, NOISE_ENTRIES = 4, 2**16
"""Samples, and entries of all of them, that say in which directions of a mode the noise is strong."""
CONVEX_WORK = 2**23
"""Multiplications of the convex problem over all tensors, whose solution is a second start, up to which it is solved
(100 samples of 8x10x10: 2 ms, as long as a fit of rank one takes without the checks of its input)..."""
RACED_SWEEPS = 2
"""...and sweeps from both starts before one can be dropped (280 random problems, objective more than 1 % above the best
of 20 starts: 27 % from one start, 19 % from two for 1.07 times the sweeps, 16 % from two to the end)."""
COARSE_SHARE = 8
"""The first sweeps, and descent without a start, use one in this many samples (CP 2, MNIST: 4 sweeps over all of them
instead of 6)..."""
COARSE_SAMPLES, COARSE_SAMPLES_PER_PARAMETER = 1024, 8
"""...if that leaves at least this many, in total and per parameter..."""
COARSE_BYTES = 2**27
"""...of a Dask array at most so many bytes, which the caller receives in the first pass..."""
COARSE_TOL = 1e-2
"""...to this tolerance: the rest has to be done on all samples anyway."""
CP_REFINEMENTS = 10
"""Rounds of alternating least squares for a CP start (CP 2, AdrenalMNIST3D: 4 sweeps instead of 7)."""
CP_CORE = 256
"""Entries of the core of a CP weight in the span of its factors, up to which it has a basis of its tangent space: ranks
up to 6 for three modes, 4 for four."""
CP_REFIT = 64
"""Entries of the factor of a CP weight that is fitted after a step: the more, the fewer sweeps (rank 2 and 4, 3 to 10
entries per mode: 12 with the longest, 17 with the shortest), but each takes longer."""

# ---- steps in the tangent space (alternation.py, native/small_fit.c) ----

SAMPLES_PER_PARAMETER = 8
"""Number of samples, per parameter of a weight, up to which sweeps are such steps from the start. With more samples
a pass over the blocks costs half as much, and mostly converges as fast..."""
FAST_SWEEPS = 4
"""...but if it has not after so many sweeps, steps follow (MNIST 3-8, Tucker, large lambda: 1.0 instead of 2.1 s)."""
GOOD_STEP = 0.5
"""Share of the decrease that the tangent space promises: half of a step that gains less is tried as well."""
SUBSPACE_SWEEPS = 4
"""Sweeps in the span of the factors, their changes and the factors before, where contracting the samples costs far
more than solving (160 volumes of 49x58x47, Tucker, lambda 1000: 6 instead of 16 steps, at a lower objective)."""
SHORTEST_STEP = 1e-3
"""Share of a step below which none is tried any more: rounding hides what it would gain."""
STATIONARY_SHARE = 0.01
"""Of ``tol``: a promised decrease below it (relative to the terms of the objective) is not worth a step."""
SMALL_SAMPLES = 2**20
"""Entries of all samples: fits to fewer are made by compiled code, in one call."""
MOST_EIGENVECTORS = 64
"""Size of a mode up to which compiled code finds the directions of the second start itself, without Python's global
lock; LAPACK is faster beyond."""

# ---- several views (spans.py, blocks.py) ----

WIDE_IF_VIEWS = 1.3
"""Columns per sample up to which a whitened problem of several views is solved in its columns. Just above one, forming
and factorising the inner products of the samples costs more than the columns that they save (200 samples, 60x60 and
40x50, rank one: 46 instead of 54 ms)."""

LONG_VIEW = 2
"""Entries per sample of a view with a full weight from which on its coordinates in the span of the samples replace it,
for each of the samples: fewer save less than the basis costs (benchmarks/views.py)."""

# ---- many fits (estimators/engine.py, selection/) ----

MOST_THREADS = 8
"""Fits at a time in threads, which share Python's global lock between their compiled steps (MNIST, 45 pairs of 60,000
images on 16 cores, rank 1 and Tucker: 1.2 and 3.3 s with 8 threads, 1.4 and 3.1 s with 12)."""

RACE_TOL = 1e-2
"""Smallest ``tol`` of the fits of a race. Accuracies are the same on average (Haxby's eight categories, BasicMotions,
EEG, digits: 59.0, 87.2, 77.7, 96.0 against 58.3, 87.2, 78.1, 95.9 % with 1e-3), and fits that take many sweeps take
half the time."""
KEPT_SPLITS_BYTES = 2**30
"""Prepared training and test sets that a search keeps; others are prepared again for each rung of the race."""
KEPT_PASSES_BYTES = 2**24
"""Small binary problems of a split after their first pass, which all strengths, decompositions and ranks share."""
KEPT_SCORES_BYTES = 2**29
"""Held-out scores that a search keeps for the calibration of the selected model; otherwise it is fitted again."""
SHARED_RESULTS_BYTES = 2**30
"""Representations that a search keeps for other models that have them in common."""
MANY_CLASSES, SOME_CLASSES = 12, 6
"""Classes from which on candidates are first compared on some of them, and how many: one-vs-one then has a fraction
of the binary problems. Searches of the faces (40 classes) take 20 instead of 76 s of processor time, of Libras (15) 8
instead of 13, at the same accuracy."""
RACE_SAMPLES, RACE_SHARE, RACE_OF_A_CLASS = 600, 1 / 3, 20
"""Samples of a training set from which on automatic searches compare candidates on a share of each class first, and the
smallest number of samples that stay of each class: flat weights take N^3 operations per binary problem (1,889 samples
of 6x23: 21 instead of 70 s, with the same accuracy). With 300 samples instead of 600, Indian Pines' six classes lose
3.7 points: a third of them does not show that a rank-one weight is better."""
FLAT_BASIS_BYTES = 2**29
"""Samples of at most this size (as float64) are replaced by their inner products for flat weights."""
MOST_INNER_PRODUCTS = 2000
"""Samples of a split, up to which flat weights of a search are fitted by their inner products: coordinates take N^3
operations, for every binary problem if sample weights differ."""
