"""Tests of the figures of a field: topographic maps, butterfly plots, spectra and classified scenes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

from tensormargin.data import Axis
from tensormargin.plots import (
    electrode_positions,
    plot_butterfly,
    plot_channels,
    plot_scene,
    plot_spectra,
    plot_topographies,
    plot_topography,
    save_scene,
)
from tensormargin.plots.topography import _interpolated, flattened
from tensormargin.transformers import Patches

mpl.use("Agg")

TWENTY = [
    *("Fp1", "Fp2", "F7", "F3", "Fz", "F4", "F8", "T7", "C3", "Cz"),
    *("C4", "T8", "P7", "P3", "Pz", "P4", "P8", "O1", "O2"),
]
UNPARSABLE = "$\\nosuchmacro$ 5$"


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def check_drawn(ax):
    ax.figure.canvas.draw()  # raises if the figure cannot be drawn


def degrees(one, other):
    return np.degrees(np.arccos(np.clip(one @ other, -1, 1)))


# electrodes


def test_electrodes_follow_the_proportions_of_the_system():
    at = electrode_positions(
        [*TWENTY, "Fpz", "Oz", "AF7", "FC5", "FC1", "CP3", "PO8", "Nz", "Iz", "C1h", "T9", "AFF5h"]
    )
    assert all(np.isclose(np.linalg.norm(place), 1) for place in at.values())
    np.testing.assert_allclose(at["Cz"], [0, 0, 1], atol=1e-12)
    tenth = degrees(at["Fpz"], at["Nz"])
    for one, other, tenths in (("Fz", "Cz", 2), ("Cz", "Pz", 2), ("Oz", "Iz", 1), ("C3", "Cz", 2), ("T7", "C3", 2)):
        assert degrees(at[one], at[other]) == pytest.approx(tenths * tenth)
    for left, right in (("Fp1", "Fp2"), ("F7", "F8"), ("P3", "P4"), ("O1", "O2")):
        np.testing.assert_allclose(at[left] * (-1, 1, 1), at[right], atol=1e-12)
        assert at[left][0] < 0 < at[right][0]
    for front, back in (("Fp1", "O1"), ("F3", "P3"), ("F7", "P7")):
        np.testing.assert_allclose(at[front] * (1, -1, 1), at[back], atol=1e-12)
        assert at[back][1] < 0 < at[front][1]
    # F3 is as far from F7 as from Fz, and on the circle through both and F8
    assert degrees(at["F3"], at["F7"]) == pytest.approx(degrees(at["F3"], at["Fz"]))
    corners = np.array([at[name] for name in ("F7", "Fz", "F8")])
    assert np.linalg.matrix_rank(np.column_stack([[*corners, at["F3"]], np.ones(4)]), tol=1e-9) == 3


def test_names_are_found_however_they_are_written():
    plain = electrode_positions(["Fp1", "Cz", "T7"])
    for written in (["FP1", "CZ", "T7"], ["EEG Fp1-REF", "eeg cz-LE", "T7."], [" fp1", "Cz..", "T3"]):
        found = electrode_positions(written)
        for name, other in zip(written, plain, strict=True):
            np.testing.assert_array_equal(found[name], plain[other])
    assert electrode_positions(["EOG", "STI 014", "", "X", "E7"]) == {}


def test_positions_may_be_given():
    flat = electrode_positions(["a", "b"], {"a": (0, 0), "b": (0, 1)})
    np.testing.assert_allclose(flattened(np.array([flat["a"], flat["b"]])), [[0, 0], [0, 1]], atol=1e-12)
    solid = electrode_positions(["A"], {"a": [0, 0, 90.0], "b": (1, 0, 0)})
    np.testing.assert_allclose(solid["A"], [0, 0, 1])
    for wrong in ({"a": (1, 2, 3, 4)}, {"a": (np.nan, 0)}, {"a": (0, 0, 0)}):
        with pytest.raises(ValueError, match="position of a channel"):
            electrode_positions(["a"], wrong)
    with pytest.raises(TypeError, match=r"montage must be .*got float"):
        electrode_positions(["a"], 5.0)


# topographic maps


def test_the_surface_goes_through_the_values_and_does_not_run_away():
    rng = np.random.default_rng(0)
    positions = flattened(np.array(list(electrode_positions(TWENTY).values())))
    values = rng.normal(size=len(TWENTY))
    grid = np.linspace(-1, 1, 161)
    surface = _interpolated(positions, values, grid)
    nearest = [np.abs(grid - x).argmin() for x in positions.T.ravel()]
    columns, rows = np.split(np.array(nearest), 2)
    np.testing.assert_allclose(surface[rows, columns], values, atol=0.1 * np.ptp(values))
    inside = np.hypot(*np.meshgrid(grid, grid)) <= 1
    assert np.abs(surface[inside]).max() < 2 * np.abs(values).max()
    np.testing.assert_allclose(_interpolated(positions, np.full(len(TWENTY), 3.0), grid), 3.0)


def test_left_is_on_the_left_and_the_nose_on_top():
    ax = plot_topography([float(name == "T7") - float(name == "Fp2") for name in TWENTY], TWENTY)
    image = np.asarray(ax.get_images()[0].get_array())
    middle = len(image) // 2
    assert image[middle, :10].mean() > 0.3
    assert abs(image[middle, -10:].mean()) < 0.1
    assert image[-10:, middle:].mean() < image[:10, middle:].mean()  # rows go from the back to the nose


def test_channels_without_a_position_are_named():
    with pytest.warns(UserWarning, match=r"no position is known: EOG, nd"):
        plot_topography(np.arange(21.0), [*TWENTY, "EOG", "nd"])
    with pytest.raises(ValueError, match=r"at least 4 channels with known positions; got 2 of 3.*E1.*montage"):
        plot_topography([1, 2, 3], ["Cz", "E1", "Pz"])
    with pytest.raises(ValueError, match="one value per channel"):
        plot_topography(np.ones((2, 19)), TWENTY)


def test_several_maps_share_their_colours():
    values = np.arange(3 * 19).reshape(3, 19)
    axes = plot_topographies(values, TWENTY, titles=[UNPARSABLE, "_x", "200 ms"])
    assert [ax.get_images()[0].get_clim() for ax in axes] == [(-56.0, 56.0)] * 3
    assert axes[0].get_title() == UNPARSABLE
    check_drawn(axes[0])


def test_odd_values_are_drawn():
    for values in (np.zeros(19), np.full(19, np.nan), np.where(np.arange(19) % 2, np.inf, 1.0)):
        plot_topography(values, TWENTY)
    plot_topography(np.arange(20.0), [*TWENTY, "T3"])  # two channels in one place


# channels x time


def test_lines_are_drawn_at_their_coordinates():
    values = np.random.default_rng(0).normal(size=(3, 5))
    modes = (Axis("channel", "", ["Fz", UNPARSABLE, "_x"]), Axis("time", "ms", [-8, -4, 0, 4, 8]))
    ax = plot_butterfly(values, modes, title=UNPARSABLE)
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) == 5]
    np.testing.assert_allclose([line.get_ydata() for line in drawn], values)
    np.testing.assert_allclose(drawn[0].get_xdata(), [-8, -4, 0, 4, 8])
    assert ax.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Fz", UNPARSABLE, "_x"]
    check_drawn(ax)


def test_of_many_channels_the_largest_are_named():
    values = np.random.default_rng(0).normal(size=(30, 4))
    values[7, 2], values[20, 0] = 50, -60
    ax = plot_butterfly(values, (Axis("channel"), Axis()))
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["channel 21", "channel 8"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_images_have_names_and_coordinates_as_ticks(order):
    values = np.array([[1.0, -2, np.nan], [3, 4, np.inf]], order=order)
    values.flags.writeable = False
    modes = (Axis("channel", "", ["Fz", "Cz"]), Axis("time", "ms", [0, 10, 30]))
    ax = plot_channels(values, modes)
    mesh = ax.collections[0]
    np.testing.assert_array_equal(np.ma.filled(mesh.get_array(), 0), [[1, -2, 0], [3, 4, 0]])
    assert mesh.get_clim() == (-4, 4)
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[0, :, 0], [-5, 5, 20, 40])  # unequal steps are drawn to scale
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Fz", "Cz"]
    assert ax.get_ylim() == (1.5, -0.5)


def test_odd_matrices_are_drawn_or_refused():
    for values in (np.ones((1, 1), np.float32), np.zeros((80, 3), int), np.full((3, 9), np.nan)):
        names = Axis("channel", "", [f"c{k}" for k in range(len(values))])
        plot_butterfly(values, (names, Axis()))
        plot_channels(values, (names, Axis()), symmetric=False)
        plt.close("all")
    plot_channels([[1, 2], [3, 4]], (Axis(), Axis("time", "s", [2, 2])))
    for plot in (plot_butterfly, plot_channels):
        for wrong in (np.ones(3), np.ones((0, 2)), np.ones((2, 2, 2))):
            with pytest.raises(ValueError, match="needs a matrix"):
                plot(wrong)
        with pytest.raises(ValueError, match="one coordinate per index"):
            plot(np.ones((2, 3)), (Axis("channel", "", ["a"]), Axis()))


# spectra


def test_spectra_are_drawn_at_full_resolution_with_wavenumbers_decreasing():
    lines = np.random.default_rng(0).normal(size=(2, 700))
    means = {"pure": lines[0], UNPARSABLE: lines[1]}
    for unit, decreasing in (("nm", False), ("cm⁻¹", True), ("cm-1", True)):
        axis = Axis("position", unit, np.linspace(400, 4000, 700))
        axes = plot_spectra({"a against b": lines[0]}, axis, means=means)
        assert len(axes) == 2
        drawn = next(line for line in axes[0].get_lines() if len(line.get_xdata()) == 700)
        np.testing.assert_allclose(drawn.get_ydata(), lines[0])
        for ax in axes:
            low, high = ax.get_xlim()
            assert (low > high) == decreasing
        assert [text.get_text() for text in axes[1].get_legend().get_texts()] == ["pure", UNPARSABLE]
        plt.close("all")
    check_drawn(plot_spectra({UNPARSABLE: lines[0], "_x": lines[1]})[0])


def test_odd_spectra_are_drawn_or_refused():
    for lines in ([1, 2, 3], np.ones((12, 3), np.float32), np.full(4, np.nan), [[5.0]]):
        plot_spectra(lines)
    for wrong in ({}, {"a": np.ones((2, 2))}, np.ones((2, 0))):
        with pytest.raises(ValueError, match="one number per wavelength"):
            plot_spectra(wrong)
    with pytest.raises(ValueError, match=r"same number of wavelengths; got \[3, 4\]"):
        plot_spectra([1, 2, 3], means={"a": [1, 2, 3, 4]})


# scenes


def test_a_scene_shows_what_was_painted_beside_the_truth():
    truth = np.zeros((6, 8), int)
    truth[1:4, 1:4], truth[2:5, 5:8] = 2, 7
    patches = Patches(3)
    scene = patches.cut(np.zeros((6, 8, 3)), truth)
    wrong = scene.target.copy()
    wrong[0] = 7
    axes = plot_scene(patches.paint(wrong, scene), truth, names={2: "corn", 7: UNPARSABLE}, errors=True)
    true, shown, errors = (np.asarray(ax.get_images()[0].get_array()) for ax in axes)
    assert len({tuple(pixel) for pixel in true.reshape(-1, 3)}) == 3
    np.testing.assert_array_equal(np.any(shown != true, axis=2), patches.paint(wrong, scene) != truth)
    assert len({tuple(pixel) for pixel in errors.reshape(-1, 3)}) == 3
    assert "5.6 % wrong" in axes[2].get_title()
    assert [text.get_text() for text in axes[2].get_legend().get_texts()] == ["corn", UNPARSABLE, "no class"]
    check_drawn(axes[0])
    assert len(plot_scene(truth, truth)) == 2


def test_classes_of_a_scene_have_colours_of_their_own():
    for count in (1, 6, 7, 16, 40):
        labels = np.arange(count + 1)[None]
        pixels = np.asarray(plot_scene(labels)[0].get_images()[0].get_array())[0]
        assert len({tuple(pixel) for pixel in pixels}) == count + 1
        plt.close("all")
    some = np.asarray(plot_scene([[1, 3]], classes=[1, 2, 3])[0].get_images()[0].get_array())[0]
    every = np.asarray(plot_scene([[1, 2, 3]])[0].get_images()[0].get_array())[0]
    np.testing.assert_array_equal(some, every[[0, 2]])  # colours do not depend on what was predicted
    plot_scene([["a", ""], ["b", "a"]], background="")


def test_scenes_that_do_not_fit_are_refused():
    for wrong in ((np.ones((2, 2)), np.ones((3, 2))), (np.ones(4),), (np.ones((0, 3)),)):
        with pytest.raises(ValueError, match="one class per pixel"):
            plot_scene(*wrong)
    with pytest.raises(ValueError, match="all classes of the scene; got none for 3"):
        plot_scene([[1, 3]], classes=[1, 2])
    with pytest.raises(ValueError, match="give truth"):
        plot_scene([[1, 3]], errors=True)


@pytest.mark.parametrize("name", ["map.png", "map.npy"])
def test_scenes_are_saved(name, tmp_path):
    save_scene(tmp_path / name, [[1, 2], [0, 1]], [[1, 1], [0, 1]])
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG" if name.endswith("png") else b"\x93NUMPY")
