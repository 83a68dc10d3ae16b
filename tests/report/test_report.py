"""Tests of the report: its content, escaping of untrusted text, and behaviour in a real browser."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from campaigns.browser import look as looked_at
from conftest import fewer_models, low_rank_classes, opened, undrawn_figures

from tensormargin import TensorMarginClassifier
from tensormargin.evaluation import CompareSettings, FitPlan, compare, comparison_content, fit_and_evaluate
from tensormargin.io import SampleSet, load_model, read_facts, save_model
from tensormargin.report import comparison_page, evaluation_lines, format_differences, model_page, render, write_page
from tensormargin.report.sentences import fold_note
from tensormargin.report.viewer import packed_background, packed_map

EVIL = "<script>alert(1)</script>"
EVIL_NAME = '"><img src=x onerror=alert(2)>/{{ 7 * 7 }}.npy'


def sample_set(n=30, shape=(7, 6, 5), classes=2):
    """Return samples with labels, names and notes that are harmful unless the page escapes them."""
    X, t = low_rank_classes(0, n, shape, 9.0)
    y = np.where(t > 0, EVIL, "a & b")
    if classes == 3:
        y[::3], X[::3] = "third's", X[::3] + 3.0
    names = [EVIL_NAME, *(f"sub-{k:02d}.npy" for k in range(1, n))]
    return SampleSet(X, y, np.arange(n) * 5 // n, names, None, f"{EVIL}.npz", "NumPy archive", (f"note {EVIL}",))


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def fitted(request, tmp_path_factory):
    samples = sample_set(classes=request.param)
    one_form = {} if request.param == 2 else {"decomposition": "cp", "rank": 1}  # three classes: three times the fits
    two = request.param == 2  # with maps on the samples, and one reference
    plan = FitPlan(auto=two, linear=two, folds=2, outer_folds=2, **one_form)
    with (
        fewer_models("TensorMarginClassifierCV", lams=(0.01, 1)),
        fewer_models("auto_model", lams=(0.01, 1), ranks=(2,)),
    ):
        result = fit_and_evaluate(samples, plan)
    path = tmp_path_factory.mktemp("report") / "model.skops"
    save_model(path, result.model, result.about)
    return samples, result.model, read_facts(path), path


two_classes = pytest.mark.parametrize("fitted", [2], ids=["two classes"], indirect=True)


@pytest.fixture(scope="module")
def content(fitted):
    samples, model, facts, _ = fitted
    return model_page(model, facts, samples)


@pytest.fixture(scope="module")
def html(content):
    return render(content)


def text_of(html):
    """Return the visible text, without scripts and embedded data."""
    return " ".join(re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", " ", html, flags=re.S).split())


def test_the_page_has_every_section_and_the_nested_estimate(fitted, html):
    facts, text = fitted[2], text_of(html)
    sections = ("Data", "Comparison", "Chosen model", "Margins", "Convergence", "Pattern and weight", "Factors")
    for heading in (*sections, "Confusion matrix", "Predictions", "Methods"):
        assert heading in text
    evaluation = facts["about"]["evaluation"]
    assert f"{100 * evaluation['accuracy']:.1f} % accuracy on held-out samples" in text
    assert "optimistic" in text
    for words in ("2 folds that keep groups together", "seed 0", "scikit-learn", "0.01", "LinearSVC", "numpy"):
        assert words in text


def test_nothing_from_the_data_becomes_markup(html):
    assert EVIL not in html
    assert "<img src=x" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "{{ 7 * 7 }}" in html  # a name that looks like a template stays a name
    assert html.count("<script") == 2  # the viewer's data and code, and none from labels
    for picture in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html):
        assert b"<script" not in base64.b64decode(picture)


def test_the_page_needs_nothing_but_itself(html):
    assert re.findall(r'(?:src|href)="(?!data:image/svg|#)[^"]*"', html) == []
    assert "url(" not in html
    for rule in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in html


@two_classes
def test_the_same_model_makes_the_same_page(fitted, page):
    samples, model, facts, _ = fitted
    assert page.read_text(encoding="utf-8") == render(model_page(model, facts, samples))


def test_confusion_and_predictions_agree_with_the_evaluation(fitted, content):
    samples, _, facts, _ = fitted
    confusion = next(section for section in content.sections if section.heading == "Confusion matrix")
    ours, reference = confusion.matrices
    right = sum(cell["count"] for row in ours["rows"] for cell in row["cells"] if cell["diagonal"])
    total = sum(cell["count"] for row in ours["rows"] for cell in row["cells"])
    rows = facts["about"]["evaluation"]["samples"]
    assert ours["balanced"] == pytest.approx(facts["about"]["evaluation"]["balanced_accuracy"])
    assert reference["balanced"] == pytest.approx(facts["about"]["evaluation"]["reference"]["balanced_accuracy"])
    assert total == len(rows) == len(samples.data)
    assert right == sum(row["label"] == row["predicted"] for row in rows)


@two_classes
def test_a_model_without_evaluation_says_so(fitted):
    _, model, facts, _ = fitted
    bare = {**facts, "about": {}}
    with undrawn_figures():
        text = text_of(render(model_page(model, bare)))
    assert "not evaluated" in text
    assert "Confusion matrix" not in text
    assert "Weight map" in text


def unpacked(packed):
    """Return the values of a packed map, as the page reads them."""
    codes = np.frombuffer(base64.b64decode(packed["codes"]), "<u2").astype(int).reshape(packed["shape"])
    half, signs = (codes - 1) // 2, np.where(codes % 2, 1, -1)
    return np.where(codes, signs * (100.0 + half % 900) * 10.0 ** (packed["lowest"] + half // 900 - 2), 0.0)


@pytest.mark.parametrize("shape", [(9,), (5, 8), (4, 3, 5), (3, 2, 4, 2), (150, 3, 2)])
def test_maps_are_packed_to_bytes(shape):
    values = np.random.RandomState(0).standard_normal(shape)
    packed = packed_map(values, "weight")
    stored = unpacked(packed)
    assert [edges is not None for edges in packed["edges"]] == [size > 128 for size in shape]
    largest = np.unravel_index(np.abs(values).argmax(), shape)
    assert packed["peak"] == {"at": list(largest), "value": values[largest]}
    if max(shape) <= 128:
        np.testing.assert_allclose(stored, values, rtol=0.0051)
        assert packed["start"] == list(largest)
    grey = np.frombuffer(base64.b64decode(packed_background(values)), np.uint8)
    assert grey.size == stored.size
    assert grey.max() == 255
    json.dumps(packed)


@pytest.mark.parametrize("shape", [(129,), (300, 4), (3, 200, 1000), (256, 2, 1)])
def test_entries_of_a_long_mode_stand_for_the_ranges_that_they_name(shape):
    values = np.random.RandomState(0).standard_normal(shape)
    packed = packed_map(values, "weight")
    stored = unpacked(packed)
    edges = [np.arange(size + 1) if own is None else own for own, size in zip(packed["edges"], shape, strict=True)]
    assert [(own[0], own[-1], len(own) - 1) for own in edges] == [(0, size, min(size, 128)) for size in shape]
    assert all(np.all(np.diff(own) >= 1) for own in edges)
    for place in np.random.RandomState(1).randint(0, packed["shape"], (50, len(shape))):
        block = tuple(slice(own[at], own[at + 1]) for own, at in zip(edges, place, strict=True))
        assert stored[tuple(place)] == pytest.approx(values[block].mean(), rel=0.0051)
    peak = np.unravel_index(np.abs(values).argmax(), shape)
    for own, at, start in zip(edges, peak, packed["start"], strict=True):
        assert own[start] <= at < own[start + 1]


def test_a_map_of_zeros_and_a_constant_background_can_be_packed():
    packed = packed_map(np.zeros((3, 4)), "weight")
    assert not unpacked(packed).any()
    assert set(base64.b64decode(packed_background(np.full((3, 4), 7.0)))) == {0}


@pytest.fixture(scope="module")
def comparison():
    samples = sample_set()
    settings = CompareSettings(methods=("SVM", "STM", "LinearSVC"), repeats=2, lam_grid=(1.0,), folds=2)
    rows = list(compare(samples.data, samples.labels, settings))
    return comparison_content(samples, settings, [], rows)


def test_what_was_saved_before_there_were_warnings_can_be_shown(comparison):
    old = {name: value for name, value in comparison["data"].items() if name != "warnings"}
    assert "Warning" not in text_of(render(comparison_page({**comparison, "data": old})))


def test_the_page_of_a_comparison(comparison):
    html = render(comparison_page(comparison))
    text = text_of(html)
    for words in ("SVM", "STM", "LinearSVC", "majority class", "30 samples of 7 x 6 x 5", "2 random splits"):
        assert words in text
    best = max(one["accuracy"] for one in comparison["summary"])
    first, *tied = [one["method"] for one in comparison["summary"] if one["accuracy"] == best]
    said = f"is tied with {', '.join(tied)} at the highest accuracy" if tied else "has the best accuracy"
    assert f"{first} {said} on held-out samples" in text
    assert "overlap are not shown" not in text
    assert EVIL not in html


def test_methods_differ_by_the_paired_difference():
    one = {"method": "SVM", "against": "STM", "difference": -0.1, "low": -0.2, "high": -0.01, "p_value": 0.02}
    one["detectable"] = 0.08
    two = {**one, "method": "LMDM", "low": -0.2, "high": 0.05, "p_value": 0.6, "detectable": 0.15}
    three = {**one, "method": "LinearSVC", "difference": 0.1, "significant": True}
    few = {**one, "low": None, "high": None, "p_value": None, "significant": False}
    assert format_differences([{**one, "significant": True}, {**two, "significant": False}, three]) == [
        "Significantly better than STM: LinearSVC.",
        "Significantly worse than STM: SVM.",
        "Not significantly different from STM: LMDM. A true difference of 15 points would have been found in 4 of 5 "
        "such comparisons.",
    ]
    assert format_differences([few]) == ["There are too few groups to tell whether methods differ."]


def test_the_unit_of_the_interval_is_said(fitted):
    evaluation = fitted[2]["about"]["evaluation"]
    assert evaluation["unit"] == "group"
    with_groups, few = (
        " ".join(evaluation_lines({**evaluation, **changed}, None))
        for changed in (
            {"interval": [0.61, 0.89], "n_units": 12},
            {
                "interval": [None, None],
                "n_units": 3,
                "difference": {**evaluation["difference"], "low": None, "n_units": 3},
            },
        )
    )
    assert "(95 % interval 61.0 to 89.0, 12 groups)" in with_groups
    assert "(no interval: 3 groups are too few)" in few
    assert "3 groups are too few to tell whether that is better than always answering" in few
    assert "comes from 3 groups: too few to tell" in few


def test_what_is_balanced_is_compared_by_balanced_accuracy(fitted):
    evaluation = dict(fitted[2]["about"]["evaluation"])
    evaluation |= {"score": {"name": "balanced accuracy", "value": 0.75}, "accuracy": 0.9}
    lines = evaluation_lines(evaluation, None)
    assert lines[0].startswith("Balanced accuracy on held-out samples: 75.0 %")
    assert lines[0].endswith("; accuracy: 90.0 %.")


def test_folds_that_lack_a_class_are_explained(fitted):
    evaluation = dict(fitted[2]["about"]["evaluation"])
    fold = {**evaluation["folds"][0], "unseen": ["c"], "absent": ["a", "b"]}
    evaluation |= {"folds": [fold, *evaluation["folds"][1:]], "n_untested": 4}
    said = " ".join(evaluation_lines(evaluation, None))
    assert "The training set of fold 1.1 has no sample of c, so none of those in its test set can be right." in said
    assert f"1 of {len(evaluation['folds'])} test sets lack a class" in said
    assert "4 samples were never tested" in said
    assert fold_note({**fold, "groups": []}) == "training set without c; test set without a, b"


@two_classes
def test_the_null_distribution_is_on_the_page(fitted):
    _, model, facts, _ = fitted
    chance = {
        "score": 0.8,
        "score_name": "accuracy",
        "p_value": 0.1,
        "smallest_p": 0.05,
        "n_permutations": 19,
        "exchanged": "labels within groups",
        "fixed_groups": ["s1", "s2"],
        "n_fixed": 6,
        "permuted": np.linspace(0.3, 0.8, 19).tolist(),
    }
    with_test = {**facts, "about": {**facts["about"], "chance": chance}}
    with undrawn_figures():
        page = model_page(model, with_test)
    comparison = next(section for section in page.sections if section.heading == "Comparison")
    assert "permuted labels within groups" in comparison.pictures[-1].caption
    said = " ".join(comparison.lines)
    assert "p = 0.1 (19 permutations of labels within groups; the smallest possible p is 0.05)" in said
    assert "The labels of 6 samples cannot be exchanged: their groups (s1, s2) have one label each" in said


# ------------------------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def page(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, content)
    return path


def find(browser, selector):
    return browser.find_elements("css selector", selector)


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_opens_without_errors_and_fits_the_screen(browser, page, width, tmp_path):
    opened(browser, page, width)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    images = "return [...document.images].filter((i) => !(i.complete && i.naturalWidth > 0)).length"
    assert browser.execute_script(images) == 0
    assert browser.save_screenshot(str(tmp_path / "page.png"))
    assert not browser.execute_script("return typeof window.alerted !== 'undefined'")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("&lt;script&gt;alert(1)&lt;/script&gt;", ""),
        (EVIL, "a dialog: 1"),
        ("<img src=x onerror=alert(2)>", "a dialog: 2"),
        ("<a href='javascript:alert(1)'>x</a>", "an element of a label"),
        ("<script>location = 'about:blank'</script>", "went to about:blank"),
        ("nothing", "does not show"),
    ],
    ids=["text", "script", "handler", "link", "redirection", "missing"],
)
def test_the_campaign_of_hostile_labels_finds_what_is_wrong(content, fault, browser, tmp_path):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>x</title><link rel=icon href=data:,>{content}")
    found = looked_at(browser, tmp_path / "page.html", [EVIL])
    found = [one for one in found if "rel=" not in one]  # so that the browser asks for no icon
    assert any(fault in one for one in found) if fault else found == []


def pixels(browser, number):
    return browser.execute_script(
        "const c = document.querySelectorAll('[data-cuts] canvas')[arguments[0]];"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]",
        number,
    )


def move(browser, slider, value):
    browser.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, value
    )


def test_sliders_move_the_slices(browser, page, fitted):
    opened(browser, page)
    _, model, _, _ = fitted
    sliders = find(browser, "[data-viewer] input[data-mode]")
    assert len(sliders) == 3
    assert [int(slider.get_attribute("max")) for slider in sliders] == [6, 5, 4]
    before = [pixels(browser, k) for k in range(3)]
    moved = (int(sliders[0].get_attribute("value")) + 3) % 7
    move(browser, sliders[0], moved)
    after = [pixels(browser, k) for k in range(3)]
    assert after[0] != before[0]  # the cut across mode 1 has changed
    assert after[1:] == before[1:]
    assert f"mode 1 at {moved}" in find(browser, ".cut p")[0].text
    from tensormargin.inspection import weight_maps

    expected = weight_maps(model)[0]
    row, column = np.unravel_index(np.abs(expected[moved]).argmax(), expected[moved].shape)
    red, _, blue, _ = pixels(browser, 0)[4 * (row * 5 + column) :][:4]
    assert (red > blue) == (expected[moved, row, column] > 0)


def test_a_click_moves_all_cuts_there(browser, page):
    from selenium.webdriver import ActionChains

    opened(browser, page)
    canvas = find(browser, "[data-cuts] canvas")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    ActionChains(browser).move_to_element_with_offset(canvas, -canvas.size["width"] // 2 + 4, 0).click().perform()
    assert int(find(browser, "input[data-mode='2']")[0].get_attribute("value")) == 0


def test_the_pattern_and_the_background_can_be_chosen(browser, page):
    opened(browser, page)
    weight = pixels(browser, 0)
    browser.execute_script("document.querySelector('[data-background]').click()")
    assert pixels(browser, 0) != weight
    browser.execute_script("document.querySelector('[data-background]').click()")
    assert pixels(browser, 0) == weight
    browser.execute_script(
        "const s = document.querySelector('[data-kind]'); s.value = '1'; s.dispatchEvent(new Event('change'))"
    )
    assert pixels(browser, 0) != weight


@pytest.fixture(scope="module")
def long_page(tmp_path_factory):
    """Return a report on samples with a mode of 200 entries; the classes differ mainly in the entry (4, 2, 199)."""
    rng = np.random.default_rng(0)
    X, y = 0.1 * rng.standard_normal((40, 5, 3, 200)), np.repeat([0, 1], 20)
    X[y == 1, 4, 2, 199] += 3.0
    folder = tmp_path_factory.mktemp("long")
    save_model(folder / "model.skops", TensorMarginClassifier("full").fit(X, y), {})
    loaded = load_model(folder / "model.skops")
    write_page(folder / "report.html", model_page(loaded.model, loaded.facts))
    return folder / "report.html"


def test_a_long_mode_is_named_by_the_indices_of_the_samples(browser, long_page):
    opened(browser, long_page)
    assert find(browser, "[data-value]")[0].text.startswith("mean ")
    assert find(browser, "[data-value]")[0].text.endswith("at (4, 2, 198 to 199)")
    assert find(browser, "[data-range]")[0].text.endswith("at (4, 2, 199)")
    last = find(browser, "input[data-mode='2']")[0]
    assert int(last.get_attribute("max")) == 127
    assert "mode 3 at 198 to 199" in find(browser, ".cut p")[2].text
    move(browser, last, 2)
    assert "mode 3 at 3" in find(browser, ".cut p")[2].text  # its third range: 0, 1 to 2, 3, 4 to 5, ...
    assert find(browser, "[data-value]")[0].text.endswith("at (4, 2, 3)")
    assert not find(browser, "[data-value]")[0].text.startswith("mean")
    assert last.get_attribute("aria-valuetext") == "3"
    assert browser.get_log("browser") == []


def column(browser, number):
    cells = f"#samples-table tbody tr:not([hidden]) > :nth-child({number})"
    return browser.execute_script(f"return [...document.querySelectorAll({cells!r})].map((c) => c.textContent)")


def test_the_table_sorts_and_filters(browser, page, fitted):
    samples = fitted[0]
    opened(browser, page)
    browser.execute_script("document.querySelector('#predictions details').open = true")
    headings = find(browser, "#samples-table th button")
    assert [heading.text for heading in headings] == ["sample", "group", "label", "predicted", "probability"]
    browser.execute_script("arguments[0].click()", headings[4])
    rising = [float(text) for text in column(browser, 5)]
    assert rising == sorted(rising)
    browser.execute_script("arguments[0].click()", headings[4])
    assert [float(text) for text in column(browser, 5)] == sorted(rising, reverse=True)
    browser.execute_script("arguments[0].click()", headings[0])
    assert column(browser, 1) == samples.names  # in the order of the samples, not alphabetical
    search = find(browser, "[data-filter]")[0]
    search.send_keys("SUB-07")
    assert column(browser, 1) == ["sub-07.npy"]
    assert find(browser, "[data-count]")[0].text == f"1 of {len(samples.data)}"
    search.clear()
    search.send_keys(" ")
    browser.execute_script("document.querySelector('[data-only-wrong]').click()")
    wrong = zip(column(browser, 3), column(browser, 4), strict=True)
    assert all(label != predicted for label, predicted in wrong)


def test_problems_of_several_classes_can_be_chosen(browser, page, fitted):
    opened(browser, page)
    selects = find(browser, "select[data-shows]")
    if len(fitted[0].labels) and len(set(fitted[0].labels.tolist())) == 2:
        assert selects == []
        return
    shown = "return [...document.querySelectorAll('[data-group=margins]')].map((d) => !d.hidden)"
    assert browser.execute_script(shown) == [True, False, False]
    browser.execute_script(
        "const s = document.querySelector('[data-shows=margins]'); s.value = '2'; s.dispatchEvent(new Event('change'))"
    )
    assert browser.execute_script(shown) == [False, False, True]


def test_the_page_of_a_comparison_sorts(browser, comparison, tmp_path):
    write_page(tmp_path / "comparison.html", comparison_page(comparison))
    opened(browser, tmp_path / "comparison.html", 390)
    assert browser.get_log("browser") == []
    button = find(browser, "table[data-sortable] th button")[0]
    browser.execute_script("arguments[0].click()", button)
    table = find(browser, "table[data-sortable]")[0]
    names = [cell.text for cell in find(table, "tbody th")]
    assert names == sorted(names, key=str.lower)
