"""Tests of fits on Dask arrays against NumPy arrays: results, data transfer, reads and lost workers."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes, sparse_product
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS, SOLVERS, MarginProblem, MemorySamples, Objective, sample_array
from tensormargin.fitting import alternation as alternate
from tensormargin.fitting.designs import Matrix
from tensormargin.runtime import tuning

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'tensormargin[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask's cluster: pip install 'tensormargin[dask]'")

import cloudpickle  # noqa: E402
import dask.array as da  # noqa: E402 - only if it is installed
from dask.sizeof import sizeof  # noqa: E402

import tensormargin.fitting.samples.lazy as lazy  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import this file

WEIGHTS = [("full", None), ("cp", 2), ("tucker", 2), ("tt", 2)]
STEPS = [(("cp", 1), (9, 8)), (("cp", 2), (9, 8)), (("tucker", 2), (6, 5, 4))]  # in one pass each
SHAPES = [(30,), (6, 7), (5, 6, 7), (3, 4, 3, 4)]

pytestmark = pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)  # equal after any number of sweeps


@pytest.fixture(autouse=True, scope="module")
def _not_loaded():
    """Keep small arrays where they are, which would be read into memory otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "LOADED_SHARE", 0.0)
        yield


@pytest.fixture
def cluster(dask_cluster):
    with distributed.Client(dask_cluster) as client:
        yield client


@pytest.fixture
def here():
    """Use Dask without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def many(monkeypatch):
    """Treat all samples as many."""
    for name in ("SMALL_SAMPLES", "CONVEX_WORK"):
        monkeypatch.setattr(tuning, name, 0)
    monkeypatch.setattr(tuning, "COARSE_SAMPLES", 128)


def fit(X, y, weight=("cp", 2), sample_weight=None, tol=1e-8, max_iter=2, **parameters):
    classifier = TensorMarginClassifier(*weight, tol=tol, max_iter=max_iter, **parameters)
    return classifier.fit(X, y, sample_weight)


def assert_alike(one, other, rtol=1e-6):
    """Check that weights agree relative to their largest entry, and intercepts relative to the largest score."""
    assert one.coef_.dtype == other.coef_.dtype
    np.testing.assert_allclose(one.coef_, other.coef_, atol=rtol * np.abs(other.coef_).max())
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=rtol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol)


def chunked(X, lengths):
    return da.from_array(X, chunks=(lengths, *X.shape[1:]))


class TestTheAnswerIsThatOfSamplesInMemory:
    @pytest.mark.parametrize(("weight", "shape"), sparse_product(WEIGHTS, SHAPES), ids=lambda one: str(one))
    def test_on_worker_processes(self, cluster, weight, shape):
        X, y = low_rank_classes(0, 60, shape, 3.0)
        weight = (weight[0], weight[1] if len(shape) > 1 else None)
        assert_alike(fit(chunked(X, (25, 30, 5)), y, weight), fit(X, y, weight))

    @pytest.mark.parametrize("lengths", [(16,), (1,) * 16, (1, 0, 12, 3)], ids=["one", "single", "uneven"])
    def test_whatever_the_chunks_of_workers(self, cluster, lengths):
        X, y = low_rank_classes(1, 16, (4, 5, 3), 3.0)
        lazily = da.concatenate([da.from_array(part) for part in np.split(X, np.cumsum(lengths)[:-1])])
        assert_alike(fit(lazily, y, max_iter=1), fit(X, y, max_iter=1))

    @given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.sampled_from(WEIGHTS), st.integers(0, 100))
    def test_whatever_the_chunks(self, lengths, weight, seed):
        lengths = [*lengths, max(0, 20 - sum(lengths))]
        X, y = low_rank_classes(seed, sum(lengths), (4, 5), 3.0)
        lazily = da.concatenate([da.from_array(part) for part in np.split(X, np.cumsum(lengths)[:-1])])
        with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert_alike(fit(lazily, y, weight, max_iter=1), fit(X, y, weight, max_iter=1))

    @pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
    @pytest.mark.parametrize("weight", WEIGHTS, ids=lambda weight: weight[0])
    def test_without_a_cluster(self, weight, scheduler):
        X, y = low_rank_classes(0, 60, (5, 6, 7), 3.0)
        with dask.config.set(scheduler=scheduler):
            assert_alike(fit(chunked(X, (25, 30, 5)), y, weight), fit(X, y, weight))

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_three_classes(self, cluster, scheme):
        X, _ = low_rank_classes(0, 60, (5, 6), 3.0)
        y = np.repeat([2, 0, 1], 20)  # ordered, so that some chunks have no samples of a pair
        X[y == 1] += 1.0
        lazily = fit(chunked(X, 10), y, multi_class=scheme)
        assert_alike(lazily, fit(X, y, multi_class=scheme))

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_sample_weights(self, here, fit_intercept):
        X, y = low_rank_classes(0, 60, (5, 6), 3.0)
        weights = np.random.RandomState(0).rand(60) * (np.arange(60) % 3 > 0)
        weights[10:30] = 0.0  # a whole chunk
        options = {"sample_weight": weights, "fit_intercept": fit_intercept}
        assert_alike(fit(chunked(X, 10), y, **options), fit(X, y, **options))

    @pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, bool])
    def test_other_types(self, here, dtype):
        X, y = low_rank_classes(0, 60, (5, 6), 3.0)
        X = X > 0 if dtype is bool else (30 * X + 128).clip(0, 255).astype(dtype)
        lazily = fit(chunked(X, (7, 23, 30)), y, ("tucker", 2), tol=1e-4)
        assert_alike(lazily, fit(X, y, ("tucker", 2), tol=1e-4), rtol=1e-4)

    @pytest.mark.parametrize(("dtype", "offset", "rtol"), [(np.float64, 1e4, 1e-6), (np.float32, 1e3, 1e-3)])
    def test_a_large_common_offset(self, here, dtype, offset, rtol):
        X, y = low_rank_classes(0, 60, (5, 6), 3.0)
        X = (X + offset).astype(dtype)
        one, other = (fit(samples, y, ("tt", 2), tol=1e-5) for samples in (chunked(X, 17), X))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=rtol * np.abs(other.coef_).max())

    @pytest.mark.parametrize("weight", WEIGHTS, ids=lambda weight: weight[0])
    def test_double_contracted_in_single(self, here, weight, monkeypatch):
        """Large data sets with a large tol are centred before they are rounded."""
        monkeypatch.setattr(tuning, "MANY_ENTRIES", 0)
        X, y = low_rank_classes(0, 90, (5, 6), 3.0)
        X += 1e6
        one, other = (fit(samples, y, weight, tol=1e-3) for samples in (chunked(X, 17), X))
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-3 * np.abs(other.coef_).max())

    @pytest.mark.parametrize("weight", WEIGHTS, ids=lambda weight: weight[0])
    def test_many_samples_that_begin_with_few(self, here, weight, monkeypatch):
        for name, value in (
            ("COARSE_SAMPLES", 16),
            ("COARSE_SHARE", 4),
            ("COARSE_SAMPLES_PER_PARAMETER", 2),
        ):  # two levels
            monkeypatch.setattr(tuning, name, value)
        X, y = low_rank_classes(0, 1200, (3, 4), 2.0)
        one, other = (fit(samples, y, weight, tol=1e-11, max_iter=5) for samples in (chunked(X, 340), X))
        assert_alike(one, other)

    @pytest.mark.parametrize("mu", [0.0, 1.0])
    @pytest.mark.parametrize("shape", [(12, 10), (30, 40)], ids=["long", "wide"])
    def test_a_full_weight_of_more_entries_than_fit_a_small_problem(self, cluster, shape, mu):
        X, y = low_rank_classes(0, 600, shape, 3.0)
        options = {"mu1": mu, "mu2": mu, "max_iter": 20}
        assert_alike(fit(chunked(X, 140), y, ("full", None), **options), fit(X, y, ("full", None), **options))

    def test_several_starts_and_a_warm_one(self, here):
        X, y = low_rank_classes(0, 60, (5, 6), 3.0)
        options = {"n_init": 2, "init": "random", "random_state": 0, "warm_start": True}
        models = [fit(samples, y, **options) for samples in (chunked(X, 17), X)]
        assert_alike(*models)
        assert_alike(models[0].fit(chunked(X, 20), y), models[1].fit(X, y))


class TestSamples:
    """`LazySamples` gives the same results as `MemorySamples`."""

    @pytest.fixture(params=["all", "rows"])
    def pair(self, request, here):
        X = np.random.RandomState(0).standard_normal((50, 4, 5, 3)) + 7.0
        rows = None if request.param == "all" else np.array([0, 3, 4, 5, 20, 21, 33, 49])
        return MemorySamples(X, rows), sample_array(chunked(X, (10, 7, 10, 3, 20))).samples(rows)

    def test_size(self, pair):
        memory, lazily = pair
        assert (len(memory), memory.shape, memory.dtype) == (len(lazily), lazily.shape, lazily.dtype)
        assert memory.nbytes == lazily.nbytes

    @pytest.mark.parametrize("name", sorted(FORMATS))
    def test_designs(self, pair, name):
        memory, lazily = pair
        rng = np.random.RandomState(0)
        weight = FORMATS[name].from_dense(
            rng.standard_normal((4, 5, 3)), FORMATS[name].valid_rank(None, (4, 5, 3)), rng
        )
        for index in range(len(weight.block_names)):
            contraction = weight.block(index).contraction
            design = lazily.design(contraction)
            design = design if isinstance(design, np.ndarray) else design.to_numpy()
            np.testing.assert_allclose(design, memory.design(contraction), atol=1e-12)
            assert design.flags.writeable

    def test_scores(self, pair):
        memory, lazily = pair
        weights = np.random.RandomState(0).standard_normal((2, 4, 5, 3))
        np.testing.assert_allclose(lazily.scores(weights), memory.scores(weights))

    @pytest.mark.parametrize("centred", [True, False])
    def test_moments(self, pair, centred):
        rng = np.random.RandomState(0)
        weights, signs = rng.rand(len(pair[0])), np.where(rng.rand(len(pair[0])) > 0.4, 1.0, -1.0)
        weights /= weights.sum()
        memory, lazily = (samples.first_pass(weights, signs, centred) for samples in pair)
        np.testing.assert_allclose(lazily.signed_mean, memory.signed_mean, atol=1e-12)
        assert lazily.mean_square == pytest.approx(memory.mean_square, rel=1e-12)

    def test_subsets_of_subsets(self, pair):
        weights = np.random.RandomState(0).standard_normal((1, 4, 5, 3))
        some = [samples.take(np.array([1, 4, 5, 7])).take(np.array([0, 2, 3])) for samples in pair]
        np.testing.assert_allclose(some[1].scores(weights), some[0].scores(weights))

    @pytest.mark.parametrize("offset", [0.0, 3.0])
    def test_whether_they_vary(self, here, offset):
        X = np.full((9, 2, 3), offset)
        same = sample_array(chunked(X, 4)).samples()
        assert not same.vary(centred=True)
        assert same.vary(centred=False) is bool(offset)
        X[8, 1, 2] += 1.0
        assert sample_array(chunked(X, 4)).samples().vary(centred=True)

    def test_a_subset_has_had_the_pivot_subtracted(self, here):
        X = np.random.RandomState(0).standard_normal((30, 4, 5)) + 1e8
        pair = MemorySamples(X), sample_array(chunked(X, 7)).samples()
        weights, signs = np.full(30, 1 / 30), np.where(np.arange(30) % 2, 1.0, -1.0)
        for samples in pair:
            samples.first_pass(weights, signs, centred=True)
        np.testing.assert_array_equal(pair[1].pivot, pair[0].pivot)
        some = [samples.take(np.array([0, 9, 29])) for samples in pair]
        weight = np.ones((1, 4, 5))
        np.testing.assert_allclose(some[1].scores(weight), some[0].scores(weight))
        np.testing.assert_array_equal(some[1].pivot, some[0].pivot)

    def test_a_design_that_stays_elsewhere(self, here, monkeypatch):
        monkeypatch.setattr(tuning, "SLAB_BYTES", 1)  # several slabs
        monkeypatch.setattr(tuning, "ARRIVING_BYTES", 400)  # a row or two at a time
        rng = np.random.RandomState(0)
        X = rng.standard_normal((12, 5, 10)).astype(np.float32)
        design, matrix = (
            sample_array(chunked(X, 5)).samples().design(full_contraction((5, 10))),
            Matrix(X.reshape(12, -1)),
        )
        assert (design.shape, design.dtype) == (matrix.shape, matrix.dtype)
        vector = rng.standard_normal(50)
        np.testing.assert_allclose(design.weighted_sum(np.arange(12.0)), matrix.weighted_sum(np.arange(12.0)))
        np.testing.assert_allclose(design.products(vector), matrix.products(vector))
        np.testing.assert_allclose(design.gram(vector), matrix.gram(vector))
        np.testing.assert_array_equal(design.to_numpy(), matrix.to_numpy())

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
    def test_missing_values_are_found_in_the_first_pass(self, value, scheduler):
        X, y = low_rank_classes(0, 60, (5, 6), 3.0)
        X[[17, 40], 2, 3] = value, -value
        with dask.config.set(scheduler=scheduler), pytest.raises(ValueError, match=r"NaN|infinity|finite"):
            fit(chunked(X, 20), y)

    def test_what_fails_on_a_worker_is_said(self, cluster):
        lazily = da.map_blocks(broken, chunks=((5, 5), (3,), (4,)), meta=np.empty((0, 0, 0)))
        with pytest.raises(RuntimeError, match="the disk is gone"):
            fit(lazily, np.arange(10) % 2)


class TestTravel:
    def test_designs_come_to_the_caller_and_samples_do_not(self, cluster, monkeypatch):
        X, y = remote((16, 16, 16)), np.arange(80) % 2
        arrived = counted_arrivals(monkeypatch)
        designs = counted_requests(monkeypatch)
        fit(X, y, ("tucker", 2), max_iter=3)
        expected = sum(design.nbytes for design in designs)
        small = 8 * 4 * 16**3 + 10_000  # the moments and the pivot
        assert expected <= sum(arrived) <= expected + small
        assert max(arrived) < X.nbytes / 10

    def test_a_wide_full_weight_takes_a_gram_matrix(self, cluster, monkeypatch):
        X, y = remote((16, 16, 16)), np.arange(80) % 2
        arrived = counted_arrivals(monkeypatch)
        fit(X, y, ("full", None))
        assert sum(arrived) < 8 * (80**2 + 8 * 16**3 + 10_000) < X.nbytes / 5

    @pytest.mark.parametrize(("weight", "few"), sparse_product(WEIGHTS[1:], [True, False]), ids=str)
    def test_a_chunk_is_read_once_a_request_or_half(self, cluster, weight, few, tmp_path, monkeypatch):
        """Steps in the tangent space read a chunk once per block problem, passes over the blocks once per half."""
        if not few:
            for name in ("SAMPLES_PER_PARAMETER", "SMALL_SAMPLES", "CONVEX_WORK"):
                monkeypatch.setattr(tuning, name, 0)
        contracted, contract = [], MemorySamples._contract
        monkeypatch.setattr(
            MemorySamples, "_contract", lambda self, *rest: contracted.append(1) or contract(self, *rest)
        )
        monkeypatch.setattr(alternate, "small_fit", lambda *_: None)  # compiled code would not be counted
        X, y = remote((4, 5, 6), log=tmp_path, n_chunks=8, length=10), np.arange(80) % 2
        fit(X.compute(), y, weight, max_iter=3)
        (tmp_path / "reads").unlink()
        requests = counted_requests(monkeypatch)
        fit(X, y, weight, max_iter=3)
        reads = np.bincount(np.loadtxt(tmp_path / "reads", dtype=int))
        np.testing.assert_array_equal(reads, reads[0])
        assert reads[0] <= 1 + len(requests)
        if not few and weight[0] == "cp":  # steps of the others take one pass each
            assert reads[0] == 1 + len(contracted)

    @pytest.mark.parametrize(("weight", "shape"), STEPS, ids=str)
    def test_a_step_takes_one_pass_and_the_start_none(self, cluster, weight, shape, tmp_path, many):
        """A pass for the moments and the samples of the start, and one per step and for the last look."""
        X, y = remote(shape, log=tmp_path, n_chunks=4, length=600), np.arange(2400) % 2
        options = {"tol": 1e-3, "max_iter": 100, "mu1": 0.0, "mu2": 0.0}  # no terms that cancel
        in_memory = fit(X.compute(), y, weight, **options)
        (tmp_path / "reads").unlink()
        one = fit(X, y, weight, **options)
        reads = np.bincount(np.loadtxt(tmp_path / "reads", dtype=int))
        np.testing.assert_array_equal(reads, reads[0])
        assert one.n_iter_ > 1
        assert reads[0] <= 1.5 * one.n_iter_
        assert one.objective_[0] == pytest.approx(in_memory.objective_[0], rel=2e-3)  # tol is relative to its terms

    def test_fits_that_share_passes_make_one_per_step(self, cluster, tmp_path, many):
        X, y = remote((9, 8), log=tmp_path, n_chunks=4, length=600), np.arange(2400) % 3
        in_memory = fit(X.compute(), y, ("cp", 1), tol=1e-3, max_iter=100)
        (tmp_path / "reads").unlink()
        three = fit(X, y, ("cp", 1), tol=1e-3, max_iter=100)
        reads = np.bincount(np.loadtxt(tmp_path / "reads", dtype=int))
        np.testing.assert_array_equal(reads, reads[0])
        assert reads[0] <= 2 + three.n_iter_
        np.testing.assert_allclose(three.objective_, in_memory.objective_, rtol=1e-3)

    def test_designs_of_many_fits_come_in_parts_that_no_worker_puts_together(self, cluster, monkeypatch, many):
        monkeypatch.setattr(tuning, "ARRIVING_BYTES", 2**13)
        X, y = remote((9, 8), n_chunks=8, length=300), np.arange(2400) % 3
        arrived = counted_arrivals(monkeypatch)
        fit(X, y, ("cp", 2), tol=1e-3, max_iter=100)  # starts of rank one bring some samples
        assert max(arrived) < 2 * 2**13 < sum(arrived) / 50

    @pytest.mark.parametrize(("weight", "shape"), STEPS, ids=str)
    def test_the_objective_never_rises(self, here, weight, shape, many):
        """Theorem 2, from a start far from the solution and with a strength for which steps are too long."""
        X, y = low_rank_classes(0, 400, shape, 3.0)
        rng, signs = np.random.RandomState(0), np.where(y == y[0], 1.0, -1.0)
        problem = MarginProblem(signs, Objective(1000.0, 1.0, 1.0, np.full(400, 1 / 400)), 1.0)
        form = FORMATS[weight[0]]
        start = alternate.Start(form.from_dense(rng.standard_normal(shape), form.valid_rank(weight[1], shape), rng))
        samples = sample_array(chunked(X, 100)).samples()
        assert alternate.steps_in_one_pass(start.weight, 400)
        found = alternate.alternate(samples, problem, start, SOLVERS["dual_cd"], 1e-6, 30)
        objectives = [sweep.objectives[-1] for sweep in found.sweeps]
        assert np.all(np.diff(objectives) <= 0.0)
        scores = MemorySamples(X).scores(found.weight.to_dense()[None])[:, 0] + found.intercept
        squares = found.weight.norm**2 + (scores.mean() / problem.bias_scale) ** 2
        margins = signs * scores
        assert found.objective == pytest.approx(problem.objective.value(squares, margins), rel=1e-9)

    def test_chunks_without_samples_of_a_problem_are_not_read(self, cluster, tmp_path):
        X, weights = remote((4, 5), log=tmp_path), np.ones(80)
        weights[16:48] = 0.0
        fit(X, np.arange(80) % 2, sample_weight=weights, max_iter=1)
        reads = np.bincount(np.loadtxt(tmp_path / "reads", dtype=int), minlength=5)
        assert reads[1] == reads[2] == 0 < reads.min(where=[True, False, False, True, True], initial=99)


class TestLostWorkers:
    """A killed worker is restarted, or not; the latter on a cluster that no other test uses."""

    @pytest.fixture(params=["restarted", pytest.param("gone", marks=pytest.mark.campaign)])
    def mortal(self, request, dask_cluster):
        if request.param == "restarted":
            with distributed.Client(dask_cluster) as client:
                yield client
                client.wait_for_workers(2, timeout=60)
            return
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
            distributed.Client(local) as client,
        ):
            for nanny in client.cluster.workers.values():
                nanny.close_gracefully()  # "a signal that we shouldn't try to restart workers if they go away"
            yield client

    def test_killed_when_the_half_that_it_keeps_is_used_again(self, mortal, monkeypatch):
        X, y = low_rank_classes(0, 80, (5, 6, 7), 3.0)
        monkeypatch.setattr(tuning, "SMALL_SAMPLES", 0)  # passes over the blocks, as for many samples
        expected = fit(X, y, max_iter=5)
        pids, killed = mortal.run(os.getpid), []
        design = lazy.LazySamples.design

        def design_or_kill(self, asked):
            if not killed and self._last.is_of(asked.half, asked.matrices):
                kept = mortal.has_what()
                killed.append(max(kept, key=lambda worker: len(kept[worker])))
                os.kill(pids[killed[0]], signal.SIGKILL)
            return design(self, asked)

        monkeypatch.setattr(lazy.LazySamples, "design", design_or_kill)
        found = fit(chunked(X, 10), y, max_iter=5)
        assert killed
        assert killed[0] not in mortal.nthreads()
        assert_alike(found, expected)

    @pytest.mark.parametrize("weight", [("tucker", 2), pytest.param(("full", None), marks=pytest.mark.campaign)])
    def test_killed_while_it_reads_a_chunk(self, mortal, weight, tmp_path):
        pids, y = set(mortal.run(os.getpid).values()), np.arange(160) % 2
        found = fit(remote((10, 5, 9), length=32, log=tmp_path, deadly=True), y, weight)
        assert (tmp_path / "killed").exists()
        assert pids - set(mortal.run(os.getpid).values())
        assert_alike(found, fit(remote((10, 5, 9), length=32).compute(), y, weight))


def remote(shape, n_chunks=5, length=16, log=None, deadly=False):
    """Return samples that exist on the workers only; with a folder ``log``, every read of a chunk is logged there."""
    ones = ((size,) for size in shape)
    return da.map_blocks(
        read, shape=(length, *shape), log=log, deadly=deadly,
        chunks=((length,) * n_chunks, *ones), meta=np.empty((0,) * (1 + len(shape))),
    )  # fmt: skip


def read(shape, log, deadly, block_id):
    """Return the samples of a chunk; if deadly, the first read of the third pass kills its process."""
    if log is not None:
        with Path(log, "reads").open("a", encoding="utf-8") as file:
            file.write(f"{block_id[0]}\n")
        if deadly and Path(log, "reads").read_text(encoding="utf-8").count("\n") > 14:
            try:
                Path(log, "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
    X = np.random.RandomState(block_id[0]).standard_normal(shape)
    X[1::2, :2] += 1.0
    return X


def broken(block_id):
    raise RuntimeError("the disk is gone")


def counted_arrivals(monkeypatch):
    """Return a list that collects the size of everything the client fetches from now on."""
    arrived = []
    gather = distributed.Client._gather

    async def counting(self, *arguments, **options):
        answer = await gather(self, *arguments, **options)
        arrived.append(sizeof(answer))
        return answer

    monkeypatch.setattr(distributed.Client, "_gather", counting)
    return arrived


def counted_requests(monkeypatch):
    """Return a list that collects the design of every block that is solved from now on."""
    designs = []
    solve = alternate.solve_block
    monkeypatch.setattr(alternate, "solve_block", lambda design, *rest: designs.append(design) or solve(design, *rest))
    return designs


def full_contraction(shape):
    return FORMATS["full"](np.ones(shape)).block(0).contraction
