"""Tests of EEGLAB and FieldTrip files, structures in MATLAB files, and samples that are cut around events."""

from __future__ import annotations

import os

import h5py
import nibabel
import numpy as np
import pytest
from conftest import run_process
from scipy.io import savemat

from tensormargin import LeakageWarning
from tensormargin.io import BadFileError, load_samples, load_views, read_arrays
from tensormargin.transformers import Detrend

SFREQ, CHANNELS, POINTS, TRIALS = 100.0, ["Fz", "Cz", "Pz"], 20, 6
X = np.random.default_rng(0).normal(size=(TRIALS, len(CHANNELS), POINTS))
NAMES = np.array(["left", "right"] * 3)
TIMES = -50 + 10.0 * np.arange(POINTS)


def records(**columns):
    """Return an array of MATLAB structures with these fields."""
    n_records = len(next(iter(columns.values())))
    found = np.zeros((1, n_records), dtype=[(name, object) for name in columns])
    for name, values in columns.items():
        for place, value in enumerate(values):
            found[0, place][name] = value
    return found


def cells(values):
    found = np.empty((1, len(values)), object)
    for place, value in enumerate(values):
        found[0, place] = value
    return found


def eeglab(data=None, **more):
    """Return a data set of epochs; the event at time 0 of each comes with another one at its end."""
    zero = 5 + POINTS * np.arange(TRIALS)
    event = records(
        type=[name for one in NAMES for name in ("response", one)],
        latency=[float(at) + 1 for start in zero for at in (start + 12, start)],
        epoch=[number + 1.0 for number in range(TRIALS) for _ in range(2)],
        part=[number // 2 + 1.0 for number in range(TRIALS) for _ in range(2)],
    )
    return {
        "data": np.moveaxis(X, 0, 2) if data is None else data,
        "srate": SFREQ,
        "nbchan": float(len(CHANNELS)),
        "pnts": float(POINTS),
        "trials": float(TRIALS),
        "xmin": -0.05,
        "chanlocs": records(labels=CHANNELS, theta=[1.0, np.array([]), 3.0]),
        "event": event,
        "etc": {"note": "any", "inner": {"deep": np.ones((3, 4))}},
    } | more


def fieldtrip(**more):
    time = (np.arange(POINTS) * 0.01 - 0.05)[None]
    return {
        "trial": cells(list(X)),
        "time": cells([time] * TRIALS),
        "label": cells(CHANNELS).T,
        "fsample": SFREQ,
        "trialinfo": np.array([1.0, 2] * 3)[:, None],
        "cfg": {"method": "any", "previous": cells([{"a": 1.0}])},
    } | more


def write_mat73(path, **variables):
    """Write structures as MATLAB 7.3 does: groups, and arrays of structures as references to each value."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _put(file, file, name, value)


def _put(file, group, name, value):
    if isinstance(value, dict):
        inner = group.create_group(name)
        inner.attrs["MATLAB_class"] = np.bytes_("struct")
        for field, own in value.items():
            _put(file, inner, field, own)
    elif isinstance(value, str):
        group[name] = np.array([[ord(letter)] for letter in value], "u2")
        group[name].attrs["MATLAB_class"] = np.bytes_("char")
    elif isinstance(value, np.ndarray) and value.dtype.names:
        inner = group.create_group(name)
        for field in value.dtype.names:
            _put(file, inner, field, cells([one[field] for one in value[0]]))
    elif isinstance(value, np.ndarray) and value.dtype == object:
        references = group.create_dataset(name, value.shape[::-1], h5py.ref_dtype)
        for place, cell in np.ndenumerate(value):
            place_name = f"{len(file.require_group('#refs#'))}"
            _put(file, file["#refs#"], place_name, cell)
            references[place[::-1]] = file["#refs#"][place_name].ref
    else:
        value = np.atleast_2d(value)
        group[name] = value.T if value.size else np.array([0, 0], "u8")
        if not value.size:
            group[name].attrs["MATLAB_empty"] = 1


def write_mat5(path, **variables):
    savemat(path, variables)


def write_packed(path, **variables):
    savemat(path, variables, do_compression=True)


WRITERS = [write_mat5, write_packed, write_mat73]


def check_epochs(found, rtol=0):
    np.testing.assert_allclose(found.data, X, rtol=rtol)
    assert found.target.tolist() == NAMES.tolist()
    assert (found.field, found.sfreq) == ("eeg", SFREQ)
    assert [axis.label for axis in found.axes] == ["channel", "time (ms)"]
    assert found.axes[0].values.tolist() == CHANNELS
    np.testing.assert_allclose(found.axes[1].values, TIMES)


def refused(path, *words, **options):
    with pytest.raises(BadFileError) as caught:
        load_samples(path, **options)
    for word in (path.name, *words):
        assert word in str(caught.value), str(caught.value)


# ---- structures in MATLAB files ----


@pytest.mark.parametrize("write", WRITERS)
def test_fields_of_structures_have_names(write, tmp_path):
    path = tmp_path / "a.mat"
    write(path, S={"X": X, "y": NAMES_CELLS, "inner": {"z": np.ones((2, 3))}, "name": "any"}, other=np.ones((2, 2)))
    held = read_arrays(path)
    assert {"S/X", "S/y", "S/inner/z", "S/name", "other"} <= set(held)
    np.testing.assert_array_equal(held["S/X"], X)
    found = load_samples(path, samples="S/X", labels="S/y")
    np.testing.assert_array_equal(found.data, X)
    assert found.target.tolist() == NAMES.tolist()
    refused(path, "S/X (6, 3, 20)", "S/inner/z (2, 3)", "--labels", samples="S/X")
    refused(path, "S/X (6, 3, 20)", "--samples", samples="T", labels="S/y")


NAMES_CELLS = cells(NAMES.tolist())


def test_large_fields_are_read_when_they_are_asked_for(tmp_path):
    large = np.random.default_rng(0).normal(size=(4, 200, 300))
    for packed in (False, True):
        savemat(tmp_path / "a.mat", {"S": {"inner": {"X": large}, "y": [1, 2, 1, 2]}}, do_compression=packed)
        found = load_samples(tmp_path / "a.mat", samples="S/inner/X", labels="S/y")
        np.testing.assert_array_equal(found.data, large)
        lazy = load_samples(tmp_path / "a.mat", samples="S/inner/X", labels="S/y", lazy=True)
        np.testing.assert_array_equal(lazy.data.compute(), large)


def test_arrays_beside_structures_are_found_as_before(tmp_path):
    savemat(tmp_path / "a.mat", {"A": X, "y": [1, 2] * 3, "info": {"table": np.ones((3, 4))}})
    np.testing.assert_array_equal(load_samples(tmp_path / "a.mat").data, X)


# ---- EEGLAB ----


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("ending", ["set", "mat"])
@pytest.mark.parametrize("in_structure", [True, False])
def test_eeglab_epochs(write, ending, in_structure, tmp_path):
    path = tmp_path / f"a.{ending}"
    write(path, **({"EEG": eeglab()} if in_structure else eeglab()))
    found = load_samples(path)
    check_epochs(found)
    assert found.kind == "EEGLAB epochs"
    assert load_samples(path, groups="part").groups.tolist() == [1, 1, 2, 2, 3, 3]
    assert load_samples(path, labels="part").target.tolist() == [1, 1, 2, 2, 3, 3]
    refused(path, "event", "part", labels="nothing")


def test_columns_that_look_like_groups_are_pointed_out(tmp_path):
    event = records(type=NAMES, latency=6.0 + POINTS * np.arange(6), epoch=1.0 + np.arange(6), run=[1.0, 1, 1, 2, 2, 2])
    savemat(tmp_path / "a.set", {"EEG": eeglab(event=event)})
    with pytest.warns(LeakageWarning, match="--groups run"):
        load_samples(tmp_path / "a.set")


def test_eeglab_values_in_an_fdt_file(tmp_path):
    path = tmp_path / "a.set"
    savemat(path, {"EEG": eeglab("C:\\recorded\\before.fdt")})
    refused(path, "before.fdt", "not beside it")
    np.moveaxis(X, 0, 2).astype("<f4").ravel(order="F").tofile(tmp_path / "a.fdt")
    check_epochs(load_samples(path), rtol=1e-6)
    (tmp_path / "a.fdt").rename(tmp_path / "before.fdt")
    check_epochs(load_samples(path), rtol=1e-6)
    with (tmp_path / "before.fdt").open("ab") as file:
        file.write(b"1234")
    with pytest.raises(BadFileError, match=r"before\.fdt: must have 1440 bytes.*it has 1444"):
        load_samples(path)
    (tmp_path / "in").mkdir()
    (tmp_path / "before.fdt").rename(tmp_path / "secret.fdt")
    (tmp_path / "in" / "before.fdt").symlink_to(tmp_path / "secret.fdt")
    path.rename(tmp_path / "in" / "a.set")
    refused(tmp_path / "in" / "a.set", "leads out of")
    savemat(path, {"EEG": eeglab("a.dat")})
    refused(path, ".fdt")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"nbchan": 4.0}, ("data must be numbers of shape (4, 20, 6)",)),
        ({"srate": 0.0}, ("srate must be", "Hz")),
        ({"pnts": np.nan}, ("pnts must be one number",)),
        ({"trials": 2.5}, ("trials must be a whole number",)),
        ({"event": np.array([])}, ("has no labels", "--labels-from")),
    ],
)
def test_eeglab_fields_that_do_not_fit(more, words, tmp_path):
    savemat(tmp_path / "a.set", {"EEG": eeglab(**more)})
    refused(tmp_path / "a.set", *words)


def continuous_eeglab(path):
    """Write a continuous data set with an event every 25 time points."""
    series = np.random.default_rng(1).normal(size=(len(CHANNELS), 200))
    at = 10 + 25 * np.arange(7)
    event = records(
        type=["boundary", *NAMES], latency=[0.5, *(float(one) + 1 for one in at[:6])], duration=[np.nan, *[10.0] * 6]
    )
    data = {"pnts": 200.0, "trials": 1.0, "event": event, "epoch": np.array([])}
    savemat(path, {"EEG": eeglab(series, **data)})
    return series, at[:6]


def test_continuous_eeglab_is_cut_around_its_events(tmp_path):
    path = tmp_path / "a.set"
    series, at = continuous_eeglab(path)
    refused(path, "continuous recording", "left (3), right (3)", "--tmin")
    found = load_samples(path, tmin=-0.05, tmax=0.14)
    np.testing.assert_array_equal(found.data, [series[:, one - 5 : one + 15] for one in at])
    np.testing.assert_allclose(found.axes[1].values, TIMES)
    assert found.target.tolist() == NAMES.tolist()
    some = load_samples(path, tmin=0, events="right")
    np.testing.assert_array_equal(some.data, [series[:, one : one + 10] for one in at[1::2]])
    late = load_samples(path, tmin=0.0, tmax=0.1, delay=0.03, events=["left", "right"])
    np.testing.assert_array_equal(late.data, [series[:, one + 3 : one + 14] for one in at])
    long = load_samples(path, tmin=-0.2, tmax=0.1)
    assert len(long.data) == 5
    assert "1 of 6 events were left out" in long.notes[0]
    refused(path, "no events middle", "left (3)", events="middle", tmin=0, tmax=0.1)
    refused(path, "lasts 2 s", tmin=5, tmax=6)
    slower = load_samples(path, tmin=-0.1, tmax=0.28, sfreq=50)  # the option overrides the file, also for its events
    np.testing.assert_array_equal(slower.data, found.data)
    assert slower.sfreq == 50
    assert "states a sampling frequency of 100 Hz; 50 is used" in slower.notes[-1]


def test_epochs_are_cropped_and_chosen(tmp_path):
    savemat(tmp_path / "a.set", {"EEG": eeglab()})
    found = load_samples(tmp_path / "a.set", tmin=0, tmax=0.1)
    np.testing.assert_array_equal(found.data, X[..., 5:16])
    np.testing.assert_allclose(found.axes[1].values, TIMES[5:16])
    chosen = load_samples(tmp_path / "a.set", events="left")
    np.testing.assert_array_equal(chosen.data, X[::2])
    assert set(chosen.target) == {"left"}
    refused(tmp_path / "a.set", "-0.05 to 0.14 s", tmin=1)
    refused(tmp_path / "a.set", "is cut into epochs already", detrend=1)


# ---- FieldTrip ----


@pytest.mark.parametrize("write", WRITERS)
def test_fieldtrip_trials(write, tmp_path):
    path = tmp_path / "a.mat"
    write(path, data=fieldtrip())
    found = load_samples(path)
    np.testing.assert_array_equal(found.data, X)
    assert found.target.tolist() == [1, 2] * 3
    assert (found.field, found.sfreq, found.kind) == ("eeg", SFREQ, "FieldTrip trials")
    assert found.axes[0].values.tolist() == CHANNELS
    np.testing.assert_allclose(found.axes[1].values, TIMES)


@pytest.mark.parametrize("write", WRITERS)
def test_fieldtrip_timelock_and_power(write, tmp_path):
    path = tmp_path / "a.mat"
    write(path, tl=fieldtrip(trial=X, time=TIMES[None] / 1000, dimord="rpt_chan_time", fsample=np.array([])))
    found = load_samples(path)
    np.testing.assert_array_equal(found.data, X)
    assert found.sfreq == pytest.approx(SFREQ)
    np.testing.assert_allclose(found.axes[1].values, TIMES)
    power = np.abs(X).reshape(TRIALS, 3, 4, 5)
    freq = {name: value for name, value in fieldtrip().items() if name not in ("trial", "fsample")}
    freq |= {"powspctrm": power, "dimord": "rpt_chan_freq_time", "freq": np.array([[4.0, 8, 12, 16]])}
    write(path, freq=freq | {"time": TIMES[None, :5] / 1000})
    found = load_samples(path)
    np.testing.assert_array_equal(found.data, power)
    assert [axis.label for axis in found.axes] == ["channel", "frequency (Hz)", "time (ms)"]
    assert found.axes[1].values.tolist() == [4, 8, 12, 16]
    write(path, freq=freq | {"dimord": "chan_freq_time", "powspctrm": power[0]})
    refused(path, "rpt", "chan_freq_time", "keeptrials")


def test_fieldtrip_columns_of_trialinfo(tmp_path):
    info = np.column_stack([[1, 2] * 3, [5, 5, 6, 6, 7, 7]]).astype(float)
    savemat(tmp_path / "a.mat", {"data": fieldtrip(trialinfo=info)})
    refused(tmp_path / "a.mat", "trialinfo1, trialinfo2", "--labels")
    found = load_samples(tmp_path / "a.mat", labels="trialinfo1", groups="trialinfo2")
    assert (found.target.tolist(), found.groups.tolist()) == ([1, 2] * 3, [5, 5, 6, 6, 7, 7])
    confounds = load_samples(tmp_path / "a.mat", labels="trialinfo1", confounds="trialinfo2").confounds
    assert confounds["trialinfo2"].tolist() == [5, 5, 6, 6, 7, 7]


@pytest.mark.parametrize("write", [write_mat5, write_mat73])
def test_fieldtrip_trials_of_different_lengths(write, tmp_path):
    trials = [trial[:, : 10 + number] for number, trial in enumerate(X)]
    times = [TIMES[None, : trial.shape[1]] / 1000 for trial in trials]
    write(tmp_path / "a.mat", data=fieldtrip(trial=cells(trials), time=cells(times)))
    refused(tmp_path / "a.mat", "10 to 15 time points", "--length")
    found = load_samples(tmp_path / "a.mat", ragged=True)
    assert found.sample_shape == (3, None)
    for own, trial in zip(found.data, trials, strict=True):
        np.testing.assert_array_equal(own, trial)


def test_several_recordings_in_a_file(tmp_path):
    savemat(tmp_path / "a.mat", {"first": fieldtrip(), "second": eeglab()})
    refused(tmp_path / "a.mat", "several recordings, first, second", "--samples")
    assert load_samples(tmp_path / "a.mat", samples="second").kind == "EEGLAB epochs"
    plain = load_samples(tmp_path / "a.mat", samples="second/data", need_labels=False, axis=2)
    np.testing.assert_array_equal(plain.data, X)


def test_recordings_as_views(tmp_path):
    savemat(tmp_path / "eeg.set", {"EEG": eeglab()})
    savemat(tmp_path / "meg.mat", {"data": fieldtrip(trialinfo=np.array([]))})
    np.save(tmp_path / "ages.npy", np.arange(6.0))
    found = load_views(tmp_path / "eeg.set", {"meg": tmp_path / "meg.mat", "age": tmp_path / "ages.npy"})
    assert found.target.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(found.data["meg"], X)
    assert found.axes["eeg"][0].values.tolist() == found.axes["meg"][0].values.tolist() == CHANNELS
    lazy = load_views(tmp_path / "eeg.set", {"meg": tmp_path / "meg.mat"}, lazy=True)
    np.testing.assert_array_equal(lazy.data.compute()["eeg"] if hasattr(lazy.data, "compute") else lazy.data["eeg"], X)


# ---- events ----


def write_events(path, onset, **columns):
    separator = "\t" if path.suffix == ".tsv" else ","
    rows = zip(onset, *columns.values(), strict=True)
    lines = [("onset", *columns), *rows]
    path.write_text("\n".join(separator.join(map(str, line)) for line in lines))
    return path


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_arrays_are_cut_around_a_table_of_events(ending, tmp_path):
    series = np.random.default_rng(2).normal(size=(3, 500)).astype(np.float32)
    np.save(tmp_path / "a.npy", series)
    at = np.array([20, 100, 260, 400, 498])
    kinds = ["a", "b", "n/a", "b", "a"]
    events = write_events(
        tmp_path / f"e.{ending}", at / 50, duration=["0.2"] * 5, trial_type=kinds, run=[1, 1, 2, 2, 2], rt=[1.5] * 5
    )
    options = {"events": events, "sfreq": 50}
    found = load_samples(tmp_path / "a.npy", tmin=-0.1, tmax=0.1, groups="run", confounds="rt", **options)
    np.testing.assert_array_equal(found.data, [series[:, one - 5 : one + 6] for one in (20, 100, 400)])
    assert found.data.dtype == np.float32
    assert (found.target.tolist(), found.groups.tolist()) == (["a", "b", "b"], [1, 1, 2])
    assert found.confounds["rt"].tolist() == [1.5] * 3
    assert found.axes[1].label == "time (ms)"
    assert any("without a value of trial_type" in note for note in found.notes)
    as_long = load_samples(tmp_path / "a.npy", groups=False, **options)
    np.testing.assert_array_equal(as_long.data, [series[:, one : one + 10] for one in (20, 100, 400)])
    refused(tmp_path / "a.npy", "sampling frequency", "--sfreq", events=events)
    refused(tmp_path / "a.npy", "--tmin", "does not apply here", tmin=0, need_labels=False)
    straight = load_samples(tmp_path / "a.npy", detrend=1, groups=False, **options).data
    expected = Detrend(1).fit_transform(series.T, groups=np.zeros(500)).T
    np.testing.assert_allclose(straight, [expected[:, one : one + 10] for one in (20, 100, 400)], rtol=1e-5)


def test_volumes_are_averaged_around_events(tmp_path):
    volumes = np.random.default_rng(3).normal(size=(2, 3, 4, 40)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(volumes, np.diag([3.0, 3, 3, 1])), tmp_path / "a.nii")
    events = write_events(tmp_path / "e.tsv", [0, 20, 40.5, 76], duration=[8, 8, 0, 8], trial_type=[*"abab"])
    options = {"events": events, "tr": 2.0}
    found = load_samples(tmp_path / "a.nii", **options)
    expected = [volumes[..., 0:4].mean(-1), volumes[..., 10:14].mean(-1), volumes[..., 20]]
    np.testing.assert_allclose(found.data, expected, rtol=1e-5)
    assert found.target.tolist() == ["a", "b", "a"]
    assert "1 of 4 events were left out" in found.notes[-1]
    np.testing.assert_array_equal(found.affine, np.diag([3.0, 3, 3, 1]))
    later = load_samples(tmp_path / "a.nii", delay=4, tmin=0, tmax=2, **options).data
    np.testing.assert_allclose(later[0], volumes[..., 2:4].mean(-1), rtol=1e-5)
    straight = load_samples(tmp_path / "a.nii", detrend=2, **options).data
    series = Detrend(2).fit_transform(np.moveaxis(volumes, -1, 0), groups=np.zeros(40))
    np.testing.assert_allclose(straight[0], series[:4].mean(0), rtol=1e-4, atol=1e-6)
    lazy = load_samples(tmp_path / "a.nii", lazy=True, detrend=2, **options).data
    np.testing.assert_allclose(lazy.compute(), straight, rtol=1e-4, atol=1e-6)
    refused(tmp_path / "a.nii", "--tr", events=events)
    refused(tmp_path / "a.nii", "--tmin", "does not apply here", tmin=1, need_labels=False)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"start": [1, 2], "trial_type": [*"ab"]}, ("column onset", "start")),
        ({"onset": ["x", 2], "trial_type": [*"ab"]}, ("row 1 has 'x'",)),
        ({"onset": ["inf", 2], "trial_type": [*"ab"]}, ("row 1",)),
        ({"onset": [1, 2], "duration": ["long", 2]}, ("duration", "row 1")),
        ({"onset": ["1e300", -1e300], "trial_type": [*"ab"]}, ("lasts 5 s", "--tmin")),
        ({"onset": [1, 2], "kind": [*"ab"]}, ("has no labels", "kind", "--labels")),
    ],
)
def test_events_that_cannot_be_used(columns, words, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 500)))
    lines = ["\t".join(columns), *("\t".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "e.tsv").write_text("\n".join(lines))
    with pytest.raises(BadFileError) as caught:
        load_samples(tmp_path / "a.npy", events=tmp_path / "e.tsv", sfreq=100, tmin=0, tmax=0.1)
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tmin": np.nan}, "--tmin"),
        ({"tmin": 1, "tmax": 0.5}, "--tmax"),
        ({"tr": 0}, "--tr"),
        ({"sfreq": -1.0}, "--sfreq"),
        ({"detrend": -1}, "--detrend"),
        ({"events": "missing.tsv"}, "--events"),
        ({"events": []}, "--events"),
    ],
)
def test_windows_that_make_no_sense(options, words, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 500)))
    with pytest.raises(ValueError, match=words):
        load_samples(tmp_path / "a.npy", **options)


def test_a_package_that_a_parser_needs_is_told_from_a_damaged_file(tmp_path, monkeypatch):
    (tmp_path / "installed").mkdir()
    text = "raise ModuleNotFoundError(\"No module named 'pooch.utils'\", name='pooch.utils')"
    (tmp_path / "installed" / "mne.py").write_text(text, encoding="utf-8")
    (tmp_path / "a-epo.fif").write_bytes(b"any")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"), prepend=os.pathsep)
    done = run_process("fit", tmp_path / "a-epo.fif", "--dry-run")
    assert done.returncode == 2
    assert "a-epo.fif: a package that reading this file needs is missing (No module named 'pooch.utils')" in done.stderr
    assert "pip install pooch\n" in done.stderr
    assert "damaged" not in done.stderr


def test_files_of_mne_need_mne(tmp_path, monkeypatch):
    monkeypatch.setattr("tensormargin.data.limits.find_spec", lambda name: None)
    for name in ("a-epo.fif", "a.fif.gz", "a.vhdr"):
        (tmp_path / name).write_bytes(b"anything")
        refused(tmp_path / name, "needs mne", "pip install 'tensormargin[eeg]'")
