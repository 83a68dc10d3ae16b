"""Tests that plots show the given numbers and that activation patterns match their definition."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from conftest import low_rank_classes, sparse_product
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.datasets import load_digits

from tensormargin import TensorMarginClassifier, margin_report
from tensormargin.inspection import activation_pattern
from tensormargin.plots import (
    plot_comparison,
    plot_convergence,
    plot_factors,
    plot_map,
    plot_margins,
    plot_permutations,
    plot_ranks,
    plot_search,
    plot_weight,
)

mpl.use("Agg")

DECOMPOSITIONS = {"full": None, "cp": 2, "tucker": 2, "tt": 2}
UNPARSABLE = "$\\nosuchmacro$ 5$"  # mathtext fails on the first dollars
ODD_NAMES = [UNPARSABLE, "$\\nosuchmacro$", "_x"]


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()  # raises if the figure cannot be drawn
    plt.close("all")


@pytest.fixture(scope="module")
def matrices():
    X, y = low_rank_classes(0, 120, (4, 5), 3.0)
    return X, np.where(y > 0, "face", "house")


@pytest.fixture(scope="module")
def fitted(matrices):
    return TensorMarginClassifier("cp", 2).fit(*matrices)


@pytest.fixture(scope="module")
def three_digits():
    X, y = load_digits(n_class=3, return_X_y=True)
    return X.reshape(-1, 8, 8), y


@pytest.fixture(scope="module")
def fitted_to_three(three_digits):
    return TensorMarginClassifier("tucker", 2).fit(*three_digits)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def images_of(ax):
    return [np.asarray(image.get_array()) for image in ax.get_images()]


def pattern_by_covariance(weight, samples):
    covariance = np.cov(samples, rowvar=False)
    return covariance @ weight / (weight @ covariance @ weight)


# activation patterns


def test_pattern_is_the_covariance_matrix_times_the_weight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6)) + 5.0
    clf = TensorMarginClassifier("full").fit(X, X[:, 0] > 5)
    pattern = activation_pattern(clf, X)
    assert pattern.shape == (1, 6)
    assert pattern.dtype == np.float64
    np.testing.assert_allclose(pattern[0], pattern_by_covariance(clf.coef_[0], X), rtol=1e-9)


def test_pattern_of_tensors_in_several_chunks_equals_that_of_the_vectors(monkeypatch, fitted, matrices):
    X, _ = matrices
    whole = activation_pattern(fitted, X)
    monkeypatch.setattr("tensormargin.fitting.samples.memory.MemorySamples._samples_in", lambda self, n_bytes: 7)
    np.testing.assert_allclose(activation_pattern(fitted, X), whole, rtol=1e-10)
    flat = pattern_by_covariance(fitted.coef_[0].ravel(), X.reshape(120, -1))
    np.testing.assert_allclose(whole[0].ravel(), flat, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_with_labels_a_pair_uses_its_own_samples(three_digits, scheme):
    X, y = three_digits
    clf = TensorMarginClassifier("cp", 2, multi_class=scheme).fit(X, y)
    pairs = [(0, 1), (0, 2), (1, 2)] if scheme == "ovo" else [(0, 1, 2)] * 3
    with_labels, without = activation_pattern(clf, X, y), activation_pattern(clf, X)
    for k, pair in enumerate(pairs):
        weight = clf.coef_[k].ravel()
        own = X[np.isin(y, pair)].reshape(-1, 64)
        np.testing.assert_allclose(with_labels[k].ravel(), pattern_by_covariance(weight, own), rtol=1e-6, atol=1e-9)
        everything = pattern_by_covariance(weight, X.reshape(-1, 64))
        np.testing.assert_allclose(without[k].ravel(), everything, rtol=1e-6, atol=1e-9)


def test_a_channel_that_only_cancels_noise_has_a_weight_and_no_pattern():
    rng = np.random.default_rng(1)
    labels = rng.choice([-1.0, 1.0], 4000)
    noise = rng.normal(size=4000) * 2
    X = np.stack([labels + noise, noise], axis=1) + 0.05 * rng.normal(size=(4000, 2))
    clf = TensorMarginClassifier("full").fit(X, labels)
    weight, pattern = clf.coef_[0], activation_pattern(clf, X)[0]
    assert abs(weight[1]) > 0.8 * abs(weight[0])
    assert abs(pattern[1]) < 0.1 * abs(pattern[0])  # not zero: the norm of the weight is penalised


def test_pattern_of_small_numbers_on_a_large_offset_in_single_precision(fitted, matrices):
    X = (matrices[0] + 1000.0).astype(np.float32)
    exact = activation_pattern(fitted, X.astype(np.float64))
    np.testing.assert_allclose(activation_pattern(fitted, X), exact, atol=1e-3 * np.abs(exact).max())


def test_constant_scores_have_no_pattern(fitted, matrices):
    same = np.repeat(matrices[0][:1], 7, axis=0)
    np.testing.assert_array_equal(activation_pattern(fitted, same), np.zeros((1, 4, 5)))


def test_pattern_refuses_labels_it_cannot_use(fitted, fitted_to_three, matrices, three_digits):
    X, y = matrices
    with pytest.raises(ValueError, match="not seen in fit"):
        activation_pattern(fitted, X, np.where(y == "face", "cat", y))
    with pytest.raises(ValueError, match="inconsistent"):
        activation_pattern(fitted, X, y[1:])
    images, digits = three_digits
    with pytest.raises(ValueError, match="binary problem 0"):
        activation_pattern(fitted_to_three, images[digits == 2], digits[digits == 2])


# margins


def test_signs_say_which_class_a_margin_belongs_to(fitted, matrices):
    X, y = matrices
    report = margin_report(fitted, X, y)
    np.testing.assert_array_equal(report.signs, np.where(y == "house", 1.0, -1.0))
    np.testing.assert_allclose(report.margins, report.signs * fitted.decision_function(X))


def test_signs_of_pairs_cover_their_samples(fitted_to_three, three_digits):
    for report in margin_report(fitted_to_three, *three_digits):
        assert report.signs.shape == report.margins.shape
        assert np.sum(report.signs > 0) == np.sum(three_digits[1] == report.classes[1])


def test_margins_are_counted_by_class(fitted, matrices):
    X, y = matrices
    report = margin_report(fitted, X, y)
    ax = plot_margins(report)
    negative, positive = (patch.get_data() for patch in ax.patches[:2])
    assert negative.values.sum() == np.sum(y == "face")
    assert positive.values.sum() == np.sum(y == "house")
    assert 0.0 in negative.edges or report.minimum > 0
    np.testing.assert_array_equal(negative.values, np.histogram(report.margins[y == "face"], negative.edges)[0])
    assert legend_of(ax) == ["face", "house", "mean ± deviation"]
    lines = [line.get_xdata()[0] for line in ax.get_lines()]
    assert lines == [report.mean, 0.0]
    text = ax.get_title(loc="left")
    assert f"mean {report.mean:.3g}, variance {report.variance:.3g}" in text
    assert f"≤ {report.cantelli.value:.1%}" in text
    assert f"{report.cantelli.rate:.1%} of 120" in text


def test_margin_band_is_one_deviation_to_both_sides(fitted, matrices):
    report = margin_report(fitted, *matrices)
    band = plot_margins(report).patches[2].get_extents().transformed(plt.gca().transData.inverted())
    assert [band.x0, band.x1] == pytest.approx([report.mean - report.variance**0.5, report.mean + report.variance**0.5])


def test_a_bound_that_says_nothing_is_called_vacuous(fitted, matrices):
    X, y = matrices
    turned = margin_report(fitted, X, np.where(y == "face", "house", "face"))
    assert turned.mean < 0
    assert "vacuous" in plot_margins(turned).get_title(loc="left")


def test_margins_of_one_class_against_the_rest(three_digits):
    clf = TensorMarginClassifier("full", multi_class="ovr").fit(*three_digits)
    reports = margin_report(clf, *three_digits)
    assert legend_of(plot_margins(reports[1]))[:2] == ["rest", "1"]
    with pytest.raises(TypeError, match="one MarginReport; got list"):
        plot_margins(reports)


@pytest.mark.parametrize("label", ODD_NAMES)
def test_class_labels_are_shown_as_they_are(matrices, label):
    X, y = matrices
    names = np.where(y == "face", label, "z")
    clf = TensorMarginClassifier("full").fit(X, names)
    ax = plot_margins(margin_report(clf, X, names))
    ax.figure.canvas.draw()
    assert sorted(legend_of(ax)[:2]) == sorted([label, "z"])
    (left, _) = plot_convergence(clf)
    assert label in left.get_title()


def test_equal_margins_and_far_outliers_have_few_bins(fitted, matrices):
    X, y = matrices
    one = margin_report(fitted, X[:1], y[:1])
    assert sum(patch.get_data().values.sum() for patch in plot_margins(one).patches[:2]) == 1
    far = np.concatenate([X, 1e6 * X[:1]])
    report = margin_report(fitted, far, np.append(y, y[0]))
    counts = [patch.get_data().values for patch in plot_margins(report).patches[:2]]
    assert sum(count.sum() for count in counts) == 121
    assert len(counts[0]) < 70


# convergence and factors


def test_convergence_shows_the_history(fitted):
    left, right = plot_convergence(fitted)
    np.testing.assert_array_equal(left.get_lines()[0].get_ydata(), fitted.history_["objective"])
    np.testing.assert_array_equal(
        right.get_lines()[0].get_ydata(), np.maximum(fitted.history_["gap"].max(axis=1), 1e-16)
    )
    np.testing.assert_array_equal(left.get_lines()[0].get_xdata(), np.arange(1, fitted.n_iter_ + 1))
    assert right.get_yscale() == "log"
    assert left.get_title() == "house against face"


def test_convergence_of_one_problem_of_several(fitted_to_three):
    _, ax = plt.subplots()
    left, _ = plot_convergence(fitted_to_three, problem=2, ax=ax)
    assert left is ax
    np.testing.assert_array_equal(left.get_lines()[0].get_ydata(), fitted_to_three.history_[2]["objective"])
    assert left.get_title() == "2 against 1"


@pytest.mark.parametrize("gap", [1e-5, 0.0])
def test_convergence_of_a_single_sweep(matrices, gap):
    clf = TensorMarginClassifier("full").fit(*matrices)
    clf.history_ = {**clf.history_, "objective": np.array([2.0]), "gap": np.array([[gap]])}
    left, right = plot_convergence(clf)
    assert list(left.get_lines()[0].get_ydata()) == [2.0]
    assert right.get_yscale() == "log"
    assert list(right.get_lines()[0].get_ydata()) == [gap or 1e-16]
    assert right.get_ylim()[0] < 1e-16


@pytest.mark.parametrize("problem", [-1, 3])
def test_problems_that_do_not_exist_are_refused(fitted_to_three, problem):
    for plot in (plot_convergence, plot_factors, plot_weight):
        with pytest.raises(ValueError, match=f"counts the 3 binary problems from 0; got problem={problem}"):
            plot(fitted_to_three, problem=problem)


@pytest.mark.parametrize(
    ("decomposition", "shape"), sparse_product(list(DECOMPOSITIONS), [(6,), (4, 5), (3, 4, 5)], length=6)
)
def test_factors_have_a_panel_a_mode(decomposition, shape):
    X, y = low_rank_classes(0, 60, shape, 3.0)
    axes = plot_factors(TensorMarginClassifier(decomposition).fit(X, y))
    assert axes.shape == (len(shape),)
    for mode, ax in enumerate(axes):
        assert isinstance(ax, Axes)
        assert all(len(line.get_ydata()) == shape[mode] for line in ax.get_lines()[1:])
        assert f"mode {mode + 1}" in ax.get_title()


def drawn_columns(axes):
    return [np.stack([line.get_ydata() for line in ax.get_lines()[1:]], axis=1) for ax in axes]


def test_cp_factors_multiply_to_the_weight_and_are_balanced(fitted):
    rows, columns = drawn_columns(plot_factors(fitted))
    np.testing.assert_allclose(rows @ columns.T, fitted.coef_[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=0), np.linalg.norm(columns, axis=0))


def test_tucker_and_tensor_train_show_what_is_stored(matrices):
    tucker = TensorMarginClassifier("tucker", 2).fit(*matrices)
    for drawn, factor in zip(drawn_columns(plot_factors(tucker)), tucker.weight_.factors, strict=True):
        np.testing.assert_array_equal(drawn, factor)
    X, y = low_rank_classes(0, 60, (3, 4, 5), 3.0)
    train = TensorMarginClassifier("tt", 2).fit(X, y)
    axes = plot_factors(train)
    middle = drawn_columns(axes)[1]
    assert middle.shape == (4, 4)
    np.testing.assert_array_equal(middle[:, 2], train.weight_[1][1, :, 0])
    assert legend_of(axes[1])[2] == "2, 1"


def test_a_full_weight_shows_singular_vectors_and_says_so(matrices):
    clf = TensorMarginClassifier("full").fit(*matrices)
    axes = plot_factors(clf)
    left, values, _ = np.linalg.svd(clf.coef_[0])
    drawn = drawn_columns(axes)[0]
    np.testing.assert_allclose(np.abs(np.sum(drawn * left[:, :3], axis=0)), 1.0)
    assert "singular vectors" in axes[0].get_title()
    assert legend_of(axes[0])[0] == f"1 ({values[0] ** 2 / np.sum(values**2):.0%})"


def test_factors_take_names_and_axes(fitted):
    _, given = plt.subplots(1, 2)
    axes = plot_factors(fitted, axes=given, mode_names=["_electrode", UNPARSABLE])
    assert list(axes) == list(given)
    assert axes[1].get_title().startswith(UNPARSABLE)
    with pytest.raises(ValueError, match="each of the 2 modes; got 1"):
        plot_factors(fitted, mode_names=["time"])
    with pytest.raises(ValueError, match="2 panels; got 1 axes"):
        plot_factors(fitted, axes=given[:1])


# maps


def test_a_vector_is_a_line():
    (ax,) = plot_map([1.0, -2.0, 3.0], title=UNPARSABLE)
    assert list(ax.get_lines()[-1].get_ydata()) == [1.0, -2.0, 3.0]
    assert ax.get_title() == UNPARSABLE
    assert not ax.get_images()


def test_a_matrix_is_an_image_with_colours_about_zero():
    matrix = np.arange(12.0).reshape(3, 4) - 2
    (ax,) = plot_map(matrix)
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), matrix)
    assert image.get_clim() == (-9.0, 9.0)
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("mode 1", "mode 2")
    assert len(ax.figure.axes) == 2  # the second is the colour bar
    (ax,) = plot_map(matrix, symmetric=False)
    assert ax.get_images()[0].get_clim() == (-2.0, 9.0)


@pytest.mark.parametrize("at", [None, (2, 0, 1)])
def test_a_volume_is_three_cuts_with_crosshairs(at):
    volume = np.random.default_rng(0).normal(size=(3, 4, 5))
    volume[1, 2, 3] = -9.0
    i, j, k = at or (1, 2, 3)
    axes = plot_map(volume, at=at)
    for ax, cut in zip(axes, (volume[i], volume[:, j], volume[:, :, k]), strict=True):
        np.testing.assert_array_equal(images_of(ax)[0], cut)
        assert ax.get_images()[0].get_clim() == (-9.0, 9.0)
    crosses = [(h.get_ydata()[0], v.get_xdata()[0]) for h, v in (ax.get_lines() for ax in axes)]
    assert crosses == [(j, k), (i, k), (i, j)]
    assert [(ax.get_ylabel(), ax.get_xlabel()) for ax in axes] == [
        ("mode 2", "mode 3"),
        ("mode 1", "mode 3"),
        ("mode 1", "mode 2"),
    ]
    assert [ax.get_title() for ax in axes] == [f"mode 1 at {i}", f"mode 2 at {j}", f"mode 3 at {k}"]


def test_higher_orders_are_cut_at_their_largest_entry_and_say_so():
    tensor = np.random.default_rng(0).normal(size=(3, 4, 5, 2, 6))
    tensor[1, 2, 3, 1, 4] = 9.0
    axes = plot_map(tensor, title="t", background=np.ones((3, 4, 5)))
    np.testing.assert_array_equal(images_of(axes[0])[1], tensor[1, :, :, 1, 4])
    assert axes[0].get_title(loc="left").strip() == "t, mode 4 at 1, mode 5 at 4"
    np.testing.assert_array_equal(images_of(plot_map(tensor, background=tensor + 1)[2])[0], tensor[:, :, 3, 1, 4] + 1)


def test_the_background_shows_where_the_map_is_small():
    volume = np.zeros((3, 4, 5))
    volume[1, 2, 3], volume[1, 0, 0] = 10.0, 0.5
    background = np.arange(60.0).reshape(3, 4, 5)
    below, above = plot_map(volume, background=background)[0].get_images()
    np.testing.assert_array_equal(below.get_array(), background[1])
    opacity = above.get_alpha()
    assert opacity[2, 3] == 1.0
    assert opacity[0, 0] == 0.0


@pytest.mark.parametrize(
    ("symmetric", "value", "shape"),
    sparse_product([True, False], [0.0, -2.5, np.nan], [(4,), (3, 4), (3, 4, 5), (2, 2, 2, 2), (1, 6, 1)], length=10),
)
def test_constant_and_empty_maps_are_drawn(shape, value, symmetric):
    axes = plot_map(np.full(shape, value), symmetric=symmetric, background=np.zeros(shape))
    assert len(axes) == (3 if len(shape) > 2 else 1)


def test_maps_refuse_what_does_not_fit():
    for at in ((0, 0), (0, 0, 5), (-1, 0, 0)):
        with pytest.raises(ValueError, match="one index per mode"):
            plot_map(np.ones((2, 3, 4)), at=at)
    with pytest.raises(ValueError, match="background must have"):
        plot_map(np.ones((2, 3)), background=np.ones((3, 2)))
    with pytest.raises(ValueError, match="at least one mode"):
        plot_map(1.0)


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
def test_weight_and_pattern_side_by_side(decomposition, matrices):
    X, y = matrices
    clf = TensorMarginClassifier(decomposition, DECOMPOSITIONS[decomposition]).fit(X, y)
    axes = plot_weight(clf, X, y)
    assert axes.shape == (2, 1)
    np.testing.assert_allclose(images_of(axes[0, 0])[0], clf.coef_[0])
    np.testing.assert_allclose(images_of(axes[1, 0])[0], activation_pattern(clf, X, y)[0])
    assert [ax.get_title() for ax in axes[:, 0]] == ["weight, house against face", "pattern, house against face"]


def test_weight_of_volumes_and_of_one_problem_of_several(fitted_to_three):
    X, y = low_rank_classes(0, 60, (3, 4, 5), 3.0)
    clf = TensorMarginClassifier("tucker", 2).fit(X, y)
    _, given = plt.subplots(2, 3)
    axes = plot_weight(clf, X, background=X[0], axes=given)
    assert axes.tolist() == given.tolist()
    assert len(axes[1, 2].get_images()) == 2
    assert plot_weight(clf).shape == (1, 3)
    alone = plot_weight(fitted_to_three, problem=1)
    np.testing.assert_allclose(images_of(alone[0, 0])[0], fitted_to_three.coef_[1])


# scores


@pytest.fixture
def results():
    rows = [
        ("full", None, 0.1, 0.0, 0.70),
        ("full", None, 1.0, 0.0, 0.80),
        ("cp", 1, 0.1, 0.0, 0.60),
        ("cp", 1, 0.1, 1.0, 0.65),
        ("cp", 1, 1.0, 0.0, 0.72),
        ("cp", 2, 0.1, 0.0, 0.90),
        ("cp", 2, 10.0, 1.0, 0.85),
        ("tucker", (2, 2, 1), 1.0, 0.0, 0.75),
        ("tucker", 4, 1.0, 0.0, np.nan),
    ]
    names = ("param_decomposition", "param_rank", "param_lam", "param_mu1", "mean_test_score")
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    table["std_test_score"] = np.full(len(rows), 0.04)
    return {**table, **{f"split{k}_test_score": table["mean_test_score"] for k in range(5)}}


def test_search_shows_the_best_over_mu_along_lam(results):
    ax = plot_search(results)
    lines = ax.get_lines()
    assert legend_of(ax) == ["full", "cp, rank 1", "cp, rank 2", "tucker, rank 2-2-1", "best: 0.900 ± 0.020"]
    np.testing.assert_allclose(lines[1].get_xydata(), [(0.1, 0.65), (1.0, 0.72)])
    np.testing.assert_allclose(lines[2].get_xydata(), [(0.1, 0.90), (10.0, 0.85)])
    np.testing.assert_allclose(lines[4].get_xydata(), [(0.1, 0.90)])
    assert ax.get_xscale() == "log"
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.83, 0.92))


def test_of_equal_scores_the_smaller_model_is_the_best(results):
    results["mean_test_score"] = [0.5] * 9
    results["n_parameters"] = [20, 20, 9, 9, 8, 18, 18, 12, 12]
    np.testing.assert_allclose(plot_search(results).get_lines()[-1].get_xydata(), [(1.0, 0.5)])


def test_ranks_show_the_best_of_each_and_the_flat_weight_as_a_level(results):
    ax = plot_ranks(results)
    assert legend_of(ax) == ["full", "cp", "tucker"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2-2-1", "2"]
    cp = next(line for line in ax.get_lines() if list(line.get_ydata()) == [0.72, 0.90])
    np.testing.assert_allclose(cp.get_xdata(orig=False), [0, 2], atol=0.2)
    assert any(list(line.get_ydata()) == [0.8, 0.8] for line in ax.get_lines())
    ends = ax.collections[0].get_segments()[0]
    np.testing.assert_allclose(ends[:, 1], [0.70, 0.74])


@pytest.mark.parametrize(("chosen", "label"), [(6, "selected: 0.850 (best: 0.900)"), (None, None)])
def test_search_marks_the_selected_candidate(results, chosen, label):
    ax = plot_search(results, chosen=chosen)
    marked = [text.get_text() for text in ax.get_legend().get_texts() if text.get_text().startswith("selected")]
    assert marked == ([] if label is None else [label])
    assert any(text.get_text().startswith("best") for text in ax.get_legend().get_texts()) == (chosen is None)
    if label is not None:
        np.testing.assert_allclose(ax.get_lines()[-1].get_xydata(), [[10.0, 0.85]])


def test_search_reads_scikit_learns_own_table(matrices):
    from sklearn.model_selection import GridSearchCV

    X, y = matrices
    grids = [
        {"decomposition": ["full"], "lam": [0.1, 1.0]},
        {"decomposition": ["cp"], "rank": [1, 2], "lam": [0.1, 1.0]},
    ]
    table = GridSearchCV(TensorMarginClassifier(), grids, cv=2, refit=False).fit(X, y).cv_results_
    _, (one, other) = plt.subplots(1, 2)
    assert plot_search(table, ax=one) is one
    assert plot_ranks(table, ax=other) is other
    assert legend_of(one)[:3] == ["full", "cp, rank 1", "cp, rank 2"]
    assert one.get_lines()[-1].get_ydata()[0] == table["mean_test_score"].max()
    assert one.get_xlabel() == "λ"


def test_searches_that_cannot_be_drawn_are_refused(results):
    with pytest.raises(ValueError, match="it has no \\['param_lam'\\]"):
        plot_ranks({key: value for key, value in results.items() if key != "param_lam"})
    with pytest.raises(ValueError, match="every fit"):
        plot_search({**results, "mean_test_score": [np.nan] * 9})
    with pytest.raises(ValueError, match="for all candidates or for none"):
        plot_search({**results, "param_scale_free": [True] * 5 + [False] * 4})


def test_comparison_has_the_best_at_the_top():
    names = ["SVM", *ODD_NAMES]
    ax = plot_comparison(names, [0.8, 0.9, np.nan, 0.7], [0.7, 0.8, 0, 0.6], [0.85, 1.0, 1, 0.75], chance=0.5)
    assert [text.get_text() for text in ax.get_yticklabels()] == [UNPARSABLE, "SVM", "_x", "$\\nosuchmacro$"]
    interval, dot = ax.get_lines()[:2]
    assert list(interval.get_xdata()) == [0.8, 1.0]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (0.9, 0)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert ax.get_lines()[-1].get_xdata()[0] == 0.5


def test_comparison_marks_the_reference_on_given_axes():
    _, given = plt.subplots()
    ax = plot_comparison(["a", "b"], [0.8, 0.9], [0.7, 0.8], [0.9, 1.0], reference="a", ax=given)
    assert ax is given
    assert ax.get_lines()[-1].get_xdata()[0] == 0.8
    assert ax.get_lines()[3].get_color() != ax.get_lines()[1].get_color()
    with pytest.raises(ValueError, match="reference must be one of"):
        plot_comparison(["a"], [0.8], [0.7], [0.9], reference="c")
    with pytest.raises(ValueError, match="got 1, 1, 2 and 1"):
        plot_comparison(["a"], [0.8], [0.7, 0.6], [0.9])


@pytest.mark.parametrize("permuted", [np.linspace(0.2, 0.7, 60), [0.4, 0.5, 0.5, 0.6, 0.5], [0.5] * 4])
def test_every_permutation_is_in_the_histogram(permuted):
    permuted = np.asarray(permuted)
    ax = plot_permutations(permuted, 0.6, 0.04, name="balanced accuracy")
    null, as_good = ax.patches[:2]
    assert null.get_data().values.sum() == len(permuted)
    assert as_good.get_data().values.sum() == np.sum(permuted >= 0.6 - 1e-12)
    assert 0.6 in [line.get_xdata()[0] for line in ax.get_lines()]
    assert ax.get_xlabel() == "balanced accuracy"


def test_permutations_that_cannot_be_drawn_are_refused():
    with pytest.raises(ValueError, match="one finite score per permutation"):
        plot_permutations([], 0.5, 1.0)
    with pytest.raises(ValueError, match="one finite score per permutation"):
        plot_permutations([0.5, np.nan], 0.5, 1.0)


def test_importing_the_library_does_not_import_matplotlib():
    import subprocess
    import sys

    code = "import sys, tensormargin; assert not {'matplotlib', 'tensormargin.plots'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
