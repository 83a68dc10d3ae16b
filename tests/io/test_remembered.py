"""A model remembers how its samples were made from files, and `predict` and `report` make others in the same way."""

import csv
import json

import numpy as np
import pytest
from conftest import fewer_models, run
from scipy.io import netcdf_file

from tensormargin import TensorMarginClassifier, load_model, load_samples, save_model
from tensormargin.io import BadFileError, known_views, load_views

pytestmark = pytest.mark.usefixtures("blank_figures")

h5py = pytest.importorskip("h5py")
nibabel = pytest.importorskip("nibabel")
images = pytest.importorskip("PIL.Image")

SHAPE = (5, 6, 4)
QUICK = ("--outer-folds", "0", "--no-report", "--folds", "2", "--decomposition", "cp", "--rank", "1", "--json")


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def done(*arguments):
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result


def refused(*arguments):
    result = run(*arguments)
    assert result.returncode == 2, result.stderr + result.stdout
    return result.stderr


def fitted(out, *arguments):
    with fewer_models():
        done("fit", *arguments, "-o", out, *QUICK)
    return out


def accuracy(*arguments, out):
    result = done("predict", *arguments, "-o", out, "--json")
    return json.loads(result.stdout)["accuracy"], result.stderr


def write_bold(folder, tr=2.0, unit="sec", n_volumes=210):
    """Write volumes with large drifts, and a response that comes 5 s after each event."""
    rng = np.random.default_rng(0)
    onsets = np.arange(10, 400, 12.0)
    names = [("face", "house")[number % 2] for number in range(len(onsets))]
    patterns = {name: 3 * rng.standard_normal(SHAPE) for name in ("face", "house")}
    drift = np.linspace(-1, 1, n_volumes)
    volumes = rng.standard_normal((*SHAPE, n_volumes))
    volumes += 50 * rng.standard_normal((*SHAPE, 1)) * drift + 80 * rng.standard_normal((*SHAPE, 1)) * drift**2
    times = 2.0 * np.arange(n_volumes)
    for onset, name in zip(onsets, names, strict=True):
        volumes[..., (times >= onset + 5) & (times < onset + 9)] += patterns[name][..., None]
    image = nibabel.Nifti1Image(volumes.astype(np.float32), np.diag([3.0, 3, 3, 1]))
    image.header["pixdim"][4] = tr
    image.header.set_xyzt_units("mm", unit)
    nibabel.save(image, folder / "bold.nii")
    lines = [f"{onset}\t4\t{name}" for onset, name in zip(onsets, names, strict=True)]
    (folder / "events.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *lines]))
    return folder / "bold.nii", folder / "events.tsv"


@pytest.fixture(scope="module")
def bold(tmp_path_factory):
    """Return a recording, its events, and a model of means around them."""
    folder = tmp_path_factory.mktemp("bold")
    file, events = write_bold(folder)
    model = fitted(folder / "bold.skops", file, "--events", events, "--delay", "5", "--detrend", "2")
    return file, events, model


def write_image(path, values, side=64):
    path.parent.mkdir(parents=True, exist_ok=True)
    images.fromarray(values.astype(np.uint8)).resize((side, side)).save(path)


def picture(name, seed):
    values = np.random.default_rng(seed).integers(0, 100, (16, 16))
    values[: 8 if name == "a" else 16, :8] += 120
    return values


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Return a folder with classes of pictures, and a model of them in another size."""
    folder = tmp_path_factory.mktemp("pictures")
    for name in "ab":
        for number in range(6):
            write_image(folder / "line" / name / f"{number}.png", picture(name, number))
    return folder / "line", fitted(folder / "line.skops", folder / "line", "--size", "8x8")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Return an archive whose samples are along its last axis, with names of its own, and a model of it."""
    folder = tmp_path_factory.mktemp("arrays")
    rng = np.random.default_rng(0)
    condition = np.array(["rest", "task"] * 12)
    X = rng.standard_normal((24, 4, 7)) + 2 * (condition == "task")[:, None, None]
    content = {"eeg": np.moveaxis(X, 0, 2), "other": np.zeros((24, 4, 7)), "condition": condition, "y": np.arange(24)}
    np.savez(folder / "study.npz", **content)
    options = ("--samples", "eeg", "--labels", "condition", "--axis", "2", "--modes", "channel=A|B|C|D,time[ms]=0:4")
    return folder / "study.npz", fitted(folder / "study.skops", folder / "study.npz", *options), X, condition


def test_predict_cuts_recordings_as_fit_did(bold, tmp_path):
    file, events, model = bold
    score, said = accuracy(model, file, "--events", events, out=tmp_path / "p.csv")
    assert (score, said) == (1.0, "")
    assert len(rows_of(tmp_path / "p.csv")) == 33
    again, said = accuracy(model, file, "--events", events, "--delay", "5", "--detrend", "2", out=tmp_path / "p.csv")
    assert (again, said) == (1.0, "")


def test_options_given_again_override_and_say_so(bold, tmp_path):
    file, events, model = bold
    score, said = accuracy(model, file, "--events", events, "--delay", "0", out=tmp_path / "p.csv")
    assert score < 0.9
    note, warning = said.splitlines()
    assert note == f"Note: {file}: now onsets delayed by 0 s; the model was fitted with onsets delayed by 5 s"
    assert "33 of 33 samples are unlike all training samples" in warning
    _, said = accuracy(model, file, "--events", events, "--tr", "2.5", out=tmp_path / "p.csv")
    assert "bold.nii: states a repetition time of 2 s; 2.5 is used" in said
    assert "now repetition time 2.5 s; the model was fitted with repetition time 2 s" in said


def test_a_table_of_events_is_needed_again(bold, tmp_path):
    file, _, model = bold
    for command in (("predict", model, file, "-o", tmp_path / "p.csv"), ("report", model, file, "-o", tmp_path / "r")):
        said = refused(*command)
        assert "--events TABLE" in said
        assert "cut around the events of a table" in said
    assert not list(tmp_path.iterdir())
    assert "names of events, face" in refused("predict", model, file, "--events", "face", "-o", tmp_path / "p.csv")


def test_inspect_and_facts_tell_how_samples_were_made(bold, pictures, arrays):
    expected = {"kind": "4-D NIfTI, means around events", "events": True, "delay": 5.0, "detrend": 2}
    assert load_model(bold[2]).loading == {**expected, "stated": {"tr": 2.0}}
    assert str(bold[1]) not in json.dumps(dict(load_model(bold[2]).facts))
    said = done("inspect", bold[2]).stdout
    assert (
        "They were made from the files as follows: events from a table; onsets delayed by 5 s; a polynomial of degree 2"
        in said
    )
    assert "repetition time 2 s (stated by the file)" in said
    assert load_model(pictures[1]).loading == {"kind": "class folder of images", "size": [8, 8]}
    found = json.loads(done("inspect", arrays[1], "--json").stdout)["about"]["loading"]
    names = {"samples": "eeg", "labels": "condition", "axis": 2, "modes": True}
    assert found == {"kind": "NumPy archive", **names}


def test_means_that_were_cut_elsewhere_need_no_events(bold, tmp_path):
    file, events, model = bold
    means = load_samples(file, events=events, delay=5, detrend=2)
    np.savez(tmp_path / "means.npz", X=means.data, y=means.target)
    score, said = accuracy(model, tmp_path / "means.npz", out=tmp_path / "p.csv")
    assert score == 1.0
    assert "does not apply to this file, so it was left out: events from a table; onsets delayed by 5 s" in said
    nibabel.save(nibabel.Nifti1Image(means.data[1], means.affine), tmp_path / "one.nii.gz")
    done("predict", model, tmp_path / "one.nii.gz", "-o", tmp_path / "p.csv")
    assert [(row["sample"], row["predicted"]) for row in rows_of(tmp_path / "p.csv")] == [("one.nii.gz", "house")]


@pytest.mark.parametrize(("stated", "unit", "tr"), [(2.0, "sec", 2), (2000.0, "msec", 2), (2.0, "unknown", 2)])
def test_repetition_time_comes_from_the_header(stated, unit, tr, bold, tmp_path):
    file, events = write_bold(tmp_path, stated, unit)
    found = load_samples(file, events=events, delay=5)
    assert found.loading["stated"] == {"tr": tr}
    np.testing.assert_array_equal(found.data, load_samples(bold[0], events=bold[1], delay=5, tr=tr).data)


@pytest.mark.parametrize(("stated", "unit"), [(0.0, "sec"), (1.0, "unknown"), (2000.0, "sec"), (np.nan, "sec")])
def test_implausible_headers_ask_for_the_repetition_time(stated, unit, bold, tmp_path):
    file, events = write_bold(tmp_path, stated, unit)
    said = refused("fit", file, "--events", events, "-o", tmp_path / "m.skops")
    assert "header does not state plausibly" in said
    assert "--tr" in said
    found = load_samples(file, events=events, delay=5, tr=2)
    assert (found.loading["tr"], "stated" in found.loading, found.notes) == (2, False, ())


@pytest.mark.parametrize(
    "content",
    [
        {"sfreq": 50.0},
        {"Fs": np.array([[50]])},
        {"srate": np.array([50], np.float32)},
        {"times_ms": 20.0 * np.arange(500)},
    ],
)
def test_sampling_frequency_comes_from_the_file(content, tmp_path):
    series = np.random.default_rng(0).standard_normal((3, 500))
    np.savez(tmp_path / "a.npz", X=series, **content)
    (tmp_path / "e.csv").write_text("onset,duration,trial_type\n1,1,a\n3,1,b\n5,1,a\n")
    found = load_samples(tmp_path / "a.npz", events=tmp_path / "e.csv", tmin=0, tmax=0.5)
    np.testing.assert_array_equal(found.data, [series[:, 50 * at : 50 * at + 26] for at in (1, 3, 5)])
    assert (found.sfreq, found.loading["stated"]) == (50, {"sfreq": 50})
    other = load_samples(tmp_path / "a.npz", events=tmp_path / "e.csv", tmin=0, tmax=0.5, sfreq=25)
    assert (other.sfreq, other.data.shape, other.loading["sfreq"]) == (25, (3, 3, 13), 25)
    assert "states a sampling frequency of 50 Hz; 25 is used" in other.notes[-1]


def test_one_picture_a_flat_folder_and_classes(pictures, tmp_path):
    folder, model = pictures
    out = tmp_path / "p.csv"
    for name, side in (("a", 128), ("b", 40)):
        write_image(tmp_path / "new" / f"{name}.png", picture(name, 10), side)
        write_image(tmp_path / f"{name}.tif", picture(name, 11), side)
        write_image(tmp_path / f"{name}.jpg", picture(name, 11), side)
    for ending in ("jpg", "tif"):
        done("predict", model, tmp_path / f"b.{ending}", "-o", out)
        assert [(row["sample"], row["predicted"]) for row in rows_of(out)] == [(f"b.{ending}", "b")]
    done("predict", model, tmp_path / "a.tif", tmp_path / "b.jpg", "-o", out)
    assert [row["predicted"] for row in rows_of(out)] == ["a", "b"]
    done("predict", model, tmp_path / "new", "-o", out)
    assert [(row["sample"], row["predicted"]) for row in rows_of(out)] == [("a.png", "a"), ("b.png", "b")]
    assert accuracy(model, folder, out=out) == (1.0, "")
    said = refused("predict", model, folder, "--size", "4x4", "-o", out)
    assert "now files resized to 4 x 4; the model was fitted with files resized to 8 x 8" in said
    done("report", model, folder, "-o", tmp_path / "report.html")
    assert "files resized to 8 x 8" in (tmp_path / "report.html").read_text()
    assert "one folder per class" in refused("fit", tmp_path / "a.jpg", "-o", tmp_path / "m.skops")


def test_names_and_axes_of_arrays_are_remembered(arrays, tmp_path):
    file, model, X, condition = arrays
    out = tmp_path / "p.csv"
    assert accuracy(model, file, out=out)[0] == 1.0
    predicted = [row["predicted"] for row in rows_of(out)]
    np.savez(tmp_path / "new.npz", eeg=np.moveaxis(X, 0, 2))  # labels are not needed
    done("predict", model, tmp_path / "new.npz", "-o", out)
    assert [row["predicted"] for row in rows_of(out)] == predicted
    found = load_samples(file, like=load_model(model))
    assert [axis.label for axis in found.axes] == ["channel", "time (ms)"]
    assert found.axes[0].values.tolist() == [*"ABCD"]
    np.save(tmp_path / "one.npy", X[1])
    done("predict", model, tmp_path / "one.npy", "-o", out)
    assert [row["predicted"] for row in rows_of(out)] == [condition[1]]
    np.savez(tmp_path / "one.npz", eeg=X[1], condition="task")
    assert accuracy(model, tmp_path / "one.npz", out=out) == (1.0, "")


@pytest.mark.parametrize("kind", ["npz", "npy", "folder", "bids", "volume", "scene"])
def test_labels_are_honoured_or_refused(kind, arrays, pictures, bold, tmp_path):
    model, data, more = arrays[1], arrays[0], ()
    if kind == "npy":
        data = tmp_path / "one.npy"
        np.save(data, arrays[2][0])
    elif kind == "folder":
        data, model = pictures
    elif kind == "scene":
        data, more = tmp_path / "scene.npy", ("--scene", tmp_path / "map.png")
        np.save(data, np.zeros((5, 6, 28)))
    elif kind == "volume":
        model, data = bold[2], tmp_path / "one.nii"
        nibabel.save(nibabel.Nifti1Image(np.zeros(SHAPE, np.float32), np.eye(4)), data)
    elif kind == "bids":
        model, data = bold[2], tmp_path / "study"
        for person in ("01", "02"):
            path = data / f"sub-{person}" / "anat" / f"sub-{person}_T1w.nii.gz"
            path.parent.mkdir(parents=True)
            nibabel.save(nibabel.Nifti1Image(np.ones(SHAPE, np.float32), np.eye(4)), path)
        (data / "participants.tsv").write_text("participant_id\tsex\nsub-01\tface\nsub-02\thouse\n")
        done("predict", model, data, "--labels", "sex", "-o", tmp_path / "p.csv")
        assert [row["label"] for row in rows_of(tmp_path / "p.csv")] == ["face", "house"]
    out = () if kind == "scene" else ("-o", tmp_path / "n.csv")
    said = refused("predict", model, data, "--labels", "nonsense", *out, *more)
    assert "--labels" in said
    assert not (tmp_path / "n.csv").exists()


def test_one_epoch_of_a_recording(tmp_path):
    from scipy.io import savemat

    rng = np.random.default_rng(0)
    labels = np.arange(12) % 2

    def write(path, data):
        n_trials, n_channels, n_points = data.shape
        sizes = {"nbchan": float(n_channels), "pnts": float(n_points), "trials": float(n_trials), "srate": 100.0}
        savemat(path, {"EEG": {"data": np.moveaxis(data, 0, 2), **sizes}})

    X = rng.standard_normal((12, 3, 20)) + 2 * labels[:, None, None]
    write(tmp_path / "epochs.set", X)
    np.save(tmp_path / "labels.npy", labels)
    model = fitted(tmp_path / "m.skops", tmp_path / "epochs.set", "--labels-from", tmp_path / "labels.npy")
    write(tmp_path / "one.set", X[1:2])
    done("predict", model, tmp_path / "one.set", "-o", tmp_path / "p.csv")
    assert [row["predicted"] for row in rows_of(tmp_path / "p.csv")] == ["1"]
    write(tmp_path / "long.set", rng.standard_normal((1, 3, 500)))
    assert "without events" in refused("predict", model, tmp_path / "long.set", "-o", tmp_path / "p.csv")


def test_python_keeps_and_repeats_how_samples_were_made(pictures, tmp_path):
    folder, _ = pictures
    samples = load_samples(folder, size=(8, 8))
    assert samples.loading == {"kind": "class folder of images", "size": [8, 8]}
    model = TensorMarginClassifier("cp", 1).fit(samples.data, samples.target)
    save_model(tmp_path / "m.skops", model, samples=samples)
    file = load_model(tmp_path / "m.skops")
    assert file.loading == samples.loading
    new = load_samples(folder / "a" / "0.png", like=file, need_labels=False)
    np.testing.assert_array_equal(new.data[0], samples.data[0])
    np.testing.assert_array_equal(load_samples(folder, like=samples).data, samples.data)
    other = load_samples(folder, size=(4, 4), like=file)
    assert (other.data.shape, other.loading["size"]) == ((12, 4, 4), [4, 4])
    assert "now files resized to 4 x 4" in other.notes[-1]


def test_groups_by_file_are_remembered(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(3):
        X = rng.standard_normal((8, 3, 4)) + 100 * number
        X[::2] += 3
        np.savez(tmp_path / f"{number}.npz", X=X, y=np.arange(8) % 2)
    files = [tmp_path / f"{number}.npz" for number in range(3)]
    model = fitted(tmp_path / "m.skops", *files, "--groups", "file", "--by-group")
    assert accuracy(model, files[2], out=tmp_path / "p.csv")[0] == 1.0
    assert accuracy(model, *files[:2], out=tmp_path / "p.csv")[0] == 1.0


@pytest.mark.parametrize(
    "loading",
    [[], {"size": "8x8"}, {"tr": float("inf")}, {"events": "/etc/passwd"}, {"axis": True}, {"stated": {"tr": "2"}}],
)
def test_damaged_facts_are_refused(loading, tmp_path):
    X = np.random.default_rng(0).standard_normal((8, 3, 4))
    model = TensorMarginClassifier("cp", 1).fit(X, np.arange(8) % 2)
    if loading == {"tr": float("inf")}:
        with pytest.raises(ValueError, match="JSON"):
            save_model(tmp_path / "m.skops", model, {"loading": loading})
        return
    save_model(tmp_path / "m.skops", model, {"loading": loading})
    if loading == []:
        assert load_model(tmp_path / "m.skops").loading == {}
        return
    with pytest.raises(BadFileError, match="how its samples were made"):
        load_model(tmp_path / "m.skops")


def test_options_of_later_versions_are_left_out(tmp_path):
    X = np.random.default_rng(0).standard_normal((8, 3, 4))
    model = TensorMarginClassifier("cp", 1).fit(X, np.arange(8) % 2)
    save_model(tmp_path / "m.skops", model, {"loading": {"axis": 1, "later": 3}})
    assert load_model(tmp_path / "m.skops").loading == {"axis": 1}


@pytest.mark.parametrize("table", ["participant_id\tsex\nsub-01\tn/a\nsub-02\tf\n", None])
def test_participants_without_a_remembered_label_are_predicted(table, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(1, 13):
        for folder in ("old", "new") if number < 3 else ("old",):
            path = tmp_path / folder / f"sub-{number:02}" / "anat" / f"sub-{number:02}_T1w.nii.gz"
            path.parent.mkdir(parents=True)
            volume = rng.standard_normal(SHAPE).astype(np.float32) + 3 * (number % 2)
            nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path)
    lines = [f"sub-{number:02}\t{'fm'[number % 2]}" for number in range(1, 13)]
    (tmp_path / "old" / "participants.tsv").write_text("\n".join(["participant_id\tsex", *lines]))
    model = fitted(tmp_path / "m.skops", tmp_path / "old", "--labels", "sex")
    if table is not None:
        (tmp_path / "new" / "participants.tsv").write_text(table)
    said = done("predict", model, tmp_path / "new", "-o", tmp_path / "p.csv")
    assert [row["predicted"] for row in rows_of(tmp_path / "p.csv")] == ["m", "f"]
    if table is not None:  # --labels was ignored without a word, too
        assert "samples of participants without a label: 1 of 2; none is compared" in said.stderr
        said = done("predict", model, tmp_path / "new", "-o", tmp_path / "p.csv", "--labels", "sex")
        assert [row["predicted"] for row in rows_of(tmp_path / "p.csv")] == ["f"]
        assert "samples of participants without a label: 1 of 2, which were left out" in said.stderr
        assert "Accuracy" in said.stdout
    else:
        assert "labels_from" in refused("predict", model, tmp_path / "new", "-o", tmp_path / "q.csv", "--labels", "sex")


@pytest.mark.parametrize("where", ["data set", "file", "netcdf", "zarr"])
def test_sampling_frequency_comes_from_attributes(where, tmp_path):
    series = np.random.default_rng(0).standard_normal((6, 3, 40))
    path = tmp_path / f"a.{where if where == 'zarr' else 'nc' if where == 'netcdf' else 'h5'}"
    if where == "netcdf":
        with netcdf_file(path, "w") as file:
            for name, size in zip(("sample", "channel", "time"), series.shape, strict=True):
                file.createDimension(name, size)
            file.createVariable("X", "f8", ("sample", "channel", "time"))[:] = series
            file.sfreq = 50.0
    else:
        root = pytest.importorskip("zarr").open_group(path, mode="w") if where == "zarr" else h5py.File(path, "w")
        root.create_array("X", data=series) if where == "zarr" else root.create_dataset("X", data=series)
        (root["X"] if where == "data set" else root).attrs["sfreq"] = 50.0
        if where != "zarr":
            root.close()
    found = load_samples(path, need_labels=False)
    assert (found.sfreq, found.loading["stated"]) == (50, {"sfreq": 50})


@pytest.mark.parametrize("value", ["fast", np.nan, -2.0, [1.0, 2.0], True])
def test_attributes_that_are_no_sampling_frequency_are_ignored(value, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=np.ones((4, 2, 3))).attrs["sfreq"] = value
    assert load_samples(tmp_path / "a.h5", need_labels=False).sfreq is None


def test_modes_of_several_views_are_remembered(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    eeg, scan = rng.standard_normal((24, 3, 5)) + y[:, None, None], rng.standard_normal((24, 2, 4))
    np.savez(tmp_path / "both.npz", eeg=eeg, scan=scan, y=y)
    file, modes = tmp_path / "both.npz", ("--modes", "eeg:channel=Fz|Cz|Pz,time[ms]=0:4")
    model = fitted(tmp_path / "m.skops", file, "--samples", "eeg,scan", *modes)
    held = load_model(model)
    found = load_views(file, known=known_views(held), like=held)
    assert list(found.axes) == ["eeg"]
    assert found.axes["eeg"][0].values.tolist() == ["Fz", "Cz", "Pz"]
    other = load_views(file, known=known_views(held), like=held, mode_names={"eeg": ["sensor", "sample"]})
    assert other.axes["eeg"][0].name == "sensor"
    done("report", model, file, "-o", tmp_path / "r.html")
    assert "Fz" in (tmp_path / "r.html").read_text()
