"""Axes follow transformers and models, and come from xarray DataArrays and data frames."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from tensormargin import (
    AnovaMask,
    Axis,
    BandPower,
    Connectome,
    Convolutions,
    Covariances,
    Crop,
    Decimate,
    Deconfound,
    Detrend,
    Differences,
    EqualLength,
    Impute,
    Mask,
    ModeMap,
    Project,
    Resize,
    Smooth,
    Spectra,
    Tensorize,
    TensorKernel,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorScaler,
    TensorUnion,
    Views,
    ViewTransformer,
    Whiten,
    Xdawn,
    any_scale,
)
from tensormargin.data import axes_in
from tensormargin.evaluation import FitPlan, with_kind
from tensormargin.inspection import ModelChain
from tensormargin.io import SampleSet
from tensormargin.runtime import note
from tensormargin.selection import guess_kind
from tensormargin.transformers import Recipe, with_mode_numbers

NAMES = ["Fz", "Cz", "Pz", "Oz"]
AXES = (Axis("channel", "", NAMES), Axis("time", "ms", 4.0 * np.arange(32) - 20))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4, 32))
Y = np.arange(24) % 2
BAND = {"bands": [(10, 30)], "sfreq": 250.0}


def array(values=X, names=NAMES, dims=("trial", "channel", "time"), start=-20.0):
    xarray = pytest.importorskip("xarray")
    times = start + 4.0 * np.arange(values.shape[-1])
    found = xarray.DataArray(values, dims=dims, coords={"channel": list(names), "time": times})
    found.time.attrs["units"] = "ms"
    return found


def fitted(transformer, samples=X):
    return transformer.fit(samples, Y, confounds=RNG.normal(size=(24, 1)))


class TestTransformers:
    @pytest.mark.parametrize(
        "transformer",
        [
            *(Smooth(2.0), TensorScaler(), Mask(), Whiten(), AnovaMask(), Spectra("snv"), Spectra(None, 1, 5)),
            *(Impute(), Detrend(mode=-1), Deconfound(), ModeMap(np.eye(4), mode=0), EqualLength(), Tensorize((4, 32))),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_that_keep_modes_keep_their_axes(self, transformer):
        assert fitted(transformer).axes_out(AXES) == AXES

    @pytest.mark.parametrize(
        ("transformer", "time"),
        [
            (Differences(2), AXES[1].values[1:-1]),
            (Differences(1), AXES[1].values[:-1] + 2),
            (Decimate(4), AXES[1].values[::4]),
            (Resize((4, 16)), AXES[1].values[::2] + 2),
            (EqualLength(64), -21.0 + 2 * np.arange(64)),
            (EqualLength(40, "edge"), 4.0 * np.arange(40) - 20),
            (EqualLength(10, "edge"), 4.0 * np.arange(10) - 20),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_that_resample_time_resample_its_coordinates(self, transformer, time):
        channel, found = fitted(transformer).axes_out(AXES)
        assert channel == AXES[0]
        assert (found.name, found.unit) == ("time", "ms")
        assert np.allclose(found.values, time)

    def test_coordinates_are_those_of_what_a_linear_map_makes_of_a_ramp(self):
        ramp = np.broadcast_to(AXES[1].values, (24, 4, 32))
        for transformer in (Resize((4, 16)), EqualLength(64)):  # inner entries: ends are means of what is there
            values = transformer.fit(X).transform(ramp)[0, 0]
            assert np.allclose(values[1:-1], transformer.axes_out(AXES)[1].values[1:-1])

    def test_crops_cut_coordinates(self):
        mask = np.zeros((4, 32), bool)
        mask[1:3, 5:9] = True
        channel, time = Crop(mask).fit(X).axes_out(AXES)
        assert channel == Axis("channel", "", ["Cz", "Pz"])
        assert time == Axis("time", "ms", AXES[1].values[5:9])

    def test_names_cannot_be_resampled(self):
        assert Resize((2, 32)).fit(X).axes_out(AXES)[0] == Axis("channel")

    def test_bands_replace_time(self):
        channel, bands = BandPower({"slow": (20, 60), "fast": (60, 120)}, sfreq=250.0).fit(X).axes_out(AXES)
        assert channel == AXES[0]
        assert bands == Axis("frequency", "", ["slow", "fast"])
        _, bands, windows = BandPower(3, sfreq=250.0, n_windows=2).fit(X).axes_out(AXES)
        assert (bands.name, bands.unit, len(bands.values)) == ("frequency", "Hz", 3)
        assert np.all(np.diff(bands.values) > 0)
        assert np.allclose(windows.values, [np.mean(AXES[1].values[:16]), np.mean(AXES[1].values[16:])])

    def test_matrices_of_channels_have_channels_twice(self):
        assert Covariances().fit(X).axes_out(AXES) == (AXES[0], AXES[0])
        bands = Covariances(bands=[(10, 30)], sfreq=250.0).fit(X).axes_out(AXES)
        assert bands == (AXES[0], AXES[0], Axis("frequency", "", ["10-30 Hz"]))
        (pairs,) = Covariances(vectorize=True).fit(X).axes_out(AXES)
        assert pairs.values[:3].tolist() == ["Fz, Fz", "Fz, Cz", "Fz, Pz"]
        (pairs,) = Connectome("series", vectorize=True).fit(X).axes_out(AXES)
        assert pairs.values.tolist() == ["Fz, Cz", "Fz, Pz", "Fz, Oz", "Cz, Pz", "Cz, Oz", "Pz, Oz"]
        assert Connectome("series").fit(X).axes_out()[0].name == "region"

    def test_components_regions_and_filters_are_new_modes(self):
        assert Project(3, mode=0).fit(X).axes_out(AXES)[0] == Axis("component", "", [1, 2, 3])
        atlas = Project(basis=[7, 0, 2, 2], mode=0).fit(X).axes_out(AXES)[0]
        assert atlas == Axis("region", "", [2, 7])
        assert Xdawn(1).fit(X, Y).axes_out(AXES) == (Axis("filter", "", ["0 1", "1 1"]), AXES[1])

    @pytest.mark.parametrize("channels", ["combine", "each", 2])
    def test_convolutions_have_modes_of_their_own(self, channels):
        convolutions = Convolutions(500, channels=channels).fit(X)
        found = convolutions.axes_out(AXES)
        assert [axis.name for axis in found][-3:] == ["kernel", "dilation", "threshold"]
        assert np.array_equal(found[-2].values, convolutions.dilations_)
        assert (found[0] == AXES[0]) == (channels == "each")

    def test_what_cannot_be_known_is_not_claimed(self):
        assert Tensorize((2, 2, 32)).fit(X).axes_out(AXES) is None
        assert TensorScaler().fit(X).axes_out() is None
        assert TensorKernel("rbf").fit(X).axes_out(AXES) == (Axis("feature"),)

    def test_axes_of_another_shape_are_refused(self):
        with pytest.raises(ValueError, match="got 4 for 3 indices"):
            TensorScaler().fit(X[:, :3]).axes_out(AXES)

    def test_views_have_axes_each(self):
        union = TensorUnion([("raw", "passthrough"), ("power", BandPower(3, 250.0)), ("kernel", TensorKernel())]).fit(X)
        found = union.axes_out(AXES)
        assert found["raw"] == AXES
        assert [axis.name for axis in found["power"]] == ["channel", "frequency"]
        views = Views(eeg=X, age=Y)
        one = ViewTransformer({"eeg": make_pipeline(TensorScaler(), Decimate(2))}).fit(views)
        found = one.axes_out({"eeg": AXES, "age": (Axis("age", "years"),)})
        assert found["eeg"][1].values.tolist() == AXES[1].values[::2].tolist()
        assert found["age"] == (Axis("age", "years"),)
        assert Impute(mask=True).fit(X).axes_out(AXES) == {"samples": AXES, "missing": AXES}


class TestModels:
    def test_give_the_axes_of_the_classifier_and_of_the_maps(self):
        model = make_pipeline(TensorScaler(), Decimate(2), TensorMarginClassifier("cp", 1)).fit(X, Y)
        assert ModelChain.of(model).axes_at_classifier(AXES)[1].values.tolist() == AXES[1].values[::2].tolist()
        assert ModelChain.of(model).axes_of_maps(AXES) == AXES

    def test_maps_after_a_representation_have_its_axes(self):
        model = make_pipeline(BandPower(3, 250.0), TensorScaler(), TensorMarginClassifier("cp", 1)).fit(X, Y)
        assert ModelChain.of(model).axes_of_maps(AXES) == model[0].axes_out(AXES)

    def test_of_views_that_steps_made_are_those_of_the_views(self):
        union = TensorUnion([("raw", "passthrough"), ("power", BandPower(3, 250.0))])
        model = make_pipeline(union, TensorMarginClassifier("cp", 1)).fit(X, Y)
        assert ModelChain.of(model).axes_of_maps(AXES) == model[0].axes_out(AXES)

    def test_after_a_step_of_another_library_nothing_is_known(self):
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), TensorMarginClassifier("full")).fit(X[:, 0], Y)
        assert ModelChain.of(model).axes_at_classifier(AXES[1:]) is None
        assert ModelChain.of(model).axes_of_maps(AXES[1:]) == AXES[1:]


class TestDataArrays:
    def test_carry_axes(self):
        assert axes_in(array()) == AXES
        assert axes_in(array().rename({"channel": "dim_1"}).drop_vars("dim_1"))[0] == Axis()
        assert axes_in(X) is None
        assert axes_in({"eeg": array(), "age": Y}) == {"eeg": AXES}

    def test_with_dates_have_no_coordinates(self):
        dates = np.datetime64("2020-01-01") + np.arange(32)
        assert axes_in(array().assign_coords(time=dates))[1] == Axis("time")

    @pytest.mark.parametrize(
        "model",
        [TensorScaler(), TensorMarginClassifier("cp", 1), TensorMarginClassifierCV(("cp",), (1,), lams=(1.0,), cv=2)],
        ids=lambda one: type(one).__name__,
    )
    def test_are_remembered_by_what_is_fitted_to_them(self, model):
        model.fit(array(), Y)
        assert model.axes_in_ == AXES
        use = model.transform if hasattr(model, "transform") else model.predict
        assert np.array_equal(use(array()), use(X))
        for order, names in (([1, 0, 2, 3], NAMES), ([3, 2, 1, 0], [" fz.", "CZ", "pz", "oz"])):
            assert np.array_equal(use(array(X[:, order], [names[k] for k in order])), use(X))
        more = np.concatenate([X[:, :1] + 9, X], axis=1)
        note.cache_clear()
        with pytest.warns(UserWarning, match="which are left out: EOG"):
            assert np.array_equal(use(array(more, ["EOG", *NAMES])), use(X))
        with pytest.raises(ValueError, match="some are there twice"):
            use(array(more, ["fz", "FZ", *NAMES[1:]]))
        note.cache_clear()
        with pytest.warns(
            UserWarning, match=f"fitted to names along a mode, {', '.join(NAMES)}, and X states no names"
        ):
            use(X)
        with pytest.raises(ValueError, match="not the same: Fz missing; A1 additional"):
            use(array(names=["A1", "Cz", "Pz", "Oz"]))
        faster = array().assign_coords(time=np.arange(X.shape[-1]) / 500).assign_attrs()
        faster.time.attrs["units"] = "s"
        with pytest.raises(ValueError, match=r"frequency of the fit; it was 250 Hz along mode 1 .* and is 500 Hz"):
            use(faster)
        with any_scale(), pytest.warns(UserWarning, match="in ms in the fit, and is in s"):
            assert np.array_equal(use(faster), use(array()))
        with pytest.raises(ValueError, match="'channel' and is 'time'"):
            use(array(dims=("trial", "time", "channel"), values=np.swapaxes(X, 1, 2)[:, :4, :4]).isel(time=slice(4)))
        with pytest.warns(UserWarning, match="coordinates of mode 1 .* from -20 ms to 104 ms, and go from 0 ms"):
            use(array(start=0.0))
        model.fit(X, Y)
        assert not hasattr(model, "axes_in_")

    def test_give_a_model_its_axes(self):
        model = make_pipeline(TensorScaler(), Decimate(2), TensorMarginClassifier("cp", 1)).fit(array(), Y)
        assert ModelChain.of(model).axes_of_maps() == AXES
        assert ModelChain.of(model).axes_at_classifier()[1].values[1] == AXES[1].values[2]

    def test_in_views_are_kept_when_samples_are_chosen(self):
        views = Views(eeg=array(), age=Y)
        assert views[:5].sample_axes == views[["eeg"]].sample_axes == {"eeg": AXES}
        assert views.without("eeg").sample_axes is None
        clf = TensorMarginClassifier("cp", 1).fit(views, Y)
        turned = Views(eeg=array(X[:, ::-1], NAMES[::-1]), age=Y)
        np.testing.assert_array_equal(clf.decision_function(turned), clf.decision_function(views))
        with pytest.raises(ValueError, match="view 'eeg': the names along a mode"):
            clf.predict(Views(eeg=array(names=["A1", *NAMES[1:]]), age=Y))


class TestModesByName:
    @pytest.mark.parametrize(
        ("named", "numbered"),
        [
            (TensorScaler(per="channel"), TensorScaler(per=0)),
            (TensorScaler(per=("time", "channel")), TensorScaler(per=(1, 0))),
            (Smooth(2.0, mode="time"), Smooth(2.0)),
            (Smooth(2.0, mode=("channel", "time")), Smooth(2.0, mode=(0, 1))),
            (Whiten("channel"), Whiten(0)),
            (Differences(mode="channel"), Differences(mode=0)),
            (BandPower(3, mode="time"), BandPower(3)),
            (
                Covariances("channel", bands=[(10, 30)], sfreq=250.0, time="time"),
                Covariances(bands=[(10, 30)], sfreq=250.0),
            ),
            (Convolutions(500, mode="time"), Convolutions(500)),
            (Spectra(mode="time"), Spectra()),
            (Impute("interpolate", mode="channel"), Impute("interpolate", mode=0)),
            (Detrend(mode="time"), Detrend(mode=1)),
            (EqualLength(10, mode="time"), EqualLength(10)),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_are_those_by_number(self, named, numbered):
        expected = numbered.fit_transform(X)
        assert np.array_equal(named.fit_transform(array()), expected)
        assert named.words()
        assert np.array_equal(with_mode_numbers(named, AXES).fit_transform(X), expected)
        with pytest.raises(ValueError, match=r"have no names.*give a number"):
            named.fit(X)

    def test_that_are_unknown_list_those_that_are(self):
        with pytest.raises(ValueError, match=r"got mode='tine', and the modes are \['channel', 'time'\]"):
            Smooth(2.0, mode="tine").fit(array())

    def test_in_later_steps_are_numbered_beforehand(self):
        model = make_pipeline(TensorScaler(per="channel"), Smooth(1.0, mode="time"), TensorMarginClassifier("cp", 1))
        with pytest.raises(ValueError, match="only the first step of a pipeline"):
            model.fit(array(), Y)
        numbered = with_mode_numbers(model, axes_in(array()))
        assert (numbered[0].per, numbered[1].mode, model[0].per) == (0, 1, "channel")
        numbered.fit(array(), Y)
        late = make_pipeline(BandPower(3), Smooth(1.0, mode="time"))
        with pytest.raises(ValueError, match="mode='time'"):
            with_mode_numbers(late, AXES)

    def test_in_searches_and_unions_are_numbered_by_these(self):
        steps = make_pipeline(TensorScaler(per="channel"), Smooth(1.0, mode="time"))
        search = TensorMarginClassifierCV(("cp",), (1,), lams=(1.0,), cv=2, preparation=[None, steps])
        search.fit(array(), Y)
        union = TensorUnion([("smooth", Smooth(1.0, mode="time")), ("white", Whiten("channel"))]).fit(array())
        assert union.transformers_[0][1].mode == 1
        assert union.axes_out()["smooth"] == AXES


class TestRecipes:
    @pytest.mark.parametrize(
        ("given", "numbered"),
        [
            ({"scale": "mode channel"}, {"scale": "mode 1"}),
            ({"length": "resample 20 mode time"}, {"length": "resample 20 mode 2"}),
            ({"length": "0 mode time", "scale": "mode 2"}, {"length": "0 mode 2", "scale": "mode 2"}),
            ({"scale": "entry"}, {"scale": "entry"}),
        ],
    )
    def test_name_modes(self, given, numbered):
        assert Recipe(**given).numbered(AXES, (4, 32)) == Recipe(**numbered)
        assert Recipe(**given).numbered({"eeg": AXES}, {"eeg": (4, 32), "covariates": (2,)}) == Recipe(**numbered)
        assert Recipe(**numbered).numbered(None, (4, 32)) == Recipe(**numbered)

    def test_of_unknown_names_list_those_that_are(self):
        with pytest.raises(ValueError, match=r"got 'sensor', and the modes are \['channel', 'time'\].*--modes"):
            Recipe(scale="mode sensor").numbered(AXES, (4, 32))
        with pytest.raises(ValueError, match=r"have no names"):
            Recipe(scale="mode channel").numbered(None, (4, 32))
        with pytest.raises(ValueError, match=r"different numbers in the views a, b"):
            Recipe(scale="mode time").numbered({"a": AXES, "b": AXES[1:]}, {"a": (4, 32), "b": (32,)})


def samples_with(axes, values=X, **more):
    return SampleSet(values, Y, None, None, None, "a.npz", "NumPy archive", (), axes=axes, **more)


class TestKinds:
    @pytest.mark.parametrize(
        ("axes", "kind"),
        [
            (AXES, "eeg"),
            ((Axis("electrode"), Axis("time")), "eeg"),
            ((Axis("channel", "", ["ax", "ay", "az", "gx"]), Axis("time")), "series"),
            ((Axis("joint"), Axis("Time")), "series"),
            ((Axis("sample"), Axis("wavelength", "nm")), "spectra"),
        ],
    )
    def test_are_told_by_the_names_of_modes(self, axes, kind):
        guessed, why = guess_kind(samples_with(axes))
        assert guessed == kind
        assert "named" in why or "electrodes" in why

    def test_of_places_are_volumes(self):
        axes = tuple(Axis(name, "mm") for name in "xyz")
        assert guess_kind(samples_with(axes, np.ones((24, 3, 3, 3))))[0] == "volume"

    def test_that_names_do_not_tell_are_those_of_the_shape(self):
        assert guess_kind(samples_with((Axis("row"), Axis("entry")))) == guess_kind(samples_with(None))

    def test_with_time_first_are_series(self):
        assert guess_kind(samples_with((Axis("time"), Axis("channel"))))[0] == "series"

    def test_the_sampling_frequency_is_that_of_the_times(self):
        plan, said = with_kind(samples_with(AXES), FitPlan(auto=True))
        assert (plan.kind, plan.sfreq) == ("eeg", 250.0)
        assert "sampled at 250 Hz" in said
        assert with_kind(samples_with(AXES), FitPlan(auto=True, sfreq=100.0))[0].sfreq == 100.0
        assert with_kind(samples_with(AXES, sfreq=128.0), FitPlan(auto=True))[0].sfreq == 128.0
        resampled = FitPlan(auto=True, recipe=Recipe(resize=(4, 16)))
        assert with_kind(samples_with(AXES), resampled)[0].sfreq is None

    @pytest.mark.parametrize(
        ("axis", "sfreq"),
        [
            (Axis("time", "s", np.arange(5) / 256), 256.0),
            (Axis("time", "us", 500.0 * np.arange(5)), 2000.0),
            (Axis("time", "s", (np.arange(500) / 1000 + 3).astype(np.float32)), 1000.0),
            (Axis("time", "s", [0, 1, 3]), None),
            (Axis("time", "", [0, 1, 2]), None),
            (Axis("time", "s", [2, 1, 0]), None),
            (Axis("time", "s"), None),
            (Axis("time", "s", ["a", "b"]), None),
        ],
    )
    def test_times_must_be_regular_and_have_a_unit(self, axis, sfreq):
        assert axis.sfreq == (None if sfreq is None else pytest.approx(sfreq, rel=1e-5))
