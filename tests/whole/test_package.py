"""Tests of the installed package: lazy imports and types."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from conftest import loaded_after
from sklearn.pipeline import make_pipeline

import tensormargin
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, save_model

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD_SYSTEM = PYPROJECT["project"], PYPROJECT["build-system"]


def test_every_public_name_is_there():
    for name in tensormargin.__all__:
        assert getattr(tensormargin, name) is not None
    assert set(tensormargin.__all__) <= set(dir(tensormargin))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tensormargin.nonsense


def test_the_version_is_that_of_the_installation():
    assert tensormargin.__version__ == version("tensormargin")


def test_the_citation_is_complete_and_of_this_version():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which Dask installs")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors", "license", "version"} <= set(citation)
    assert citation["version"] == tensormargin.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["date-released"].isoformat() >= "2026-11"
    for one in (citation, *citation["references"]):
        assert one["title"]
        assert all({"name", "family-names"} & set(author) for author in one["authors"])


def test_the_recipe_for_conda_has_the_version_and_the_dependencies_of_the_project():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which Dask installs")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == tensormargin.__version__
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"], f"python{PROJECT['requires-python']}"]
    run = [line.replace(" ", "").replace("matplotlib-base", "matplotlib") for line in recipe["requirements"]["run"]]
    assert sorted(run) == sorted(needed)
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    host = [line.replace(" ", "") for line in recipe["requirements"]["host"]]
    assert sorted(host) == sorted([*BUILD_SYSTEM["requires"], "pip", f"python{PROJECT['requires-python']}"])
    about = recipe["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert all((ROOT / name).is_file() for name in (about["license_file"], *PROJECT["license-files"]))
    assert (ROOT / "conda" / recipe["source"]["path"]).resolve() == ROOT
    assert ["tensormargin doctor", "tensormargin compare"] in [test.get("script") for test in recipe["tests"]]


def test_the_container_copies_what_a_wheel_is_made_of_and_runs_as_a_user():
    """`.ci/packages` makes the wheel from these files, by the same command."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert copied == {"pyproject.toml", "hatch_build.py", "src", PROJECT["readme"], *PROJECT["license-files"]}
    versions = {line.split()[1] for line in lines if line.startswith("FROM ")}
    assert len(versions) == 1
    python = re.match(r"python:(3\.\d+)-slim", versions.pop())[1]
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    extras = {name for line in lines for name in re.findall(r"\.whl\)\[(\w+)\]", line)}
    assert extras == {"all"} <= set(PROJECT["optional-dependencies"])
    assert lines.index("USER user") < lines.index("RUN tensormargin doctor")
    assert 'ENTRYPOINT ["tensormargin"]' in lines


def test_the_lowest_python_is_declared_once():
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert versions == [f"3.{minor}" for minor in range(11, 15)]


def test_every_dependency_has_a_lowest_version():
    """`.ci/lowest-versions` tries them."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]
    assert [line for line in lines if ">=" not in line and not line.startswith("tensormargin[")] == []


def test_the_changelog_has_the_usual_form():
    titles = re.findall(r"^(##+) (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0][0] == "##"
    assert titles[0][1] == "Unreleased" or titles[0][1].split()[0] == tensormargin.__version__
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {title for level, title in titles if level == "###"} <= kinds


def test_types_are_published():
    assert files("tensormargin").joinpath("py.typed").is_file()


def test_the_command_line_starts_without_the_heavy_imports():
    statement = "from tensormargin.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_after(statement, "numpy", "sklearn", "numba", "tensorly", "rich") == []


_SAVES = """
import sys
from tensormargin import TensorMarginClassifier
assert not {{"numba", "tensorly", "matplotlib"}} & set(sys.modules), "needed later, if at all"
import numpy as np
from sklearn.pipeline import make_pipeline
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, save_model
X, y = np.random.default_rng(0).standard_normal((12, 4, 3)), np.arange(12) % 2
save_model({path!r}, {model}.fit(X, y))
"""


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("TensorMarginClassifier('cp', 1)", marks=pytest.mark.campaign),
        "TensorMarginClassifierCV(decompositions=('cp',), ranks=(1,), preparation=[None, TensorScaler()], cv=2)",
        pytest.param("make_pipeline(TensorScaler(), TensorMarginClassifier('tt'))", marks=pytest.mark.campaign),
    ],
    ids=["classifier", "search", "pipeline"],
)
def test_models_are_imported_without_the_compiler_and_saved_without_more(model, tmp_path):
    statement = _SAVES.format(path=str(tmp_path / "model.skops"), model=model)
    assert loaded_after(statement, "torch", "matplotlib", "jinja2") == []
    assert (tmp_path / "model.skops").exists()


_FIT = """
import sys
import tensormargin.datasets
from tensormargin.cli import main
main(["fit", {data!r}, "--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "0", "--no-report",
      "--jobs", "2", "--fresh", "-o", {out!r}], standalone_mode=False)
executors = sys.modules.get("joblib.externals.loky.reusable_executor")
assert executors is None or executors._executor is None, "processes were started"
"""
_NOT_FOR_A_FIT = (
    "torch", "matplotlib", "jinja2", "nibabel", "scipy.signal", "sklearn.datasets", "sklearn.ensemble",
    "tensormargin.plots", "tensormargin.report.page", "tensormargin.paper",
)  # fmt: skip


def test_data_sets_and_a_fit_without_evaluation_and_report_import_and_start_only_what_they_need(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((12, 4, 3)), np.arange(12) % 2
    np.savez(tmp_path / "data.npz", X=X, y=y)
    out = tmp_path / "model.skops"
    assert loaded_after(_FIT.format(data=str(tmp_path / "data.npz"), out=str(out)), *_NOT_FOR_A_FIT) == []
    assert out.exists()


# Runs both commands, of each model, and prints the modules that they import and `import sklearn.svm` does not.
_COMMANDS = """
import sys
import sklearn.svm
before = set(sys.modules)
from tensormargin.cli import main
for model in {models!r}:
    main(["predict", model, {data!r}, "-o", {out!r}], standalone_mode=False)
    main(["inspect", model], standalone_mode=False)
    print(sorted(set(sys.modules) - before))
"""
_NEEDED = {"click", "scipy", "sklearn", "tensorly", "tensormargin"}  # TensorLy for the weight, and SciPy for TensorLy


def test_predict_and_inspect_import_little_more_than_scikit_learn(tmp_path):
    """The processor time of both is at most 1.3 times that of `import sklearn.svm` (benchmarks/speed/startup.py)."""
    X, y = np.random.default_rng(0).standard_normal((12, 4, 3)), np.arange(12) % 2
    models = {  # in this order: the first does not import what only the second needs
        "pipeline": make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)),
        "search": TensorMarginClassifierCV(decompositions=("cp",), ranks=(1,), preparation=TensorScaler(), cv=2),
    }
    np.savez(tmp_path / "data.npz", X=X, y=y)
    for name, model in models.items():
        save_model(tmp_path / f"{name}.skops", model.fit(X, y))
    files = [str(tmp_path / f"{name}.skops") for name in models]
    code = _COMMANDS.format(models=files, data=str(tmp_path / "data.npz"), out=str(tmp_path / "out.csv"))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    printed = [eval(line, {}) for line in result.stdout.splitlines() if line.startswith("[")]
    for kind, imported in zip(models, printed, strict=True):
        packages = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names)
        assert {name for name in packages if not name.startswith("_")} <= _NEEDED
        assert not {f"sklearn.{name}" for name in ("datasets", "ensemble", "feature_selection")} & set(imported)
        used = {tuple(name.split(".")[1:3]) for name in imported if name.count(".") > 1}
        assert [name for wing, name in used if wing in ("evaluation", "plots", "report", "paper")] == ["sentences"]
        assert any(wing == "selection" for wing, _ in used) == (kind == "search")


_CORE = """
import sys
for name in ("click", "rich", "matplotlib", "PIL", "jinja2"):
    sys.modules[name] = None
import numpy as np
import tensormargin, tensormargin.plots, tensormargin.report
from tensormargin import Axis, SampleSet, TensorMarginClassifierCV, load_model, load_samples, save_model
X, y = np.random.default_rng(0).standard_normal((24, 4, 3)), np.arange(24) % 2
np.savez("data.npz", X=X, y=y)
samples = load_samples("data.npz")
model = TensorMarginClassifierCV(("cp", "tt"), (1,), (1.0,), (1,), cv=2).fit(samples.data, samples.target)
save_model("model.skops", model)
assert (load_model("model.skops").model.predict(X) == model.predict(X)).all()
assert samples._repr_html_()
for function in (
    lambda: tensormargin.plots.plot_map(X[0]),
    lambda: tensormargin.report.render(None),
):
    try:
        function()
    except ImportError as error:
        print(error)
"""


def test_the_library_works_without_what_commands_and_figures_need(tmp_path):
    done = subprocess.run([sys.executable, "-c", _CORE], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    lines = [f"this needs {name}: pip install 'tensormargin[cli]'" for name in ("matplotlib", "jinja2")]
    assert done.stdout.splitlines() == lines


def test_commands_without_their_extra_say_what_to_install():
    code = "import sys; sys.modules['click'] = None; from tensormargin.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "The commands need click and more: pip install 'tensormargin[cli]'",
    )
