"""Tests of fits on a Dask cluster: same results as on one machine, samples sent once, helpful errors."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from conftest import fewer_models, low_rank_classes, run, workers_start_quickly
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError
from distributed.comm.tcp import TCP
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from tensormargin import (
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    __version__,
    nested_evaluation,
    on_cluster,
    permutation_test,
)
from tensormargin.evaluation import CompareSettings, compare
from tensormargin.paper import Evaluation, Grid, Run, RunSettings
from tensormargin.paper.protocols import stratified_fold
from tensormargin.runtime import cluster_backend as backend
from tensormargin.runtime import dask_waits as waiting
from tensormargin.runtime import goes_to_cluster, take, tuning
from tensormargin.runtime.cluster_backend import ClusterBackend, WorkerCall
from tensormargin.runtime.dask_waits import LostWorkersError

DEAD = "tcp://127.0.0.1:9"  # no service listens on this port


@pytest.fixture(scope="module")
def cluster(dask_cluster):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_cluster.scheduler, "allowed_failures", 0)  # one dead worker is enough
        yield dask_cluster


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address


@pytest.fixture
def jobs(monkeypatch):
    """Return a set that collects the names of all functions sent to the workers."""
    names = set()
    submit = ClusterBackend.submit

    def noted(self, func, callback):
        names.update(function.__name__ for function, _, _ in func.items)
        return submit(self, func, callback)

    monkeypatch.setattr(ClusterBackend, "submit", noted)
    return names


def three_classes(n=36, shape=(4, 3)):
    X, t = low_rank_classes(0, n, shape, 4.0)
    y = np.where(t > 0, 1, np.arange(n) // 2 % 2 * 2)
    X[y == 2] -= 1.0
    return X, y


# -------------------------------------------------------------------------------------------------------- same results


def one_vs_one(X, y):
    clf = TensorMarginClassifier("cp", 2).fit(X, y)
    return clf.coef_, clf.intercept_, clf.objective_


def search(X, y, **parameters):
    settings = {"ranks": (1,), "lams": (0.1, 1), "mus": (1,), "cv": 2, "random_state": 0, **parameters}
    return TensorMarginClassifierCV(("cp",), **settings).fit(X, y)


def choice(X, y):
    fitted = search(X, y, preparation=[None, TensorScaler()])
    return fitted.cv_results_["mean_test_score"], fitted.best_index_, fitted.calibration_, fitted.predict_proba(X)


def nested(X, y):
    model = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(0.1, 1), mus=(1,), cv=2, random_state=0)
    evaluation = nested_evaluation(model, X, y, cv=2)
    return evaluation.predicted, evaluation.confidence, evaluation.reference_predicted


def chance(X, y):
    test = permutation_test(TensorMarginClassifier("cp", 1), X, y, cv=2, n_permutations=4, random_state=0)
    return test.score, test.permuted, test.p_value


def comparison(X, y):
    settings = CompareSettings(methods=("SVM", "STM", "LinearSVC"), repeats=2, lam_grid=(1.0, 10.0))
    rows = sorted(compare(X, y, settings), key=lambda row: (row.method, row.repeat))
    return [[value for name, value in vars(row).items() if name != "fit_seconds"] for row in rows]


@pytest.mark.parametrize(
    ("work", "functions"),
    [
        (one_vs_one, {"fit_in_memory"}),
        (choice, {"run_job", "fit_in_memory"}),
        (nested, {"run_job", "fit_in_memory", "_scores_on_split"}),
        (chance, {"_score"}),
        (comparison, {"_fold_scores", "_row"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_workers_give_the_answers_of_this_machine(address, jobs, work, functions):
    X, y = three_classes()
    here = work(X, y)
    with on_cluster(address, X):
        there = work(X, y)
    assert jobs == functions
    assert_alike(here, there)


def assert_alike(here, there):
    if isinstance(here, list | tuple):
        for one, other in zip(here, there, strict=True):
            assert_alike(one, other)
    elif here is None or isinstance(here, str):
        assert here == there
    else:
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


def loaded_only_in(process):
    if os.getpid() != process:
        raise RuntimeError("a worker of a cluster need not have the data")
    X, y = three_classes(60)
    return Bunch(data=X, target=y)


def test_a_table_of_the_paper_on_workers_without_the_data(address, jobs, tmp_path):
    evaluation = Evaluation(
        data="three",
        load=partial(loaded_only_in, os.getpid()),
        split=stratified_fold,
        sizes=(30,),
        repeats=1,
        folds=2,
        grid=Grid(lams=(10.0, 1000.0), relative=True),
    )
    rows = []
    for folder in ("here", "there"):
        run = Run([evaluation], RunSettings("open", methods=("SVM", "STM")), tmp_path / folder)
        if folder == "here":
            states = list(run.go())
        else:
            with on_cluster(address, *run.data_sets()):
                states = list(run.go())
        assert states[-1].rows == states[-1].all_rows == 12
        rows.append([{**asdict(row), "fit_seconds": 0, "predict_seconds": 0} for row in run.wanted_rows()])
    assert rows[0] == rows[1]
    assert jobs == {"run_job"}


# --------------------------------------------------------------------------------------------- samples are sent once


class Traffic:
    """Bytes sent by the client and the scheduler, both in this process, and by the workers.

    Only messages large enough to hold samples count: the number of small ones depends on timing.
    """

    SMALL = 2**17

    def __init__(self, monkeypatch, client):
        self.client, self.here = client, 0
        self.between_before = self._between()
        write = TCP.write

        async def counted(comm, *arguments, **named):
            written = await write(comm, *arguments, **named)
            self.here += written if written > self.SMALL else 0
            return written

        monkeypatch.setattr(TCP, "write", counted)

    def _between(self):
        return sum(self.client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())

    def between(self):
        return self._between() - self.between_before


def test_samples_are_sent_to_each_worker_once(cluster, monkeypatch, tmp_path):
    X, t = low_rank_classes(0, 60, (100, 80), 8.0)
    y = t > 0
    np.save(tmp_path / "samples.npy", X)
    X = np.load(tmp_path / "samples.npy", mmap_mode="r")  # validation returns another object that shares the memory
    with Client(cluster) as client:
        traffic = Traffic(monkeypatch, client)
        with on_cluster(client, X):
            one_copy = X.nbytes
            assert 2 * one_copy <= traffic.here < 2.1 * one_copy  # to the scheduler, from there to one worker,
            assert one_copy <= traffic.between() < 1.1 * one_copy  # and from there to the other
            search(X, y)
            client.amm.run_once()  # Dask's memory manager drops copies that no job needs
            time.sleep(0.2)
            permutation_test(TensorMarginClassifier("cp", 1), X, y, cv=2, n_permutations=4)
            model = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(1,), cv=2)
            nested_evaluation(model, X, y, cv=2)
            assert traffic.here < 2.1 * one_copy
            assert traffic.between() < 1.1 * one_copy
            held = client.run(
                lambda dask_worker: sum(np.shape(one) == (60, 100, 80) for one in dask_worker.data.values())
            )
            assert list(held.values()) == [1, 1]
        assert_forgotten(client)
        traffic.here = 0
        with on_cluster(client):
            search(X, y)  # three steps
            assert 2 * one_copy <= traffic.here < 2.1 * one_copy
        assert_forgotten(client)


def assert_forgotten(client):
    """Check that the workers free everything soon after the end of the context."""
    deadline = time.monotonic() + 5
    while any(client.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.has_what().values())


def total_and_place(part, other):
    return part.sum(), os.getpid(), other


def test_a_part_is_taken_on_the_worker(cluster, monkeypatch):
    X = np.random.RandomState(0).standard_normal((50, 40, 40))
    rows = np.arange(0, 50, 2)
    with Client(cluster) as client, on_cluster(client, X):
        part = take(X, rows)
        traffic = Traffic(monkeypatch, client)
        answers = Parallel()(delayed(total_and_place)(one, None) for one in [part] * 4)
        assert part.nbytes > 2 * Traffic.SMALL
        assert traffic.here == 0
        assert {total for total, _, _ in answers} == {X[rows].sum()}
        assert os.getpid() not in {process for _, process, _ in answers}
        assert {other for _, _, other in answers} == {None}
        del part
        other = take(np.ones((3, 2)), rows[:1])  # from an array that the workers do not have
        assert [total for total, _, _ in Parallel()(delayed(total_and_place)(other, k) for k in range(2))] == [2.0, 2.0]
    assert np.array_equal(take(X, rows), X[rows])


def test_threads_of_a_worker_share_a_part():
    whole, barrier = np.arange(12.0).reshape(6, 2), threading.Barrier(2)
    kept = []

    def keep(part):
        kept.append(part)
        barrier.wait(5)

    threads = [threading.Thread(target=WorkerCall(keep, (0,)), args=(whole, np.array([1, 4]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept[0] is kept[1]
    assert np.array_equal(kept[0], whole[[1, 4]])


# ------------------------------------------------------------------------------------------------------- where jobs run


def place(number=0):
    return os.getpid(), threading.get_ident()


def places_inside(number):
    return goes_to_cluster(), set(Parallel(n_jobs=4)(delayed(place)(k) for k in range(4))), place()


def test_jobs_inside_of_jobs_stay_on_their_thread(address):
    with on_cluster(address):
        for on, inside, own in Parallel()(delayed(places_inside)(k) for k in range(6)):
            assert not on
            assert inside == {own}


def test_all_workers_or_this_process(address):
    with on_cluster(address):
        assert goes_to_cluster()
        assert os.getpid() not in {process for process, _ in Parallel(n_jobs=2)(delayed(place)(k) for k in range(6))}
        assert Parallel(n_jobs=1)(delayed(place)(k) for k in range(2)) == [place()] * 2
    assert not goes_to_cluster()
    assert Parallel()(delayed(place)(k) for k in range(2)) == [place()] * 2


def test_a_scheduler_by_file_or_client(cluster, tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster.scheduler_address}))
    for given in (file, str(file)):
        with on_cluster(given) as own:
            assert own.scheduler.address == cluster.scheduler_address
        assert own.status == "closed"
    with Client(cluster) as client:
        with on_cluster(client) as same:
            assert same is client
        assert client.status == "running"


# ----------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("scheduler", "kind", "words"),
    [
        (DEAD, ConnectionError, rf"no Dask scheduler answers at {DEAD} .* `dask scheduler`"),
        ("http://127.0.0.1:9", ValueError, "address such as tcp://10.0.0.1:8786, .* got 'http:"),
        ("nowhere", ValueError, r"address such as tcp://10.0.0.1:8786, or the file .* got 'nowhere'"),
        (__file__, ValueError, "names no address"),
    ],
    ids=["dead", "scheme", "words", "file"],
)
def test_what_is_no_scheduler(scheduler, kind, words):
    began = time.monotonic()
    with pytest.raises(kind, match=words), on_cluster(scheduler, timeout=0.5):
        pass
    assert time.monotonic() - began < 5


def test_a_scheduler_without_workers():
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(ConnectionError, match=r"has no workers after 0.2 s; start some with `dask worker tcp:"),
        on_cluster(empty.scheduler_address, timeout=0.2),
    ):
        pass


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (None, ImportError, rf"cannot be imported by worker tcp.* pip install 'tensormargin\[dask\]=={__version__}'"),
        ("0.0.1", ValueError, rf"that is here, {__version__}; got 0.0.1 on worker tcp.*, 0.0.1 on worker"),
    ],
    ids=["none", "other"],
)
def test_workers_need_the_same_library(cluster, found, kind, words):
    def pretend(version):
        import sys
        import types

        sys.kept = sys.modules.get("tensormargin")
        sys.modules["tensormargin"] = None if version is None else types.SimpleNamespace(__version__=version)

    def undo():
        import sys

        sys.modules["tensormargin"] = sys.kept
        if sys.kept is None:
            del sys.modules["tensormargin"]
        del sys.kept

    with Client(cluster) as client:
        client.run(pretend, found)
        try:
            with pytest.raises(kind, match=words), on_cluster(client):
                pass
        finally:
            client.run(undo)


def test_a_job_that_cannot_be_pickled_is_an_error(address):
    X, y = three_classes()
    lock = threading.Lock()

    def scoring(model, X, y):
        with lock:
            return model.score(X, y)

    with on_cluster(address, X), pytest.raises(TypeError, match=r"must be picklable; run_job .*scoring"):
        search(X, y, scoring=scoring)


def test_a_job_that_raises(address):
    with on_cluster(address), pytest.raises(ZeroDivisionError):
        list(Parallel(return_as="generator_unordered")(delayed(divmod)(1, k) for k in (1, 0)))


def die(number):
    os._exit(1)


def test_a_worker_that_dies_is_an_error(cluster, address):
    with on_cluster(address), pytest.raises(LostWorkersError, match=r"lost a job: .* memory runs out"):
        list(Parallel(return_as="generator_unordered")(delayed(die)(k) for k in range(1)))
    with Client(cluster) as client:  # its nanny starts another worker
        client.wait_for_workers(2, timeout=30)


@pytest.mark.parametrize("error", [CommClosedError("Stream is closed"), KeyError("tcp://its-address")], ids=str)
@pytest.mark.parametrize("failures", [1, 20, None])
def test_a_worker_that_dies_while_arguments_are_sent(address, failures, error, monkeypatch):
    """One death may fail any number of attempts, until the scheduler knows of it."""
    scatter, calls = Client._scatter, []

    async def failing(self, *arguments, **named):
        calls.append(1)
        if failures is None or len(calls) <= failures:
            raise error
        return await scatter(self, *arguments, **named)

    large = np.ones(1000)
    monkeypatch.setattr(backend, "_PAUSE", 0.001)
    with on_cluster(address):
        monkeypatch.setattr(Client, "_scatter", failing)
        if failures is None:
            monkeypatch.setattr(waiting, "PATIENCE", 0.1)
        jobs = Parallel(return_as="generator_unordered")(delayed(np.sum)(large) for _ in range(2))
        if failures is None:
            with pytest.raises(LostWorkersError, match=str(error)):
                list(jobs)
        else:
            assert list(jobs) == [1000.0] * 2


@pytest.mark.parametrize("error", [CommClosedError("Stream is closed"), KeyError("tcp://its-address")], ids=str)
def test_a_worker_that_dies_while_samples_are_sent(address, error, monkeypatch):
    scatter, calls = Client._scatter, []

    async def failing(self, *arguments, **named):
        calls.append(1)
        if len(calls) <= 5:
            raise error
        return await scatter(self, *arguments, **named)

    monkeypatch.setattr(backend, "_PAUSE", 0.001)
    monkeypatch.setattr(Client, "_scatter", failing)
    X = np.ones((100, 20))
    with on_cluster(address, X):
        assert Parallel()(delayed(np.sum)(X) for _ in range(2)) == [2000.0] * 2


def test_jobs_do_not_wait_forever_for_workers(address, monkeypatch):
    async def none(self):
        return 0

    with on_cluster(address):
        monkeypatch.setattr(waiting, "PATIENCE", 0.1)
        monkeypatch.setattr(waiting, "LOOK", 0.02)
        monkeypatch.setattr(ClusterBackend, "_number_of_workers", none)
        began = time.monotonic()
        with pytest.raises(LostWorkersError, match=r"had no worker for 0.1 s"):
            Parallel()(delayed(time.sleep)(3.0) for _ in range(2))
        assert time.monotonic() - began < 2.5


def test_a_call_without_workers(address, monkeypatch):
    def no_answer(self, n_jobs):
        raise TimeoutError

    monkeypatch.setattr("joblib._dask.DaskDistributedBackend.effective_n_jobs", no_answer)
    with on_cluster(address), pytest.raises(LostWorkersError, match=r"had no worker for 60 s"):
        Parallel()(delayed(place)(k) for k in range(2))


def test_a_worker_that_dies_while_it_is_asked_for_its_version(address, monkeypatch):
    run = Client.run

    def with_a_dead_one(self, *arguments, **named):
        return {**run(self, *arguments, **named), "tcp://dead": CommClosedError("Stream is closed")}

    monkeypatch.setattr(Client, "run", with_a_dead_one)
    with on_cluster(address):
        assert len(Parallel()(delayed(place)(k) for k in range(2))) == 2


def die_at_first(X, number, folder, deaths):
    """Return the number, after as many processes have died of the third job as given."""
    if number == 2 and len(list(folder.iterdir())) < deaths:
        (folder / str(len(list(folder.iterdir())))).touch()
        os._exit(1)
    return number + 0 * X.sum()


@pytest.mark.parametrize("deaths", [1, pytest.param(4, marks=pytest.mark.campaign)])
def test_the_death_of_the_last_worker_does_not_end_the_run(tmp_path, deaths):
    """It has the only copy of the samples, which are sent again. The fourth death of one job ends the run."""
    X = np.ones((100, 20))
    with (
        workers_start_quickly(),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as alone,
        on_cluster(alone, X),
    ):
        jobs = (delayed(die_at_first)(X, k, tmp_path, deaths) for k in range(4))
        parallel = Parallel(return_as="generator_unordered", batch_size=1)
        if deaths == 4:
            with pytest.raises(LostWorkersError, match="lost a job"):
                list(parallel(jobs))
        else:
            assert sorted(parallel(jobs)) == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == deaths


def test_a_cluster_in_this_process_leaves_dask_as_it_was():
    """A client that a worker opens would stay Dask's default scheduler after its end, and break all that follows."""
    before = dask.config.get("scheduler", None)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as inside, on_cluster(inside):
        answers = Parallel()(delayed(total_and_place)(np.ones(2), k) for k in range(2))
    assert [total for total, _, _ in answers] == [2.0, 2.0]
    assert dask.config.get("scheduler", None) == before
    assert da.ones(3).sum().compute() == 3


# ------------------------------------------------------------------------------------------------------ command line


@pytest.fixture
def archive(tmp_path):
    X, y = low_rank_classes(0, 24, (5, 4), 4.0)
    np.savez(tmp_path / "samples.npz", X=X, y=y)
    return tmp_path / "samples.npz"


def here_and_there(address, *command):
    """Return the output of a command without and with the cluster."""
    here, there = run(*command, "--jobs", 1, "--json"), run(*command, "--scheduler", address, "--json")
    assert here.returncode == there.returncode == 0, (here.stderr, there.stderr)
    return json.loads(here.stdout), json.loads(there.stdout)


def refused(*arguments):
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    return " ".join(result.stderr.split())


def test_fit_on_a_cluster(archive, address, tmp_path):
    options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2)
    with fewer_models(lams=(1,), cs=None):
        said = here_and_there(address, "fit", archive, "-o", tmp_path / "model.skops", "--no-report", *options)
    for one in said:
        for fold in one["evaluation"]["folds"]:
            del fold["seconds"]
    assert said[0] == said[1]


@pytest.mark.campaign
def test_fit_samples_that_stay_in_their_files_on_a_cluster(address, tmp_path, monkeypatch):
    """Workers read the chunks, for the evaluation, the search, the report and the search for copies."""
    monkeypatch.setattr(tuning, "LOADED_SHARE", 0.0)
    X, y = low_rank_classes(0, 40, (5, 4), 4.0)
    X[7] = X[3]
    group = zarr.open_group(tmp_path / "big.zarr", mode="w")
    group.create_array("X", data=X, chunks=(10, 5, 4))
    group.create_array("y", data=y)
    options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2)
    with fewer_models(cs=None, max_iter=3):
        here, there = here_and_there(address, "fit", tmp_path / "big.zarr", "-o", tmp_path / "model.skops", *options)
    assert "1 of 40 samples are exact copies" in there["data"]["warnings"][0]
    assert here["data"] == there["data"]
    assert here["search"]["best"] == there["search"]["best"]
    assert here["evaluation"]["accuracy"] == there["evaluation"]["accuracy"]


def test_dask_computes_on_the_cluster(address):
    def place(block):
        return np.full(len(block), os.getpid())

    with on_cluster(address):
        found = da.zeros(4, chunks=1).map_blocks(place, dtype=int).compute()
    assert os.getpid() not in found


def test_compare_on_a_cluster(archive, address):
    said = here_and_there(address, "compare", archive, "--methods", "SVM,STM", "--repeats", 2, "--folds", 2)
    here, there = ([{**row, "fit_seconds": 0.0} for row in one["rows"]] for one in said)
    assert [list(one) for one in here] == [list(one) for one in there]
    assert_alike([list(one.values()) for one in here], [list(one.values()) for one in there])


def test_the_command_line_says_what_is_wrong(archive, address, tmp_path):
    assert "address such as tcp:" in refused("compare", archive, "--scheduler", "http://127.0.0.1:9")
    assert "no address, and there is no such file" in refused("compare", archive, "--scheduler", "nowhere")
    model = tmp_path / "m.skops"
    assert "give one" in refused("fit", archive, "-o", model, "--jobs", "2", "--scheduler", address)
    assert not model.exists()


# ----------------------------------------------------------------------------------------------------- without Dask


def test_without_dask_it_says_which_extra_to_install(archive, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "tensormargin.runtime.cluster_backend")
    with pytest.raises(ImportError, match=r"needs Dask .*: pip install 'tensormargin\[dask\]'"), on_cluster(DEAD):
        pass
    assert "pip install 'tensormargin[dask]'" in refused("compare", archive, "--scheduler", DEAD)
