"""Axes from files, and in the files of models."""

import json

import numpy as np
import pytest
from conftest import run
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.data import Axis
from tensormargin.io import BadFileError, ModelFile, load_model, load_samples, load_views, save_model
from tensormargin.io.models import check_facts

pytestmark = pytest.mark.usefixtures("blank_figures")

NAMES = ["Fz", "Cz", "Pz"]
TIMES = 0.5 * np.arange(8) - 1
X = np.random.default_rng(0).normal(size=(12, 3, 8))
Y = np.arange(12) % 2
AXES = (Axis("channel", "", NAMES), Axis("time", "s", TIMES))


def samples_axes(path, **options):
    return load_samples(path, **options).axes


@pytest.fixture(scope="module")
def model():
    return TensorMarginClassifier("cp", 1).fit(X, Y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axes")
    np.savez(folder / "a.npz", X=X, y=Y, ch_names=NAMES, times_s=TIMES)
    np.savez(folder / "turned.npz", X=X[:, ::-1], ch_names=NAMES[::-1], times_s=TIMES)
    np.savez(folder / "later.npz", X=X, ch_names=NAMES, times_s=TIMES + 10)
    fit = run(
        "fit",
        folder / "a.npz",
        "-o",
        folder / "a.skops",
        "--decomposition",
        "tucker",
        "--outer-folds",
        0,
        "--folds",
        2,
        "--no-report",
    )
    assert fit.returncode == 0, fit.stderr
    return folder


class TestVectorsBesideTheSamples:
    def test_of_known_names_are_coordinates(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(path, X=X, y=Y, ch_names=NAMES, times_s=TIMES)
        found = load_samples(path)
        assert found.axes == AXES
        assert [note for note in found.notes if "ch_names" in note and "mode 1 was taken for channel" in note]

    @pytest.mark.parametrize(
        "beside",
        [
            {"times": np.arange(12.0)},  # one per sample
            {"times": np.arange(7.0)},
            {"times": np.array([0, 2, 1, 3, 4, 5, 6, 7.0])},
            {"times": np.full(8, np.nan)},
            {"ch_names": ["a", "a", "b"]},
            {"channels": [1, 2, 3]},
            {"other": NAMES},
        ],
    )
    def test_that_could_be_something_else_are_not(self, tmp_path, beside):
        path = tmp_path / "a.npz"
        np.savez(path, X=X, y=Y, **beside)
        assert samples_axes(path) is None

    def test_of_a_length_that_two_modes_have_are_not(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(path, X=X[:, :, :3], y=Y, ch_names=NAMES)
        assert samples_axes(path) is None

    def test_in_matlab_files_too(self, tmp_path):
        scipy = pytest.importorskip("scipy.io")
        path = tmp_path / "a.mat"
        cells = np.array([*NAMES], dtype=object)
        scipy.savemat(path, {"X": X, "y": Y, "ch_names": cells, "times": TIMES})
        assert samples_axes(path) == (AXES[0], Axis("time", "", TIMES))

    def test_belong_to_the_modes_that_are_left_of_the_samples_axis(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(path, X=np.moveaxis(X, 0, 2), y=Y, ch_names=NAMES, times_s=TIMES)
        assert samples_axes(path, axis=2) == AXES


class TestDimensions:
    def test_of_hdf5_are_scales_with_units(self, tmp_path):
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file["g/X"], file["g/y"], file["g/time"], file["g/channel"] = X, Y, TIMES, NAMES
            file["g/time"].attrs["units"] = "s"
            for place, name in ((1, "channel"), (2, "time")):
                file[f"g/{name}"].make_scale(name)
                file["g/X"].dims[place].attach_scale(file[f"g/{name}"])
        assert samples_axes(path, samples="g/X", labels="g/y") == AXES

    @pytest.mark.parametrize(
        "dims", [["trial", "channel", "time"], '["trial", "channel", "time"]', "trial, channel, time"]
    )
    def test_of_hdf5_are_an_attribute(self, tmp_path, dims):
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file["X"], file["y"], file["time"] = X, Y, TIMES
            file["X"].attrs["dims"] = dims
        assert samples_axes(path) == (Axis("channel"), Axis("time", "", TIMES))

    @pytest.mark.parametrize("dims", [7, ["one"], ["x" * 10_000] * 3, "[1, 2", b"\xff\xfe, b, c", [[1.5, 2.5]]])
    def test_that_are_damaged_do_not_keep_samples_from_being_read(self, tmp_path, dims):
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, Y
            file["X"].attrs["dims"] = dims
        assert load_samples(path).data.shape == X.shape

    @pytest.mark.filterwarnings("ignore")
    def test_of_xarray_in_zarr(self, tmp_path):
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("zarr")
        array = xarray.DataArray(X, dims=("trial", "channel", "time"), coords={"channel": NAMES, "time": TIMES})
        array.time.attrs["units"] = "s"
        labels = xarray.DataArray(Y, dims="trial")
        for version in (2, 3):
            path = tmp_path / f"a{version}.zarr"
            xarray.Dataset({"X": array, "y": labels}).to_zarr(path, zarr_format=version)
            assert samples_axes(path) == AXES

    def test_of_nifti_are_millimetres(self, tmp_path):
        nibabel = pytest.importorskip("nibabel")
        affine = np.array([[0, 2, 0, -10], [-3, 0, 0, 20], [0, 0, 4, 5], [0, 0, 0, 1.0]])
        for turned in (False, True):
            affine[0, 0] = turned
            path = tmp_path / "a.nii"
            nibabel.save(nibabel.Nifti1Image(np.ones((4, 5, 6, 12), np.float32), affine), path)
            found = samples_axes(path, labels_from=Y)
            assert [(axis.name, axis.unit) for axis in found] == [("y", "mm"), ("x", "mm"), ("z", "mm")]
            if turned:
                assert all(axis.values is None for axis in found)
            else:
                assert found[0].values.tolist() == [20, 17, 14, 11]


class TestOptions:
    @pytest.fixture
    def path(self, tmp_path):
        np.savez(tmp_path / "a.npz", X=X, y=Y)
        return tmp_path / "a.npz"

    def test_name_modes(self, path):
        found = samples_axes(path, mode_names=["channel", "time[s]"], mode_values={"channel": NAMES, "time": TIMES})
        assert found == AXES
        assert samples_axes(path, mode_values=[NAMES, None]) == (Axis("", "", NAMES), Axis())

    def test_that_do_not_fit_name_the_file(self, path):
        with pytest.raises(BadFileError, match=r"a\.npz: mode_names must have one name per mode; got 1"):
            samples_axes(path, mode_names=["channel"])

    def test_name_modes_of_views(self, path, tmp_path):
        np.save(tmp_path / "b.npy", X[:, 0])
        names = {"a": ["channel", "time"], "b": ["time[s]"]}
        found = load_views(path, {"b": tmp_path / "b.npy"}, mode_names=names, mode_values={"b": [TIMES]})
        assert found.axes == {"a": (Axis("channel"), Axis("time")), "b": AXES[1:]}


class TestModels:
    def test_keep_axes(self, model, tmp_path):
        path = tmp_path / "a.skops"
        facts = save_model(path, model, axes=AXES)
        assert load_model(path).axes == AXES
        assert [one["name"] for one in facts["axes"]] == ["channel", "time"]
        save_model(path, model)
        assert load_model(path).axes is None
        with pytest.raises(ValueError, match="got 3 for 8 indices"):
            save_model(path, model, axes=(Axis(), Axis("channel", "", NAMES)))

    def test_keep_those_of_a_dataarray(self, tmp_path):
        xarray = pytest.importorskip("xarray")
        path = tmp_path / "a.skops"
        array = xarray.DataArray(X, dims=("n", "channel", "time"), coords={"channel": NAMES})
        save_model(path, make_pipeline(TensorScaler(), TensorMarginClassifier("cp", 1)).fit(array, Y))
        loaded = load_model(path)
        assert loaded.axes == (AXES[0], Axis("time"))
        np.testing.assert_array_equal(loaded.model.predict(array.isel(channel=[2, 1, 0])), loaded.model.predict(array))

    @pytest.mark.parametrize(
        ("axes", "message"),
        [
            ("text", "'axes' must be list"),
            ([{"name": "a"}], "must have name, unit and values"),
            ([{"name": "a", "unit": "", "values": None}], "one axis per mode; got 1"),
            ([{"name": "a", "unit": "", "values": [1]}, {"name": "b", "unit": "", "values": None}], "got 1 for 3"),
            ([{"name": "a", "unit": "", "values": ["1", 2, 3]}] * 2, "numbers or of text"),
            ([{"name": "a", "unit": "", "values": [[1], [2], [3]]}] * 2, "numbers or of text"),
            ([{"name": ["a"], "unit": "", "values": None}] * 2, "name of a mode must be text"),
            ([{"name": "a", "unit": "x" * 10_000, "values": None}] * 2, "at most 500 characters"),
            ({"view": None}, "one tensor per sample"),
        ],
    )
    def test_with_axes_that_are_none_are_refused(self, model, tmp_path, monkeypatch, axes, message):
        path = tmp_path / "a.skops"
        monkeypatch.setattr("tensormargin.io.models.axes_facts", lambda known: axes)
        save_model(path, model)
        with pytest.raises(BadFileError, match=rf"a\.skops: is not loaded, .*{message}"):
            load_model(path)

    def test_of_earlier_versions_have_none(self, model, tmp_path):
        facts = {**save_model(tmp_path / "a.skops", model)}
        del facts["axes"]
        check_facts(facts, model)
        assert ModelFile(model, facts).axes is None


class TestCommands:
    def test_fit_saves_axes_and_inspect_says_them(self, folder):
        assert load_model(folder / "a.skops").axes == AXES
        assert "Modes: channel (Fz, Cz, Pz), time (-1 to 2.5 s)" in run("inspect", folder / "a.skops").stdout
        assert json.loads(run("inspect", folder / "a.skops", "--json").stdout)["axes"][1]["unit"] == "s"

    @pytest.mark.parametrize(
        ("channels", "names", "note"),
        [
            ([2, 1, 0], ["Pz", "Cz", "Fz"], ""),
            ([0, 1, 2], ["FZ", "cz", "Pz."], ""),
            ([2, 2, 1, 0], ["EOG", "pz", "cz", "fz"], "EOG left out, which the model's samples did not have"),
            ([0, 1, 2], None, "states no names; the model's samples had Fz, Cz, Pz, and must be in this order"),
        ],
        ids=["another order", "upper case", "additional", "unnamed"],
    )
    def test_predict_finds_channels_by_name(self, channels, names, note, folder, tmp_path):
        given = {} if names is None else {"ch_names": names, "times_s": TIMES}
        np.savez(tmp_path / "b.npz", X=X[:, channels], **given)
        done = run("predict", folder / "a.skops", tmp_path / "b.npz", "-o", tmp_path / "out.csv")
        assert done.returncode == 0, done.stderr
        assert note in " ".join(done.stderr.split())
        assert ("Note" in done.stderr) or not note
        text = (tmp_path / "out.csv").read_text()
        assert text.count(",yes,") == len(X)  # as in the fit, by their digests
        known = load_samples(tmp_path / "b.npz", like=load_model(folder / "a.skops"), need_labels=False)
        np.testing.assert_array_equal(known.data, X)

    def test_predict_refuses_another_sampling_frequency(self, folder, tmp_path):
        paths = [tmp_path / "axis.npz", tmp_path / "number.npz"]
        np.savez(paths[0], X=X, ch_names=NAMES, times_s=TIMES / 2)
        np.savez(paths[1], X=X, sfreq=4.0)
        models = [folder / "a.skops", tmp_path / "b.skops"]
        np.savez(tmp_path / "b.npz", X=X, y=Y, sfreq=2.0)
        quick = ("--method", "STuM", "--outer-folds", 0, "--no-report", "--folds", 2)
        assert run("fit", tmp_path / "b.npz", "-o", models[1], *quick).returncode == 0
        for model, path in zip(models, paths, strict=True):
            out = ("-o", tmp_path / "out.csv")
            done = run("predict", model, path, *out)
            assert done.returncode == 2
            assert "frequency of the fit; it was 2 Hz" in " ".join(done.stderr.split())
            assert run("predict", model, path, *out, "--any-scale").returncode == 0

    def test_predict_names_missing_and_additional_channels(self, folder):
        """Although their number, and so the shape of the samples, is another one."""
        np.savez(folder / "four.npz", X=np.zeros((2, 4, 8)), ch_names=["Fz", "EOG", "Pz", "ECG"])
        done = run("predict", folder / "a.skops", folder / "four.npz", "-o", folder / "out.csv")
        assert done.returncode == 2
        assert "along mode 0 (counted from 0) (channel)" in " ".join(done.stderr.split())
        assert "Cz missing; EOG, ECG additional" in " ".join(done.stderr.split())

    def test_predict_warns_of_other_times(self, folder):
        done = run("predict", folder / "a.skops", folder / "later.npz", "-o", folder / "out.csv")
        assert done.returncode == 0
        assert "Warning:" in done.stderr
        assert "from -1 s to 2.5 s, and go from 9 s to 12.5 s" in " ".join(done.stderr.split())

    def test_modes_are_described_by_an_option(self, folder):
        options = ("-o", folder / "out.csv", "--modes", "channel=Oz|Cz|Pz,time")
        done = run("predict", folder / "a.skops", folder / "a.npz", *options)
        assert "not the same: Fz missing; Oz additional. Give samples with these 3 names: Fz, Cz, Pz" in " ".join(
            done.stderr.split()
        )
        done = run("predict", folder / "a.skops", folder / "a.npz", "-o", folder / "out.csv", "--modes", "channel")
        assert done.returncode == 2
        assert "one by one; got 1" in done.stderr

    def test_modes_of_views_are_described_by_view(self, folder):
        np.save(folder / "b.npy", X[:, 0])
        options = (
            "--view",
            f"b={folder / 'b.npy'}",
            "--modes",
            "b:time[s]=0:0.5",
            "--decomposition",
            "tucker",
            "--outer-folds",
            0,
            "--folds",
            2,
        )
        out = ("-o", folder / "two.skops", "--no-report", "--decomposition", "full", "--weight-map", folder / "w.csv")
        done = run("fit", folder / "a.npz", *options, *out)
        assert done.returncode == 0, done.stderr
        assert load_model(folder / "two.skops").axes == {"a": AXES, "b": (Axis("time", "s", 0.5 * np.arange(8)),)}
        assert (folder / "w-b.csv").read_text().startswith("time (s),")
        done = run("fit", folder / "a.npz", *options, *out, "--modes", "channel,time")
        assert "names a view first" in done.stderr

    def test_modes_by_name(self, folder):
        options = (
            "--decomposition",
            "tucker",
            "--outer-folds",
            0,
            "--folds",
            2,
            "-o",
            folder / "b.skops",
            "--no-report",
        )
        done = run("fit", folder / "a.npz", *options, "--scale", "mode channel")
        assert done.returncode == 0, done.stderr
        assert load_model(folder / "b.skops").facts["about"]["preparation"]["recipe"]["scale"] == "mode 1"
        done = run("fit", folder / "a.npz", *options, "--scale", "mode sensor")
        assert done.returncode == 2
        assert "the modes are ['channel', 'time']" in " ".join(done.stderr.split())

    def test_export_keeps_axes(self, folder):
        onnx = pytest.importorskip("onnx")
        assert run("export", folder / "a.skops", "-o", folder / "a.onnx").returncode == 0
        kept = {one.key: one.value for one in onnx.load(folder / "a.onnx").metadata_props}
        assert json.loads(kept["axes"])[0]["values"] == NAMES
