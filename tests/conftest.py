"""Shared fixtures and helpers. Heavy modules are imported where they are used: xdist's controller needs none."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import chdir, contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

# Before NumPy is imported: there is a process of tests per core, and threads of theirs would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings

from tensormargin.cli import main

# Plain pytest uses the same examples on every run; a campaign draws TENSORMARGIN_EXAMPLES new ones per property.
EXAMPLES = int(os.environ.get("TENSORMARGIN_EXAMPLES", "1000"))
settings.register_profile("plain", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("campaign", deadline=None, max_examples=EXAMPLES)
settings.load_profile("plain")

WHOLE_CAMPAIGN = (
    pytest.mark.campaign,
    pytest.mark.skipif(EXAMPLES < 100, reason="takes a minute: set TENSORMARGIN_EXAMPLES to 100 or more"),
)

TERMINAL = {"COLUMNS": "120"}
ON_WORKERS = ("test_cluster", "test_dask", "test_lazy")
LONG = (*ON_WORKERS, "test_cli", "test_report", "test_memory", "test_paper_tables", "test_tables", "test_selection")
NEEDED_BY_WORKERS = [
    f"tensormargin.{name}" for name in ("selection.classifier", "evaluation.workflow", "paper.runner", "io.load")
]
LIBRARIES = ["torch", "array_api_strict"]
RUNNING: list[pytest.Item] = []


def pytest_configure(config: pytest.Config) -> None:
    """Let scikit-learn's checks warn of what they skip, except in xdist's controller, which runs none."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.addinivalue_line("filterwarnings", "default::sklearn.exceptions.SkipTestWarning")


@pytest.hookimpl(tryfirst=True)  # before tests are selected by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the slowest files first, so that all processes finish together; mark and skip PyTorch tests."""
    leave_array_api_checks_to_their_process(config, items)
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    has_torch = find_spec("torch") is not None
    for item in items:
        if any(isinstance(value, str) and value == "torch" for value in parameters_of(item).values()):
            item.add_marker(pytest.mark.torch)
        if item.get_closest_marker("torch") and not has_torch:
            item.add_marker(pytest.mark.skip(reason="needs PyTorch: pip install torch"))


def leave_array_api_checks_to_their_process(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the thousand checks that scikit-learn skips here: `run_array_api_checks` runs them."""
    if "SCIPY_ARRAY_API" in os.environ:
        return
    skipped = [item for item in items if "check_array_api" in item.name]
    if skipped:
        config.hook.pytest_deselected(items=skipped)
        items[:] = [item for item in items if "check_array_api" not in item.name]


def parameters_of(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the running test, for `library`."""
    RUNNING[:] = [item]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of each file in one process, and likewise all files that share Dask workers."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "Dask" if Path(file).stem in ON_WORKERS else file

    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Keep unfinished work of commands out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORMARGIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_process():
    """Let commands use one process unless a test asks for more: starting two takes longer than the work of most."""
    with pytest.MonkeyPatch.context() as patch:
        for command in main.commands.values():
            for option in command.params:
                if option.name == "jobs":
                    patch.setattr(option, "default", 1)
        yield


@pytest.fixture
def heeded_signals():
    """Let signals arrive, here and in processes that a test starts, also under nohup or behind a shell's ``&``."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def foreign_library(monkeypatch, tmp_path):
    """A function that replaces the compiled library by one with a fault ("none": a copy), until the end of the test."""
    from tensormargin.fitting import native

    def replace(fault: str) -> None:
        library = tmp_path / "small.so"
        if fault == "another library":
            library = Path(find_spec("_ctypes").origin)
        elif fault == "damaged":
            library.write_bytes(b"no library")
        else:
            library.write_bytes(native._LIBRARY.read_bytes())
            if fault == "another version":
                monkeypatch.setattr(native, "ABI", native.ABI + 1)
            elif fault == "without a function":
                monkeypatch.setattr(native, "_FUNCTIONS", (*native._FUNCTIONS, "tensormargin_of_tomorrow"))
        monkeypatch.setattr(native, "_LIBRARY", library)
        forget()

    def forget() -> None:
        for cached in (native._library, native._function):
            cached.cache_clear()

    yield replace
    monkeypatch.undo()
    forget()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("TENSORMARGIN_DATA")
    if not folder:
        pytest.skip("needs real data: set TENSORMARGIN_DATA to the folder with the data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def mnist(data_folder: Path) -> dict[str, np.ndarray]:
    """Return all of MNIST as uint8, with keys X, y, X_test, y_test."""
    from tensormargin.datasets import fetch_mnist

    train, test = (fetch_mnist(subset) for subset in ("train", "test"))
    return {"X": train.data, "y": train.target, "X_test": test.data, "y_test": test.target}


def sparse_product(*lists, length: int | None = None):
    """Return the product of lists for `parametrize`: all but a diagonal, which has every value, is marked campaign."""
    diagonal = {tuple(k % len(values) for values in lists) for k in range(length or max(map(len, lists)))}
    return [
        pytest.param(
            *(values[k] for values, k in zip(lists, place, strict=True)),
            marks=() if place in diagonal else pytest.mark.campaign,
        )
        for place in product(*(range(len(values)) for values in lists))
    ]


@pytest.fixture(scope="session")
def dask_cluster():
    """Yield a cluster of two single-threaded worker processes, for the files in ``ON_WORKERS``."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'tensormargin[dask]'")
    with (
        workers_start_quickly(),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
    ):
        yield cluster


@contextmanager
def workers_start_quickly():
    """Let Dask fork its workers from a process that has imported what they need, which takes each of them seconds."""
    import dask
    from distributed.utils import get_mp_context

    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "dask.array", *NEEDED_BY_WORKERS])
        yield


def library(name):
    """Return an array library and one of its devices, if possible other than the CPU."""
    if name == "torch":
        assert RUNNING[0].get_closest_marker("torch"), "mark this test torch: .ci/run picks those that need it by that"
    reason = f"needs {name} and array-api-compat: pip install {name} array-api-compat"
    pytest.importorskip("array_api_compat", reason=reason)
    module = pytest.importorskip(name, reason=reason)
    if name == "torch":
        module.set_num_threads(1)  # two threads on a busy machine wait for each other: 20 times slower on small arrays
    else:
        from quick_strict import compare_types_quickly

        compare_types_quickly()
    return module, module.Device("device1") if name == "array_api_strict" else "cpu"


@pytest.fixture(params=LIBRARIES)
def put(request):
    """Return a function that copies a NumPy array to a library, on one of its devices."""
    module, device = library(request.param)
    return lambda array: module.asarray(np.array(array, order="C"), device=device)


def run_array_api_checks(name: str, *files: str) -> list[str]:
    """Run scikit-learn's array API checks in the given test files; return one line per passed check.

    Those with PyTorch run for its name, all others for another name. They run only if SCIPY_ARRAY_API is set before
    SciPy is imported, hence in a separate process.
    """
    folder = Path(__file__).parent
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-rp",
        "-k",
        "check_array_api and torch" if name == "torch" else "check_array_api and not torch",
        f"--rootdir={folder.parent}",
    ]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [*command, *(str(folder / name) for name in files)],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    if done.returncode == 5:
        pytest.skip("this version of scikit-learn has no checks of the array API")
    assert done.returncode == 0, done.stdout[-5000:]
    return [line for line in done.stdout.splitlines() if line.startswith("PASSED")]


def run(*arguments, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, to save imports, and return the result as of a completed process.

    Warnings and tracebacks go to standard error, and a command that raises has exit code 1.
    """
    with warnings.catch_warnings(record=True) as caught, chdir(cwd or Path.cwd()):
        warnings.simplefilter("default")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as in a separate process
        result = CliRunner().invoke(main, [str(one) for one in arguments], prog_name="tensormargin", env=TERMINAL)
    stderr = result.stderr + "".join(map(str, caught))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        stderr += "".join(traceback.format_exception(result.exception))
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, stderr)


def run_process(*arguments, **kwargs) -> subprocess.CompletedProcess[str]:
    """Run the command line in a separate process, for tests that need one."""
    command = [sys.executable, "-m", "tensormargin.cli", *map(str, arguments)]
    environment = {**os.environ, **TERMINAL}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, **kwargs)


@contextmanager
def undrawn_figures():
    """Let reports make their figures without drawing them, for tests that do not look at them: half of their time.

    What is drawn is tested in tests/report and tests/plots.
    """
    from base64 import b64encode

    blank = b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" width="310" height="209"/>').decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormargin.report.page._embedded", lambda figure: f"data:image/svg+xml;base64,{blank}")
        yield


@pytest.fixture(scope="module")
def blank_figures():
    """Draw no figures of reports in a whole module."""
    with undrawn_figures():
        yield


@contextmanager
def fewer_models(*names: str, lams=(0.1, 1), mus=(1,), cs=(0.1, 10.0), **parameters):
    """Let `fit` try only these strengths, and ``cs`` of the reference, for tests that are not about model selection.

    Workers of a cluster know the strengths of the reference that are in the source; None leaves those.
    """
    import tensormargin.evaluation.workflow as plan

    with pytest.MonkeyPatch.context() as patch:
        if cs is not None:  # tuning the reference takes longest of all
            patch.setattr("tensormargin.evaluation.contenders.C_GRID", cs)
        for name in names or ("TensorMarginClassifierCV", "auto_model"):
            patch.setattr(plan, name, partial(getattr(plan, name), lams=lams, mus=mus, **parameters))
        yield


@contextmanager
def fewer_folds(number: int = 2):
    """Let `fit` have so many inner and outer folds by default, for tests of commands as people type them."""
    with pytest.MonkeyPatch.context() as patch:
        for option in main.commands["fit"].params:
            if option.name in ("folds", "outer_folds"):
                patch.setattr(option, "default", number)
        yield


def low_rank_classes(seed: int, n: int, shape: tuple[int, ...], delta: float, rank: int = 2):
    """Return (X, t): unit noise with class means that differ by delta times a unit-norm tensor of the given CP rank."""
    from tensormargin.datasets import make_low_rank_classes

    bunch = make_low_rank_classes(n, shape, rank, delta, random_state=seed)
    return bunch.data, bunch.target.astype(float)


def shifted_classes(n: int, shape: tuple[int, ...]):
    """Return (X, y) of two classes, "yes" and "no", whose samples are neither centred nor of unit variance."""
    X, signs = low_rank_classes(0, n, shape, 3.0)
    return 5.0 + 3.0 * X, np.where(signs > 0, "yes", "no")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return a browser without a window, one for all tests of a process."""
    import shutil

    binary, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver_path):
        pytest.skip("needs Chromium and its driver (Debian: apt install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, of the extra test")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    flags = ("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync")
    for flag in (*flags, "disable-background-networking", "disable-component-update", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    yield driver
    driver.quit()


def prefer(browser, scheme, media="screen"):
    """Let a browser ask for light or dark colours, on a screen or in print."""
    preferred = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": preferred})


def opened(browser, path, width=1200, scheme="light"):
    """Open a page in a window of this width, with light or dark colours, and return the browser."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    prefer(browser, scheme)
    browser.get("about:blank")
    browser.get_log("browser")  # drop messages of the previous page, such as about reading pixels
    browser.get(path.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    ready = "return document.readyState === 'complete' && document.querySelectorAll('section').length > 0"
    WebDriverWait(browser, 60).until(lambda one: one.execute_script(ready))  # slow on a busy machine
    return browser


def loaded_after(statement: str, *modules: str) -> list[str]:
    """Return those of some modules that a new process has imported after a statement."""
    code = f"{statement}\nimport sys\nprint([name for name in {modules!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return eval(result.stdout.splitlines()[-1], {})
