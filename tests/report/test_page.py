"""Tests of the report as a page: its first screen, its words, what it leaves open, and whether everyone can read it."""

from __future__ import annotations

import base64
import json
import re
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from conftest import fewer_models, low_rank_classes, opened, prefer, run
from PIL import Image
from sklearn.metrics import roc_auc_score

from tensormargin import TensorMarginClassifier
from tensormargin.data import Views
from tensormargin.evaluation import (
    CompareSettings,
    FitPlan,
    compare,
    comparison_content,
    fit_and_evaluate,
    fit_winner,
    reliability,
    roc,
)
from tensormargin.io import SampleSet, load_model, save_model
from tensormargin.plots import plot_calibration, plot_ranks, plot_roc, plot_search
from tensormargin.report import Lead, Page, comparison_page, model_page, model_report, render, write_page
from tensormargin.report.sections import comparison_section, confusion_section, curves_section, evaluation_lead
from tensormargin.report.sentences import comparison_limits, model_limits
from tensormargin.runtime import percent, points, short_number
from tensormargin.selection import kinds

KINDS = ("eeg", "volumes", "patches", "views", "representations", "many classes")
NEGATIVE_ZERO = re.compile(r"[-\u2212]0(\.0+)?(?![\d.]*[1-9])(?!\d)")


def samples_of(kind):
    """Return small samples of a kind: 24 or a few more, so that the table of predictions stays short."""
    shape, classes = {
        "eeg": ((8, 3), 2),
        "volumes": ((5, 6, 4), 2),
        "patches": ((3, 3, 12), 3),
        "views": ((6, 5), 2),
        "representations": ((6, 12), 3),
        "many classes": ((2, 5), 8),
    }[kind]
    count = max(24, 4 * classes)
    X, _ = low_rank_classes(0, count, shape, 0.0)
    y = np.arange(count) % classes
    X[:, 0] += 2.0 * y.reshape(-1, *[1] * (len(shape) - 1))
    labels = np.array([f"class {k}" for k in range(classes)])[y]
    groups = np.arange(count) // classes if kind == "patches" else None
    data = Views(eeg=X, age=X[:, :2, 0]) if kind == "views" else X
    return SampleSet(data, labels, groups, None, None, f"{kind}.npz", "NumPy archive", ())


@contextmanager
def side_by_side():
    """Let searches for series try no representation by itself."""
    series = replace(kinds.KINDS["series"], alone=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "KINDS", {**kinds.KINDS, "series": series})
        yield


@pytest.fixture(scope="module", autouse=True)
def _few_pictures():
    """Draw one binary problem instead of six: figures take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_report, "_MOST_PICTURES", 1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def reports(folder):
    """Return (samples, model, facts, content, HTML file) of a kind, made when it is first asked for."""
    made = {}

    def report(kind):
        if kind not in made:
            samples = samples_of(kind)
            form = {} if kind == "views" else {"decomposition": "cp", "rank": 1}
            plan = FitPlan(folds=2, outer_folds=2, permutations=2 if kind == "eeg" else 0, **form)
            few = fewer_models("TensorMarginClassifierCV", lams=(0.1, 1))
            if kind == "representations":  # of series, all side by side
                plan = FitPlan(folds=2, outer_folds=2, auto=True, kind="series")
                few = fewer_models("auto_model", lams=(1.0,), decompositions=("full",))
            with few, side_by_side():
                fitted = fit_and_evaluate(samples, plan)
            facts = save_model(folder / f"{kind}.skops", fitted.model, fitted.about)
            page, path = model_page(fitted.model, facts, samples), folder / f"{kind}.html"
            write_page(path, page)
            made[kind] = samples, fitted.model, facts, page, path
        return made[kind]

    return report


def text_of(page):
    """Return the visible text and the alternative texts of a page."""
    html = page.read_text(encoding="utf-8")
    alternatives = " ".join(re.findall(r'alt="([^"]*)"', html))
    return " ".join(
        (re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", " ", html, flags=re.S)).split()
    ), alternatives


# --------------------------------------------------------------------------------------------------- curves and numbers


@pytest.mark.parametrize("kind", [list, np.float32, np.float64])
def test_the_area_under_the_curve_is_that_of_scikit_learn(kind):
    rng = np.random.default_rng(0)
    own = rng.random(80) < 0.4
    values = np.round(np.clip(0.3 * own + 0.7 * rng.random(80), 0, 1), 1)
    given = values.tolist() if kind is list else values.astype(kind)
    curve = roc(own.tolist(), given)
    assert curve.area == pytest.approx(roc_auc_score(own, values))
    assert (curve.false_rate[0], curve.true_rate[0], curve.false_rate[-1], curve.true_rate[-1]) == (0, 0, 1, 1)


def test_one_class_has_no_curve():
    assert roc([True, True], [0.2, 0.3]) is None
    assert roc([False], [0.2]) is None


@pytest.mark.parametrize(("count", "bins"), [(1, 1), (19, 1), (45, 4), (200, 8)])
def test_bins_of_a_reliability_curve_share_out_the_predictions(count, bins):
    rng = np.random.default_rng(count)
    values = rng.random(count)
    happened = rng.random(count) < values
    curve = reliability(happened, values)
    assert len(curve.count) == bins
    assert curve.count.sum() == count
    assert np.average(curve.observed, weights=curve.count) == pytest.approx(happened.mean())
    assert np.average(curve.probability, weights=curve.count) == pytest.approx(values.mean())
    assert np.all((curve.low <= curve.observed) & (curve.observed <= curve.high))
    assert np.all(np.diff(curve.probability) > 0)


def test_equal_probabilities_are_one_bin_and_few_groups_have_no_interval():
    alike = reliability([True, False] * 30, np.repeat([0.2, 0.8], 30), units=np.arange(60) // 30)  # one group per bin
    assert np.isnan(alike.low).all()
    assert alike.observed.tolist() == [0.5, 0.5]
    curve = reliability([True, False] * 30, np.full(60, 0.7), units=np.arange(60) // 20)
    assert curve.count.tolist() == [60]
    assert np.isnan([curve.low, curve.high]).all()
    wider = reliability([True] * 30 + [False] * 30, np.full(60, 0.5), units=np.arange(60) // 10)
    alone = reliability([True] * 30 + [False] * 30, np.full(60, 0.5))
    assert (wider.high - wider.low)[0] > (alone.high - alone.low)[0]


def test_curves_are_drawn_or_refused():
    curve = roc([True, False, True], [0.9, 0.2, 0.4])
    ax = plot_roc(["$a_1$"], [curve.false_rate], [curve.true_rate])
    assert ax.get_legend().get_texts()[0].get_text() == "$a_1$"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.true_rate)
    ax = plot_calibration([0.2, 0.8], [0.3, 0.7], [np.nan, 0.5], [np.nan, 0.9], event="b")
    assert ax.get_xlabel() == "probability of b"
    with pytest.raises(ValueError, match="need one entry per curve; got 2, 1 and 1"):
        plot_roc(["a", "b"], [curve.false_rate], [curve.true_rate])
    with pytest.raises(ValueError, match="need one entry per bin"):
        plot_calibration([0.2], [0.3, 0.4], [0.1], [0.2])
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("value", [-0.0, -0.0004, 0.0004, 0.0])
def test_no_number_is_minus_zero(value):
    assert percent(value) == points(value) == "0.0"
    assert short_number(-0.0) == "0"
    assert (points(-0.012), points(0.012)) == ("-1.2", "+1.2")
    assert percent(0.9725) == percent(0.9725 + 1e-14) == percent(0.9725 - 1e-14)


# -------------------------------------------------------------------------------------------------------- first screen


EVALUATION = {
    "score": {"name": "accuracy", "value": 0.8},
    "accuracy": 0.8,
    "balanced_accuracy": 0.7,
    "interval": [0.7, 0.9],
    "unit": "group",
    "n_units": 12,
    "n_tested": 50,
    "majority": {"label": "a", "score": 0.5, "accuracy": 0.5},
    "reference": {"name": "LinearSVC", "score": 0.75},
    "difference": {"low": -0.1, "high": 0.2, "difference": 0.05, "significant": False},
    "samples": [{"label": "a", "predicted": "a"}, {"label": "b", "predicted": "a"}],
}
CHANCE = {"p_value": 0.3, "n_permutations": 19, "smallest_p": 0.05}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_screen_has_a_sentence_a_number_with_its_interval_and_a_figure(reports, kind):
    _, _, facts, _, path = reports(kind)
    evaluation, html = facts["about"]["evaluation"], path.read_text(encoding="utf-8")
    header = html[html.index("<header>") : html.index("</header>")]
    assert header.count('class="sentence"') == 1
    assert f"{percent(evaluation['score']['value'])}\u00a0%</strong>" in header
    assert header.count("<img ") == 1
    assert re.search(r"95\u00a0% interval [\d.]+ to [\d.]+\u00a0% \(\d+ (samples|groups)\)", header)
    alternative = re.search(r'alt="([^"]*)"', header)[1]
    assert percent(evaluation["score"]["value"]) in alternative
    assert percent(evaluation["reference"]["score"]) in alternative


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_the_order_of_classes_are_the_same_everywhere(reports, kind):
    samples, _, _, page, path = reports(kind)
    text, alternatives = text_of(path)
    assert not NEGATIVE_ZERO.findall(text + alternatives)
    assert text.count("tolerance") == 1
    confusion = next(section for section in page.sections if section.heading == "Confusion matrix")
    order = np.unique(samples.labels).tolist()
    assert {tuple(matrix["labels"]) for matrix in confusion.matrices} == {tuple(order)}
    data = next(section for section in page.sections if section.heading == "Data")
    assert [row["label"] for row in data.data["classes"]] == order
    for one, other in re.findall(r"(class \d) against (class \d)", text):
        assert order.index(one) > order.index(other)  # the class that positive values speak for comes first
    for red, blue in re.findall(r"red = (class \d), blue = (class \d)", path.read_text()):
        assert order.index(red) > order.index(blue)


def test_regular_expression_for_minus_zero():
    assert NEGATIVE_ZERO.findall("from -0 to -0.00, \u22120.0 %")
    assert not NEGATIVE_ZERO.findall("-0.05, 10-05, 2026-11-16T08:00, -0.004")


@pytest.mark.parametrize(("kind", "curves"), [("eeg", 1), ("patches", 3), ("many classes", 0)])
def test_roc_and_calibration_come_from_the_held_out_probabilities(reports, kind, curves):
    _, _, facts, page, _ = reports(kind)
    section = next(section for section in page.sections if section.heading == "ROC and calibration")
    rows, classes = facts["about"]["evaluation"]["samples"], facts["classes"]
    *drawn, calibration = section.pictures
    assert calibration.alt.startswith("Reliability curve")
    assert len(drawn) == bool(curves)
    if not curves:
        return
    assert drawn[0].alt.count("area under the curve") == curves
    last = [row["label"] == classes[-1] for row in rows]
    values = (
        [row["probabilities"][-1] for row in rows]
        if curves > 1
        else [row["probability"] if row["predicted"] == classes[1] else 1 - row["probability"] for row in rows]
    )
    assert f"{classes[-1]}: area under the curve {roc_auc_score(last, values):.3f}" in drawn[0].alt
    if curves > 1:
        assert all(sum(row["probabilities"]) == pytest.approx(1, abs=1e-3) for row in rows)


# -------------------------------------------------------------------------------------------- what the page leaves open


def test_only_what_applies_is_said_not_to_be_shown(reports):
    model = reports("eeg")[1]
    about = {"evaluation": EVALUATION, "data": {"n_groups": 4}, "search": {"n_models": 7}}

    def text(changed=None, with_maps=False, **more):
        evaluation = {**EVALUATION, **(changed or {})}
        return " ".join(model_limits(model, {**about, **more, "evaluation": evaluation}, with_maps))

    assert "about 20 of 100 such predictions are wrong" in text()
    assert "anything from -10.0 to +20.0 points" in text()
    assert "of 7 models" in text()
    assert "--groups" not in text()
    assert "--groups" in text(data={"n_groups": None})
    assert "copies" in text(data={"n_groups": 4, "warnings": ["3 copies"]})
    assert "weights also cancel noise" not in text()
    assert "weights also cancel noise" in text(with_maps=True)
    assert "rare classes" not in text()
    assert "90.0 % of the samples are a" in text({"majority": {"label": "a", "score": 0.9, "accuracy": 0.9}})
    assert "useful" not in text({"interval": [0.4, 0.9]})
    assert "p-value" not in text()
    assert "nothing to find" in text(chance=CHANCE)
    assert "no large effect" in text(chance={**CHANCE, "p_value": 0.01})
    assert "was not measured" in " ".join(model_limits(model, {}, False))


def test_models_of_the_first_version_still_have_a_page(tmp_path):
    loaded = load_model(Path(__file__).parents[1] / "files" / "digits-format1.skops")
    html = render(model_page(loaded.model, loaded.facts))
    assert "What this does not show" in html


def test_facts_without_the_newer_parts_still_give_a_page(reports):
    facts = reports("patches")[2]
    evaluation = dict(facts["about"]["evaluation"])
    del evaluation["classes"]
    evaluation["reference"] = {name: evaluation["reference"][name] for name in ("name", "score", "interval")}
    evaluation["samples"] = [
        {name: value for name, value in row.items() if name != "probabilities"} for row in evaluation["samples"]
    ]
    comparison = comparison_section(evaluation, None)
    assert comparison.tables[0]["rows"][1]["cells"][1]["text"] == "-"
    assert len(confusion_section(evaluation, facts["classes"]).matrices) == 1
    assert [one.alt[:11] for one in curves_section(evaluation, facts["classes"]).pictures] == ["Reliability"]
    page = Page("x", evaluation_lead("x", evaluation), "", {"tensormargin": "0"}, [comparison])
    assert "balanced accuracy" in render(page)


# --------------------------------------------------------------------------------------------------------- comparisons


@pytest.fixture(scope="module")
def compared(folder):
    samples = samples_of("eeg")
    settings = CompareSettings(methods=("SVM", "STuM", "LinearSVC"), repeats=2, lam_grid=(0.1, 1.0), folds=2)
    rows = list(compare(samples.data, samples.labels, settings))
    content = comparison_content(samples, settings, [], rows)
    winner = fit_winner(samples, settings, rows)
    page = comparison_page(content, winner, samples)
    write_page(folder / "comparison.html", page)
    return samples, rows, content, winner, page


def test_a_comparison_ends_with_its_winner(compared):
    samples, rows, content, winner, page = compared
    headings = [section.heading for section in page.sections]
    assert headings[0] == "Comparison"
    assert f"Winner: {winner.method}" in headings
    assert {"Margins", "Pattern and weight", "Factors", "Confusion matrix", "Predictions"} <= set(headings)
    summary = {one["method"]: one["accuracy"] for one in content["summary"]}
    assert summary[winner.method] == max(summary[name] for name in ("SVM", "STuM"))
    assert winner.model.predict(samples.data).shape == samples.labels.shape
    right = np.mean([row["label"] == row["predicted"] for row in winner.predictions])
    assert right == pytest.approx(summary[winner.method])
    assert len(winner.predictions) == sum(row.n_test for row in rows if row.method == winner.method)
    only_peers = CompareSettings(methods=("LinearSVC",), repeats=2, folds=2)
    others = [row for row in rows if row.method in only_peers.entries]
    assert fit_winner(samples, only_peers, others) is None


def test_the_best_of_many_is_called_optimistic(compared):
    content = compared[2]
    assert "optimistic" in " ".join(comparison_limits(content, False))
    alone = {**content, "summary": content["summary"][-2:]}
    assert "optimistic" not in " ".join(comparison_limits(alone, False))


# ------------------------------------------------------------------------------------------------------- in a browser

SERIOUS = """
    const done = arguments[arguments.length - 1];
    axe.run(arguments[0]).then((found) => done([
        found.passes.length,
        found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
            .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3)}`),
    ]));
"""


def faults(browser, options):
    """Return the serious faults that axe-core finds on the open page."""
    pytest.importorskip("axe_core_python", reason="needs axe-core-python, which carries the checker")
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    passes, found = browser.execute_async_script(SERIOUS, {"preload": False, "resultTypes": ["violations"], **options})
    assert passes
    return found


@pytest.mark.parametrize("kind", [*KINDS, "comparison"])
def test_everyone_can_read_the_page(browser, reports, compared, folder, kind):
    path = folder / "comparison.html" if kind == "comparison" else reports(kind)[4]
    opened(browser, path, 1280)
    assert faults(browser, {}) == []
    prefer(browser, "dark")
    assert browser.execute_script("return getComputedStyle(document.body).color") == "rgb(232, 235, 240)"
    assert faults(browser, {"runOnly": ["color-contrast"]}) == []


def test_the_checker_finds_faults(browser, tmp_path):
    (tmp_path / "bad.html").write_text(
        "<!doctype html><title>x</title><link rel=icon href=data:,>"
        "<section style='color:#aaa'>grey<img src=data:,></section>"
    )
    opened(browser, tmp_path / "bad.html")
    found = " ".join(faults(browser, {}))
    assert "color-contrast" in found
    assert "image-alt" in found


LAYOUT = """
    const shown = (one) => one.getClientRects().length > 0;
    return {
        headings: document.querySelectorAll('h1').length,
        unlabelled: [...document.querySelectorAll('th:not([scope])')].length,
        unnamed: [...document.querySelectorAll('img:not([alt]), img[alt=""]')].length,
        ids: [...document.querySelectorAll('[id]')].map((one) => one.id),
        figures: [...document.querySelectorAll('main figure img')].filter(shown).map(
            (one) => one.getBoundingClientRect().width / one.closest('section').clientWidth),
        scales: [...document.images].filter(shown).map((one) => one.width / one.naturalWidth),
        wide: [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).map(
            (one) => [one.tabIndex, one.previousElementSibling.textContent, one.previousElementSibling.hidden]),
        ratios: [...document.querySelectorAll('.cut canvas')].map((one) => one.clientWidth / one.clientHeight),
    };
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_fill_the_card_and_stay_legible(browser, reports, width):
    for kind in KINDS:
        opened(browser, reports(kind)[4], width)
        found = browser.execute_script(LAYOUT)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert (found["headings"], found["unlabelled"], found["unnamed"]) == (1, 0, 0)
        assert len(set(found["ids"])) == len(found["ids"])
        # two figures beside each other, or a figure beside its words; text has 10 points, so 0.75 are 10 pixels
        assert min(found["figures"]) > (0.4 if width == 1280 else 0.85)
        assert min(found["scales"]) > 0.75
        assert max(found["scales"]) < 1.6
        for focus, hint, hidden in found["wide"]:
            assert (focus, hidden) == (0, False)
            assert "Scroll sideways" in hint
        if kind == "many classes" and width == 390:
            assert found["wide"]  # nine classes do not fit
        if kind == "eeg":
            assert found["ratios"] == [pytest.approx(3 / 8, abs=0.05)]  # as its 8 x 3 entries, not square


MATRICES = """
    return [...document.querySelectorAll('.confusion')].filter((one) => one.checkVisibility()).map((one) => {
        const table = one.getBoundingClientRect(), box = one.parentElement.getBoundingClientRect();
        const cell = one.tBodies[0].rows[0].cells[0].getBoundingClientRect();
        return [table.width - box.width, box.left, box.right, cell.right - box.left, one.scrollHeight];
    });
"""


@pytest.fixture(scope="module")
def pictures(folder):
    """Return the report that `fit` writes of a folder of pictures with 15 classes."""
    rng = np.random.default_rng(0)
    for number in range(60):
        own = folder / "pictures" / f"person {number % 15}"
        own.mkdir(parents=True, exist_ok=True)
        values = rng.integers(0, 40, (6, 5)) + 14 * (number % 15)
        Image.fromarray(values.astype(np.uint8)).save(own / f"{number}.png")
    with fewer_models("TensorMarginClassifierCV", lams=(1.0,), multi_class="ovr"):  # 15 problems instead of 105
        options = ("--decomposition", "cp", "--rank", 1, "--folds", 2, "--outer-folds", 2)
        done = run("fit", folder / "pictures", "-o", folder / "pictures.skops", *options)
    assert done.returncode == 0, done.stderr
    return folder / "pictures.html"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("n_classes", [2, 4, 15, 40])
def test_confusion_matrices_fit(browser, pictures, folder, n_classes, width):
    path = pictures
    if n_classes != 15:
        names = [f"activity {k}" for k in range(n_classes)]
        rows = [{"label": one, "predicted": one} for one in names]
        counts = np.eye(n_classes, dtype=int).tolist()
        parts = {name: {"name": "LinearSVC", "confusion": counts} for name in ("reference", "matched")}
        section = confusion_section({"samples": rows, "repeats": 1, "classes": names, **parts}, names)
        path = folder / f"confusion {n_classes}.html"
        write_page(path, Page("x", Lead("x"), "", {"tensormargin": "0"}, [section]))
    opened(browser, path, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    found = browser.execute_script(MATRICES)
    assert len(found) == (3 if n_classes < 6 else 1)  # those of the references are folded
    for too_wide, left, right, label, height in found:
        assert 0 <= left < right <= width
        if width == 1280 or n_classes < 6:
            assert too_wide <= 1
        assert label < 0.5 * (right - left)
        assert height < 1100
    if width == 390 and n_classes > 6:  # the names of the rows stay while the counts scroll
        browser.execute_script("document.querySelector('.confusion').parentElement.scrollLeft = 100")
        assert (
            browser.execute_script(
                "const box = document.querySelector('.confusion').parentElement, cell = box.querySelector('tbody th');"
                "return Math.abs(cell.getBoundingClientRect().left - box.getBoundingClientRect().left)"
            )
            < 2
        )


def test_six_screens_before_anything_is_opened(browser, reports, pictures):
    from selenium.webdriver.support.ui import WebDriverWait

    for path in (*(reports(kind)[4] for kind in KINDS), pictures):
        opened(browser, path, 1280)
        assert browser.execute_script("return document.documentElement.scrollHeight") <= 6 * 800
    opened(browser, reports("views")[4], 1280)
    headings = (
        "return [...document.querySelectorAll('section h2')].map((one) => [one.textContent, !!one.closest('details')])"
    )
    found = browser.execute_script(headings)
    assert [name for name, _ in found[:3]] == ["Comparison", "Confusion matrix", "Views"]
    assert {"View eeg", "View age", "Convergence", "Predictions"} <= {name for name, folded in found if folded}
    assert ["What this does not show", False] in found
    shown = "return document.querySelector('#view-eeg img').checkVisibility()"
    assert not browser.execute_script(shown)
    browser.find_element("css selector", "#view-eeg summary").send_keys("\n")  # by keyboard
    assert browser.execute_script(shown)
    browser.execute_script("document.querySelector('nav a[href=\"#convergence\"]').click()")
    WebDriverWait(browser, 60).until(
        lambda one: one.execute_script("return document.querySelector('#convergence details').open")
    )
    browser.execute_script("document.querySelector('[data-unfold]').click()")
    assert browser.execute_script("return document.querySelectorAll('section > details:not([open])').length") == 0


def test_folded_sections_are_printed(browser, reports):
    opened(browser, reports("views")[4], 1280)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script("return document.querySelectorAll('section > details[open]').length") == 0


def test_both_references_are_shown_wherever_results_are(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 3, 4)) + y[:, None, None]
    X[:, 0] *= 1e4  # hides the classes unless entries are scaled
    np.savez(tmp_path / "waves.npz", X=X, y=np.array(["calm", "rough"])[y])
    with fewer_models("auto_model", lams=(1.0,), decompositions=("full",)):
        options = ("--auto", "--kind", "plain", "--folds", 2, "--outer-folds", 2, "--json")
        done = run("fit", tmp_path / "waves.npz", "-o", tmp_path / "waves.skops", *options)
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)["evaluation"]
    as_they_are, represented = (percent(evaluation[name]["score"]) for name in ("reference", "matched"))
    assert evaluation["matched"]["score"] > evaluation["reference"]["score"]
    assert evaluation["difference"] == evaluation["reference"]["difference"] != evaluation["matched"]["difference"]
    text, alternatives = text_of(tmp_path / "waves.html")
    spoken = run("inspect", tmp_path / "waves.skops").stdout
    for said in (" ".join(spoken.split()), text):
        assert f"on the samples as they are: {as_they_are} %" in said
        assert f"on the representation chosen on each training set: {represented} %" in said
    assert f"samples as they are {as_they_are} %" in alternatives
    assert f"chosen representation {represented} %" in alternatives
    assert f"on the samples as they are ({as_they_are} %)" in text.replace("\u00a0", " ")


def test_words_are_explained_on_the_first_screen(reports):
    for kind in ("patches", "eeg"):
        html = reports(kind)[4].read_text(encoding="utf-8")
        header = html[html.index("<header>") : html.index("</header>")]
        assert "LinearSVC (a linear support vector machine that takes each sample as one long vector)" in header
        assert ("Samples of one person, session or the like form a group" in header) == (kind == "patches")


def test_dropped_candidates_are_not_drawn_and_ties_are_called_ties():
    results = {
        "param_decomposition": ["cp"] * 4,
        "param_rank": [1] * 4,
        "param_lam": [0.1, 1.0, 10.0, 100.0],
        "mean_test_score": [0.9, 0.9, 0.8, 0.2],
        "std_test_score": [0.0] * 4,
        "n_parameters": [3] * 4,
        "dropped": ["", "", "", "after 1 of 5 splits"],
    }
    ax = plot_search(results, chosen=1)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0.1, 1.0, 10.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "selected: 0.900,\ntied with 1 other"
    ax = plot_search(results, chosen=2)
    assert ax.get_legend().get_texts()[-1].get_text() == "selected: 0.800 (best: 0.900)"
    np.testing.assert_array_equal(plot_ranks(results).lines[0].get_ydata(), [0.9])
    evaluation = {**EVALUATION, "repeats": 1, "scheme": "2 folds", "folds": [], "n_untested": 0}
    evaluation["difference"] = {**EVALUATION["difference"], "method": "x", "p_value": 1.0, "unit": "group"}
    evaluation["reference"] = {"name": "LinearSVC", "score": 0.8, "interval": [0.7, 0.9]}
    rows = comparison_section(evaluation, None).tables[0]["rows"]
    assert [row["cells"][0]["text"] for row in rows] == ["this model (tied)", "flat LinearSVC (tied)", "always a"]


def test_figures_of_a_dark_page_have_light_lines(reports):
    for picture in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', reports("eeg")[4].read_text()):
        svg = base64.b64decode(picture).decode()
        assert "prefers-color-scheme:dark" in svg
        assert "fill: #ffffff" not in svg  # no white ground behind the figure


def shades(browser):
    """Return the darkest and the lightest shade, from 0 to 255, of the figure of the first screen."""
    box = browser.execute_script(
        "const box = document.querySelector('.lead figure img').getBoundingClientRect();"
        "return [box.x, box.y, box.width, box.height]"
    )
    clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
    with Image.open(BytesIO(base64.b64decode(taken["data"]))) as image:
        grey = np.asarray(image.convert("L"))
    return float(grey.min()), float(grey.max())


def test_paper_is_white_and_figures_on_it_are_dark(browser, reports):
    opened(browser, reports("eeg")[4], 1280, "dark")
    darkest, lightest = shades(browser)
    assert (darkest < 60, lightest > 200) == (True, True)  # light lines on a dark page
    prefer(browser, "dark", "print")
    darkest, lightest = shades(browser)
    assert (darkest < 60, lightest == 255) == (True, True)
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"


def test_the_page_of_a_volume_is_small(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 49, 58, 47)).astype(np.float32)
    y = np.arange(8) % 4
    model = TensorMarginClassifier("cp", 1, tol=0.1, multi_class="ovr").fit(X, y)
    save_model(tmp_path / "volume.skops", model, {})
    loaded = load_model(tmp_path / "volume.skops")
    samples = SampleSet(X, y, None, None, None, "volume.npz", "NumPy archive", ())
    write_page(tmp_path / "page.html", model_page(loaded.model, loaded.facts, samples))
    assert (tmp_path / "page.html").stat().st_size < 3e6
