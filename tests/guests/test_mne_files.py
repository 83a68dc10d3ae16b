"""EEG files: epochs and recordings of MNE, EEGLAB and BrainVision.

`load_samples` and all commands read `.fif` epochs and recordings and BrainVision `.vhdr` files (through MNE, in a
process of its own: `pip install "tensormargin[eeg]"`), and EEGLAB `.set` files. The labels are the names of events, or
a column of the metadata; channels and times become the axes of the samples. Values keep the unit of the file: volts
from MNE and BrainVision files, microvolts from EEGLAB ones, so a model for one kind must not be given the other.
Channels that are marked as bad or hold no data (EOG, stimuli) are left out, and a note says which.
"""

from __future__ import annotations

import pytest

mne = pytest.importorskip("mne", reason="MNE is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

import csv
import json
import os

import numpy as np
from conftest import fewer_folds, fewer_models, run, run_process, undrawn_figures

from tensormargin.io import BadFileError, load_model, load_samples

CHANNELS, SFREQ = ["Fz", "Cz", "Pz"], 100.0
X = 1e-6 * np.random.default_rng(0).normal(size=(6, 3, 20))
NAMES = ["left", "right"] * 3
TIMES = -50 + 10.0 * np.arange(20)
AT = 50 + 50 * np.arange(6)


@pytest.fixture(autouse=True)
def quiet():
    with mne.utils.use_log_level("error"):
        yield


def made(channels=CHANNELS, kinds="eeg", data=X, metadata=None):
    events = np.column_stack([AT, np.zeros(6, int), np.arange(6) % 2 + 1])
    info = mne.create_info(channels, SFREQ, kinds)
    return mne.EpochsArray(data, info, events, tmin=-0.05, event_id={"left": 1, "right": 2}, metadata=metadata)


def check_epochs(found, factor=1.0):
    np.testing.assert_allclose(found.data, factor * X, rtol=1e-4)
    assert found.target.tolist() == NAMES
    assert (found.field, found.sfreq) == ("eeg", SFREQ)
    assert found.axes[0].values.tolist() == CHANNELS
    assert found.axes[1].label == "time (ms)"
    np.testing.assert_allclose(found.axes[1].values, TIMES)


@pytest.mark.parametrize("name", ["a-epo.fif", "a_epo.fif", "a-epo.fif.gz"])
def test_epochs_files(name, tmp_path):
    made().save(tmp_path / name)
    found = load_samples(tmp_path / name)
    check_epochs(found)
    assert found.kind == "MNE epochs"
    again = mne.read_epochs(tmp_path / name)
    np.testing.assert_array_equal(found.data, again.get_data())
    np.testing.assert_array_equal(load_samples(tmp_path / name, events="left").data, again["left"].get_data())
    cropped = load_samples(tmp_path / name, tmin=0.0, tmax=0.1)
    np.testing.assert_array_equal(cropped.data, again.crop(0.0, 0.1).get_data())
    np.testing.assert_allclose(cropped.axes[1].values, 1000 * again.times)


def test_metadata_are_labels_groups_and_confounds(tmp_path):
    table = pd.DataFrame({"rt": np.arange(6.0), "subject": ["s1"] * 3 + ["s2"] * 3, "answer": [*"ababab"]})
    made(metadata=table).save(tmp_path / "a-epo.fif")
    found = load_samples(tmp_path / "a-epo.fif", labels="answer", groups="subject", confounds="rt")
    assert found.target.tolist() == [*"ababab"]
    assert found.groups.tolist() == ["s1"] * 3 + ["s2"] * 3
    assert found.confounds["rt"].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BadFileError, match=r"event.*rt.*subject.*answer"):
        load_samples(tmp_path / "a-epo.fif", labels="condition")


def test_metadata_without_pandas(tmp_path, monkeypatch):
    made(metadata=pd.DataFrame({"rt": [0.5] * 6, "answer": [*"ababab"]})).save(tmp_path / "a-epo.fif")
    (tmp_path / "blocked").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'pandas'\", name='pandas')"
    (tmp_path / "blocked" / "pandas.py").write_text(missing, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "blocked"), prepend=os.pathsep)
    done = run_process("fit", tmp_path / "a-epo.fif", "--labels", "answer", "--confounds", "rt", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["classes"] == "a (3), b (3)"


def test_channels_that_are_no_data_or_bad_are_left_out(tmp_path):
    epochs = made([*CHANNELS, "EOG", "Oz"], ["eeg"] * 3 + ["eog", "eeg"], np.concatenate([X, X[:, :2]], axis=1))
    epochs.info["bads"] = ["Oz"]
    epochs.save(tmp_path / "a-epo.fif")
    found = load_samples(tmp_path / "a-epo.fif")
    check_epochs(found)
    assert "marked as bad were left out: Oz" in found.notes[0]
    assert "that do not hold data were left out: EOG (EOG)" in found.notes[1]


def test_eeglab_files_as_mne_exports_them(tmp_path):
    pytest.importorskip("eeglabio", reason="eeglabio is not installed")
    mne.export.export_epochs(tmp_path / "a.set", made())
    check_epochs(load_samples(tmp_path / "a.set"), 1e6)
    np.testing.assert_allclose(mne.read_epochs_eeglab(tmp_path / "a.set").get_data(), X, rtol=1e-4)
    raw = recording()
    mne.export.export_raw(tmp_path / "r.set", raw)
    found = load_samples(tmp_path / "r.set", tmin=-0.1, tmax=0.2)
    np.testing.assert_allclose(found.data, 1e6 * cut(raw, -10, 21), rtol=1e-4)
    assert found.target.tolist() == NAMES


def recording():
    info = mne.create_info(CHANNELS, SFREQ, "eeg")
    raw = mne.io.RawArray(1e-5 * np.random.default_rng(1).normal(size=(3, 500)), info)
    return raw.set_annotations(mne.Annotations(AT / SFREQ, 0.1, NAMES))


def cut(raw, begin, end):
    return np.array([raw.get_data()[:, at + begin : at + end] for at in AT])


def test_recordings_of_mne(tmp_path, monkeypatch):
    raw = recording()
    raw.save(tmp_path / "a_raw.fif")
    monkeypatch.chdir(tmp_path)
    # page: A recording is cut around its events, as `mne.Epochs` does it:
    from tensormargin.io import load_samples

    study = load_samples("a_raw.fif", events=["left", "right"], tmin=-0.1, tmax=0.2)
    study.data.shape, study.target, study.axes  # (samples, channels, times), names of events, channels and ms
    # page ends
    assert study.target.tolist() == NAMES
    found = load_samples(tmp_path / "a_raw.fif", tmin=-0.1, tmax=0.2)
    np.testing.assert_allclose(found.data, cut(raw, -10, 21), rtol=1e-5)
    assert (found.target.tolist(), found.kind) == (NAMES, "MNE recording, cut around events")
    events, codes = mne.events_from_annotations(raw)
    epochs = mne.Epochs(raw, events, codes, tmin=-0.1, tmax=0.2, baseline=None)
    np.testing.assert_allclose(found.data, epochs.get_data(), rtol=1e-5)
    np.testing.assert_allclose(found.axes[1].values, 1000 * epochs.times)
    stim = mne.io.RawArray(np.zeros((1, 500)), mne.create_info(["STI"], SFREQ, "stim"))
    stim._data[0, AT] = np.arange(6) % 2 + 1
    coded = raw.copy().set_annotations(None).add_channels([stim])
    coded.crop(0.2).save(tmp_path / "b_raw.fif")
    found = load_samples(tmp_path / "b_raw.fif", tmin=-0.1, tmax=0.2)
    np.testing.assert_allclose(found.data, cut(raw, -10, 21), rtol=1e-5)
    assert found.target.tolist() == [1, 2] * 3


def test_brainvision_recordings(tmp_path):
    pybv = pytest.importorskip("pybv", reason="pybv is not installed")
    raw = recording()
    marks = [
        {"onset": int(at), "duration": 1, "description": number % 2 + 1, "type": "Stimulus"}
        for number, at in enumerate(AT)
    ]
    pybv.write_brainvision(
        data=raw.get_data(), sfreq=SFREQ, ch_names=CHANNELS, fname_base="r", folder_out=tmp_path, events=marks
    )
    path = tmp_path / "r.vhdr"
    with pytest.raises(BadFileError, match=r"continuous recording with the events Stimulus/S +1 \(3\).*--tmin"):
        load_samples(path)
    found = load_samples(path, tmin=-0.1, tmax=0.2)
    np.testing.assert_allclose(found.data, cut(raw, -10, 21), rtol=1e-3, atol=1e-9)
    assert found.axes[0].values.tolist() == CHANNELS
    assert len(load_samples(path, tmin=0, tmax=0.1, events="S1").data) == 3
    (tmp_path / "e.tsv").write_text("onset\ttrial_type\n" + "\n".join(f"{at / SFREQ}\tany" for at in AT))
    table = load_samples(path, tmin=-0.1, tmax=0.2, events=tmp_path / "e.tsv")
    np.testing.assert_array_equal(table.data, found.data)
    (tmp_path / "in").mkdir()
    text = path.read_text(encoding="utf-8")
    for line in ("DataFile=../r.eeg", f"DataFile: {tmp_path / 'r.eeg'}"):
        (tmp_path / "in" / "r.vhdr").write_text(text.replace("DataFile=r.eeg", line), encoding="utf-8")
        with pytest.raises(BadFileError, match="leads out of"):
            load_samples(tmp_path / "in" / "r.vhdr", tmin=0, tmax=0.1)
    # As MNE decodes this header, the name of the marker file is "../r.vmrk".
    text = text.replace("Codepage=UTF-8", "Codepage=UTF-7").replace("µV", "uV").replace("=r.vmrk", "=+AC4ALgAv-r.vmrk")
    (tmp_path / "in" / "r.vhdr").write_text(text, encoding="utf-8")
    (tmp_path / "in" / "r.eeg").write_bytes((tmp_path / "r.eeg").read_bytes())
    (tmp_path / "in" / "+AC4ALgAv-r.vmrk").write_bytes((tmp_path / "r.vmrk").read_bytes())
    with pytest.raises(BadFileError, match=r"\.\./r\.vmrk leads out of"):
        load_samples(tmp_path / "in" / "r.vhdr", tmin=0, tmax=0.1)


def test_parts_of_a_recording_must_be_in_its_folder(tmp_path):
    """A .fif file names the next part; one elsewhere is not opened."""
    raw = mne.io.RawArray(np.zeros((3, 200_000)), mne.create_info(CHANNELS, SFREQ, "eeg"))
    raw.set_annotations(mne.Annotations(AT / SFREQ, 0.1, NAMES))
    raw.save(tmp_path / "long_raw.fif", split_size="1.1MB")
    assert (tmp_path / "long_raw-1.fif").exists()
    assert len(load_samples(tmp_path / "long_raw.fif", tmin=0, tmax=0.1).data) == 6
    (tmp_path / "in").mkdir()
    (tmp_path / "long_raw.fif").rename(tmp_path / "in" / "long_raw.fif")
    (tmp_path / "in" / "long_raw-1.fif").symlink_to(tmp_path / "long_raw-1.fif")
    with pytest.raises(BadFileError, match="leads out of"):
        load_samples(tmp_path / "in" / "long_raw.fif", tmin=0, tmax=0.1)


def test_damaged_files(tmp_path):
    made().save(tmp_path / "a-epo.fif")
    content = (tmp_path / "a-epo.fif").read_bytes()
    for cut_at in (0, 10, 500, len(content) // 2):
        (tmp_path / "a-epo.fif").write_bytes(content[:cut_at])
        with pytest.raises(BadFileError, match=r"a-epo\.fif"):
            load_samples(tmp_path / "a-epo.fif")


def test_epochs_objects_know_their_axes():
    from tensormargin.data import as_samples, axes_in

    epochs = made()
    for one in (epochs, epochs.compute_psd(fmax=40), epochs.compute_tfr("morlet", freqs=[20.0, 30.0], n_cycles=1)):
        axes = axes_in(one)
        assert tuple(len(axis.values) for axis in axes) == as_samples(one).shape[1:]
        assert axes[0].values.tolist() == CHANNELS
    np.testing.assert_allclose(axes_in(epochs)[1].values, TIMES)
    assert axes_in(epochs.get_data()) is None


@pytest.mark.parametrize("ending", [".fif", ".vhdr", ".set"])
def test_bids_recordings_are_cut_around_the_tables_beside_them(ending, tmp_path):
    """Several recordings, each with a table of events; subjects are groups, or runs of a single subject."""
    raw, study = recording(), tmp_path / "study"
    for subject, number in (("01", 1), ("01", 2), ("02", 1)):
        folder = study / f"sub-{subject}" / "eeg"
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"sub-{subject}_task-hands_run-{number}"
        save_as(ending, raw, folder / f"{stem}_eeg{ending}")
        names = NAMES if number == 1 else [*NAMES[:5], "n/a"]
        rows = [f"{at / SFREQ}\t0.1\t{name}" for at, name in zip(AT, names, strict=True)]
        (folder / f"{stem}_events.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *rows]))
        confounds = np.random.default_rng(number).normal(size=(500, 2))
        table = "\n".join(["a\tb", *("\t".join(map(str, row)) for row in confounds)])
        (folder / f"{stem}_desc-confounds_timeseries.tsv").write_text(table)
    found = load_samples(study, tmin=-0.1, tmax=0.2)
    assert found.target.tolist() == [*NAMES, *NAMES[:5], *NAMES]
    assert found.groups.tolist() == ["sub-01"] * 11 + ["sub-02"] * 6
    factor = 1e6 if ending == ".set" else 1
    np.testing.assert_allclose(found.data[:6], factor * cut(raw, -10, 21), rtol=1e-3, atol=1e-9 * factor)
    assert found.axes[0].values.tolist() == CHANNELS
    of_one = load_samples(study / "sub-01" / "eeg", tmin=-0.1, tmax=0.2)
    assert [len(set(of_one.groups[part].tolist())) for part in (slice(0, 6), slice(6, None))] == [1, 1]
    cleaned = load_samples(study / "sub-01" / "eeg", tmin=-0.1, tmax=0.2, run_confounds="*")
    values = raw.get_data() if ending != ".set" else 1e6 * raw.get_data()
    design = np.column_stack([np.ones(500), np.random.default_rng(2).normal(size=(500, 2))])
    slopes = np.linalg.lstsq(design, values.T, rcond=None)[0][1:]
    left = values - ((design - design.mean(axis=0))[:, 1:] @ slopes).T
    np.testing.assert_allclose(cleaned.data[6], left[:, AT[0] - 10 : AT[0] + 21], rtol=1e-3, atol=1e-8 * factor)


def save_as(ending, raw, path):
    if ending == ".fif":
        raw.save(path)
    elif ending == ".set":
        pytest.importorskip("eeglabio", reason="eeglabio is not installed")
        mne.export.export_raw(path, raw)
    else:
        pytest.importorskip("pybv", reason="pybv is not installed")
        mne.export.export_raw(path, raw)


def test_someone_with_a_file_of_epochs(tmp_path):
    for name, n in (("study", 24), ("new", 10)):
        codes = 1 + np.arange(n) % 2
        data = np.random.default_rng(n).normal(size=(n, 3, 24))
        data[codes == 1, :, :12] += 1.5
        events = np.column_stack([40 * np.arange(n), np.zeros(n, int), codes])
        info = mne.create_info(CHANNELS, SFREQ, "eeg")
        epochs = mne.EpochsArray(1e-6 * data, info, events, event_id={"left": 1, "right": 2})
        epochs.save(tmp_path / f"{name}-epo.fif")
    with fewer_models("auto_model", lams=(1,), mus=(1,)), fewer_folds(), undrawn_figures():
        fitted = run("fit", "study-epo.fif", cwd=tmp_path)
    assert "treated as EEG" in fitted.stderr
    about = load_model(tmp_path / "study-epo.skops").facts["about"]
    assert about["evaluation"]["accuracy"] > 0.75
    assert "What this does not show" in (tmp_path / "study-epo.html").read_text(encoding="utf-8")
    predicted = run("predict", "study-epo.skops", "new-epo.fif", "-o", "new.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    with (tmp_path / "new.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["left", "right"] * 5
    assert np.mean([row["predicted"] == row["label"] for row in rows]) >= 0.8
