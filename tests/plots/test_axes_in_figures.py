"""Axes label figures, tables of maps and the page."""

import csv
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from tensormargin import Axis, BandPower, Decimate, TensorMarginClassifier, TensorScaler, TensorUnion, Views, save_map
from tensormargin.io import SampleSet, save_model
from tensormargin.plots import plot_factors, plot_map, plot_weight
from tensormargin.report import model_page, write_page

NAMES = ["Fz", "C_z", "$P$"]
AXES = (Axis("channel", "", NAMES), Axis("time", "ms", 4.0 * np.arange(40) - 20))
X = np.random.default_rng(0).normal(size=(20, 3, 40))
Y = np.arange(20) % 2


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return make_pipeline(TensorScaler(), Decimate(2), TensorMarginClassifier("cp", 1)).fit(X, Y)


def texts(ruler):
    ruler.axes.figure.canvas.draw()
    return [label.get_text() for label in ruler.get_ticklabels()]


class TestMaps:
    def test_are_labelled_by_names_units_and_coordinates(self):
        (ax,) = plot_map(X[0], mode_axes=AXES)
        assert (ax.get_ylabel(), ax.get_xlabel()) == ("channel", "time (ms)")
        assert texts(ax.yaxis) == NAMES
        ticks = dict(zip(texts(ax.xaxis), ax.get_xticks(), strict=True))
        assert all(float(text) == pytest.approx(4 * place - 20) for text, place in ticks.items())
        assert len(ticks) > 2

    def test_of_many_channels_have_numbers(self):
        many = Axis("channel", "", [f"E{k}" for k in range(64)])
        (ax,) = plot_map(np.ones((64, 40)), mode_axes=(many, AXES[1]))
        assert ax.get_ylabel() == "channel"
        assert not any(text.startswith("E") for text in texts(ax.yaxis))

    def test_of_falling_coordinates(self):
        (ax,) = plot_map(np.ones((5, 6)), mode_axes=(Axis("y", "mm", [8, 6, 4, 2, 0]), Axis()))
        assert all(
            float(text) == pytest.approx(8 - 2 * place)
            for text, place in zip(texts(ax.yaxis), ax.get_yticks(), strict=True)
        )
        assert ax.get_xlabel() == "mode 2"

    def test_say_where_they_are_cut(self):
        axes = (Axis("x", "mm", [0, 2, 4]), Axis("y"), Axis("z", "mm", [1, 3]), Axis("time", "s", [0.5, 1.5]))
        drawn = plot_map(np.ones((3, 4, 2, 2)), at=(2, 3, 1, 1), mode_axes=axes, title="map")
        assert [ax.get_title() for ax in drawn] == ["x at 4 mm", "y at 3", "z at 3 mm"]
        assert drawn[0].get_title(loc="left").strip() == "map, time at 1.5 s"

    def test_of_vectors_are_drawn_against_coordinates(self):
        (ax,) = plot_map(X[0, 0], mode_axes=AXES[1:])
        assert np.array_equal(ax.lines[-1].get_xdata(), AXES[1].values)

    def test_need_axes_that_fit(self):
        with pytest.raises(ValueError, match="got 3 for 2 indices"):
            plot_map(X[0, :2], mode_axes=AXES)


class TestModels:
    def test_factors_have_the_axes_at_the_classifier(self, model):
        channel, time = plot_factors(model, mode_axes=AXES)
        assert channel.get_title() == "channel: components"
        assert texts(channel.xaxis) == NAMES
        assert time.get_xlabel() == "time (ms)"
        assert np.array_equal(time.lines[-1].get_xdata(), AXES[1].values[::2])
        assert plot_factors(model, mode_axes=AXES, mode_names=["a", "b"])[1].get_xlabel() == "entry of b"

    def test_weights_have_those_of_the_samples(self, model):
        drawn = plot_weight(model, X, Y, mode_axes=AXES)
        assert {ax.get_xlabel() for ax in drawn.flat} == {"time (ms)"}

    def test_views_have_their_own(self):
        union = TensorUnion([("raw", "passthrough"), ("power", BandPower(3, sfreq=250.0))])
        views = make_pipeline(union, TensorMarginClassifier("cp", 1)).fit(X, Y)
        assert plot_weight(views, view="power", mode_axes=AXES)[0, 0].get_xlabel() == "frequency (Hz)"
        assert plot_factors(views, view="raw", mode_axes=AXES)[1].get_xlabel() == "time (ms)"

    def test_of_a_dataarray_need_no_axes(self):
        xarray = pytest.importorskip("xarray")
        array = xarray.DataArray(X, dims=("n", "channel", "time"))
        clf = TensorMarginClassifier("cp", 1).fit(array, Y)
        assert plot_weight(clf)[0, 0].get_ylabel() == "channel"


class TestTables:
    def test_of_maps_have_coordinates(self, tmp_path):
        maps = X[:2]
        axes = (Axis("channel", "", ["=1", "b", "c"]), AXES[1])
        (path,) = save_map(tmp_path / "a.csv", maps, several="last", title=["one", "two"], mode_axes=axes)
        rows = list(csv.reader(path.read_text().splitlines()))
        assert rows[0] == ["channel", "time (ms)", "one", "two"]
        assert rows[1][:2] == ["'=1", "-20"]
        values = np.array([row[2:] for row in rows[1:]], float)
        assert np.allclose(values.T.reshape(maps.shape), maps, rtol=1e-5)

    def test_without_axes_have_indices(self, tmp_path):
        (path,) = save_map(tmp_path / "a.csv", X[0])
        rows = list(csv.reader(path.read_text().splitlines()))
        assert rows[0] == ["mode 1", "mode 2", "value"]
        assert rows[41][:2] == ["1", "0"]


class TestPages:
    def page(self, model, samples, tmp_path):
        facts = save_model(tmp_path / "a.skops", model, axes=samples.axes)
        write_page(tmp_path / "a.html", model_page(model, facts, samples))
        text = (tmp_path / "a.html").read_text()
        return [json.loads(found) for found in re.findall(r"data-maps>(.*?)</script>", text, re.DOTALL)], text

    def test_have_modes_and_coordinates_in_their_maps(self, model, tmp_path):
        samples = SampleSet(X, Y, None, None, None, "a", "array", (), axes=AXES)
        (maps,), text = self.page(model, samples, tmp_path)
        assert maps["modes"][0] == {"name": "channel", "values": NAMES}
        assert maps["modes"][1]["values"][:2] == ["-20 ms", "-16 ms"]
        assert "counted from 1" not in text

    def test_of_views_too(self, tmp_path):
        views = Views(eeg=X, age=Y[:, None] + X[:, 0, :1])
        clf = TensorMarginClassifier("cp", 1).fit(views, Y)
        samples = SampleSet(views, Y, None, None, None, "a", "array", (), axes={"eeg": AXES})
        (eeg, age), text = self.page(clf, samples, tmp_path)
        assert [mode["name"] for mode in eeg["modes"]] == ["channel", "time"]
        assert age["modes"] == [{"name": "", "values": None}]
        assert "counted from 1" in text
