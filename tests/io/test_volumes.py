"""Tests of volumes in space: orientation, resampling, clusters, and cuts with left and right."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import nibabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib import pyplot as plt

from tensormargin import TensorMarginClassifier, cluster_table
from tensormargin.data import Orientation, checked_affine, millimetres, resampled
from tensormargin.plots import plot_volume, view_map

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def rotation(seed, most=0.5):
    """Return an oblique affine: a turn by random angles, voxel sizes and an origin."""
    rng = np.random.default_rng(seed)
    order, signs = rng.permutation(3), rng.choice([-1, 1], 3)
    a, b, c = rng.uniform(-most, most, 3)
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    turn = turn @ [[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]]
    turn = turn @ [[1, 0, 0], [0, np.cos(c), -np.sin(c)], [0, np.sin(c), np.cos(c)]]
    affine = np.eye(4)
    affine[:3, :3] = (turn @ np.eye(3)[:, order]) * signs * rng.uniform(1, 4, 3)
    affine[:3, 3] = rng.uniform(-90, 90, 3)
    return affine


# orientation


@pytest.mark.parametrize("seed", range(12))
def test_volumes_are_turned_as_nibabel_turns_them(seed):
    affine, shape = rotation(seed), (4, 5, 6)
    values = np.random.default_rng(seed).normal(size=shape)
    theirs = nibabel.as_closest_canonical(nibabel.Nifti1Image(values, affine))
    own = Orientation.of(affine, shape)
    np.testing.assert_array_equal(own.turned(values), theirs.get_fdata())
    np.testing.assert_allclose(own.affine, theirs.affine, atol=1e-12)
    assert own.turned(np.zeros((*shape, 2))).shape == (*theirs.shape, 2)


@pytest.mark.parametrize("seed", range(6))
def test_a_voxel_keeps_its_value_and_its_place(seed):
    affine, shape = rotation(seed), (2, 3, 4)
    values, own = np.arange(24.0).reshape(shape), Orientation.of(affine, shape)
    for turned in itertools.product(*map(range, own.turned(values).shape)):
        stored = own.indices(turned)
        assert own.turned(values)[turned] == values[stored]
        np.testing.assert_allclose(millimetres(own.affine, turned), millimetres(affine, stored))


@pytest.mark.parametrize(
    "wrong", [np.eye(3), np.full((4, 4), np.nan), np.zeros((4, 4)), np.diag([1, 0, 1, 1]), np.ones((4, 4))]
)
def test_affines_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="an affine must"):
        checked_affine(wrong)


# resampling


def test_a_smooth_image_is_the_same_at_the_same_place():
    def head(places):
        return 3 * np.exp(-np.sum((places - [5, -3, 2]) ** 2, axis=-1) / 300) + 0.01 * places[..., 1]

    def grid(affine, shape):
        return millimetres(affine, np.moveaxis(np.indices(shape), 0, -1))

    fine = np.diag([-2.0, 2, 2, 1])
    fine[:3, 3] = [70, -70, -70]
    coarse = rotation(3, most=0.2)
    coarse[:3, :3] *= 4 / np.linalg.norm(coarse[:3, :3], axis=0)
    coarse[:3, 3] -= millimetres(coarse, [3.5, 3.5, 3.5])
    found = resampled(head(grid(fine, (71, 71, 71))), fine, (8, 8, 8), coarse)
    np.testing.assert_allclose(found, head(grid(coarse, (8, 8, 8))), atol=0.1)


def test_the_same_grid_changes_nothing_and_outside_is_dark():
    values = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    np.testing.assert_allclose(resampled(values, np.eye(4), (4, 5, 6), np.eye(4)), values, atol=1e-6)
    np.testing.assert_allclose(resampled(values[..., None], np.eye(4), (4, 5, 6), np.eye(4)), values, atol=1e-6)
    far = np.eye(4)
    far[:3, 3] = 1000
    np.testing.assert_allclose(resampled(values, np.eye(4), (2, 2, 2), far), values.min(), atol=1e-6)
    assert np.isfinite(resampled(np.full((3, 3, 3), np.nan), np.eye(4), (2, 2, 2), np.eye(4))).all()
    with pytest.raises(ValueError, match="one volume with three modes"):
        resampled(np.zeros((3, 3, 3, 2)), np.eye(4), (3, 3, 3), np.eye(4))


# clusters


def flooded(values, least):
    """Return clusters entry by entry: the sets of entries that can be reached over faces."""
    left = {tuple(map(int, at)) for at in np.argwhere(np.abs(values) >= least) if values[tuple(at)] != 0}
    clusters = []
    while left:
        sign, reached, found = 0, [next(iter(left))], set()
        sign = np.sign(values[reached[0]])
        while reached:
            at = reached.pop()
            if at in left and np.sign(values[at]) == sign:
                left.remove(at)
                found.add(at)
                for mode, step in itertools.product(range(values.ndim), (-1, 1)):
                    reached.append((*at[:mode], at[mode] + step, *at[mode + 1 :]))
        clusters.append(found)
    return clusters


@given(
    arrays(np.float64, st.sampled_from([(7,), (4, 5), (3, 4, 3)]), elements=st.integers(-3, 3).map(float)),
    st.sampled_from([0.0, 1.5, 2.0]),
)
def test_clusters_are_what_can_be_reached(values, least):
    table = cluster_table(values, threshold=least)
    expected = flooded(values, least)
    assert sorted(one.size for one in table) == sorted(map(len, expected))
    for one in table:
        own = next(cluster for cluster in expected if one.index in cluster)
        assert (one.size, one.peak) == (len(own), max((values[at] for at in own), key=abs))
    assert [abs(one.peak) for one in table] == sorted((abs(one.peak) for one in table), reverse=True)


def test_clusters_have_millimetres_and_state_their_threshold():
    values = np.zeros((5, 5, 5))
    values[1, 2, 3], values[1, 2, 4], values[4, 4, 4] = 8, 5, -4
    affine = rotation(0)
    table = cluster_table(values, affine)
    assert table.threshold == 4
    np.testing.assert_allclose(table[0].mm, millimetres(affine, [1, 2, 3]))
    assert table[0].volume == pytest.approx(2 * abs(np.linalg.det(affine[:3, :3])))
    assert "2 clusters of at least 4 in" in repr(table)
    assert "1, 2, 3" in table._repr_html_()
    assert len(cluster_table(values, smallest=2)) == 1
    assert cluster_table(values)[0].mm is None


@pytest.mark.parametrize(
    "values", [np.zeros((3, 3)), np.full((2, 2), np.nan), np.array([[1, 2]], np.int8), [[1.0, 2.0]]]
)
def test_odd_maps_have_clusters_or_none(values):
    assert len(cluster_table(values)) == (1 if np.nan_to_num(np.asarray(values, float)).any() else 0)
    assert "clusters" in repr(cluster_table(values))


def test_clusters_that_cannot_be_are_refused():
    for wrong in (5.0, np.zeros((0, 3))):
        with pytest.raises(ValueError, match="at least one mode and one entry"):
            cluster_table(wrong)
    with pytest.raises(ValueError, match="only a volume"):
        cluster_table(np.ones((2, 2)), np.eye(4))
    for wrong in (-1, np.nan):
        with pytest.raises(ValueError, match="threshold must be"):
            cluster_table(np.ones(3), threshold=wrong)


# cuts


@pytest.mark.parametrize(("seed", "radiological"), [(0, False), (1, True)])
def test_left_is_where_the_letter_says(seed, radiological):
    affine, shape = rotation(seed, most=0.3), (9, 9, 9)
    places = millimetres(affine, np.moveaxis(np.indices(shape), 0, -1))
    middle = millimetres(affine, [4, 4, 4])
    for axis, panel, horizontal in ((0, 1, True), (0, 2, True), (1, 2, False), (1, 0, True)):
        values = places[..., axis] - middle[axis]  # grows to the right, to the front or upwards
        ax = plot_volume(values, affine, at=middle, radiological=radiological)[panel]
        image = np.asarray(ax.get_images()[-1].get_array())
        if not horizontal:
            assert image[0].mean() > image[-1].mean()  # the first row is on top
            continue
        assert (image[:, -1].mean() > image[:, 0].mean()) == (not radiological or axis == 1)
        expected = "PA" if axis == 1 else "RL" if radiological else "LR"
        assert "".join(text.get_text() for text in ax.texts) == expected
        plt.close("all")


def test_cuts_are_at_the_peak_and_name_it_in_mm():
    values, affine = np.zeros((5, 6, 7)), np.diag([-3.0, 3, 3, 1])
    values[1, 2, 3] = -5
    axes = plot_volume(values, affine, title="$5$ _x")
    assert [ax.get_title() for ax in axes] == ["x = -3 mm", "y = 6 mm", "z = 9 mm"]
    for ax in axes:
        assert np.asarray(ax.get_images()[-1].get_array()).min() == -5
    axes[0].figure.canvas.draw()
    with pytest.raises(ValueError, match=r"at must be within the volume, from \[-12.0, 0.0, 0.0\]"):
        plot_volume(values, affine, at=(50, 0, 0))
    with pytest.raises(ValueError, match=r"three modes.*plot_map"):
        plot_volume(values[0])
    with pytest.raises(ValueError, match=r"background must have the map's shape"):
        plot_volume(values, affine, background=np.ones((2, 2, 2)))


def test_a_background_is_drawn_below_on_the_grid_of_the_map():
    values = np.random.default_rng(0).normal(size=(4, 5, 6))
    anatomy = nibabel.Nifti1Image(np.random.default_rng(1).normal(size=(9, 9, 9)), np.diag([0.5, 0.5, 0.5, 1]))
    axes = plot_volume(values, np.eye(4), background=anatomy)
    assert [len(ax.get_images()) for ax in axes] == [2, 2, 2]
    for wrong_or_odd in (np.full((4, 5, 6), np.nan), np.ones((4, 5, 6), np.int8)):
        plot_volume(wrong_or_odd, background=values)


def test_without_nilearn_a_map_is_drawn_as_cuts(monkeypatch):
    monkeypatch.setattr("tensormargin.plots.volumes.find_spec", lambda name: None)
    X = np.random.default_rng(0).normal(size=(10, 3, 4, 5))
    model = TensorMarginClassifier("cp", 1).fit(X, np.arange(10) % 2)
    assert len(view_map(model, np.diag([2, 2, 2, 1]))) == 3
    assert len(view_map(X[0], background=nibabel.Nifti1Image(X[1], np.eye(4)))) == 3
    with pytest.raises(ValueError, match="three modes"):
        view_map(X[0, 0])
