"""Tests of the figures of a field in the report, and of volumes in its viewer."""

from __future__ import annotations

import re
from dataclasses import replace

import conftest
import matplotlib as mpl
import nibabel
import numpy as np
import pytest
from conftest import run
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline

from tensormargin import BandPower, Covariances, TensorMarginClassifier, TensorScaler, TensorUnion, Views
from tensormargin.data import Axis, Orientation, millimetres
from tensormargin.inspection import ModelChain
from tensormargin.io import BadFileError, SampleSet, load_model, save_model
from tensormargin.report import Display, model_page, read_anatomy, render, write_page
from tensormargin.report.field_figures import channel_mode, field_section, figures_for, peak_places
from tensormargin.report.page import Picture
from tensormargin.report.viewer import ModelMaps, map_content

mpl.use("Agg")

ELECTRODES = ["Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2", "nd"]
TIME = Axis("time", "ms", np.arange(12) * 10.0)
WAVES = Axis("wavelength", "nm", np.linspace(400, 800, 12))
CHANNELS = Axis("channel", "", ELECTRODES)


def samples_with(axes, shape, affine=None, classes=2, field=None):
    rng = np.random.default_rng(0)
    y = np.arange(24) % classes
    X = rng.normal(size=(24, *shape)) + y.reshape(-1, *[1] * len(shape)) * rng.normal(size=shape)
    return SampleSet(X, [f"class {k}" for k in y], None, None, affine, "x.npz", "file", (), axes=axes, field=field)


def page_of(samples, tmp_path, **options):
    model = TensorMarginClassifier("cp", 1).fit(samples.data, samples.target)
    save_model(tmp_path / "model.skops", model, {"affine": None if samples.affine is None else samples.affine.tolist()})
    loaded = load_model(tmp_path / "model.skops")
    return model_page(loaded.model, loaded.facts, samples, **options)


def sketched(draw, *arguments, caption, size, **options):
    """Return a picture without its image, which takes most of the time; figures are rendered in test_field_plots."""
    draw(*arguments, **options)
    plt.close("all")
    return Picture("data:image/svg+xml,", caption)


def section_of(page, template):
    return next((section for section in page.sections if section.template == template), None)


# which figures


@pytest.mark.parametrize(
    ("axes", "kind", "figures"),
    [
        (None, None, None),
        ((Axis("channel"), Axis("time", "ms")), None, None),
        ((CHANNELS, TIME), "eeg", "channels"),
        ((TIME, CHANNELS), None, "channels"),
        ((CHANNELS, Axis("frequency", "Hz")), None, "channels"),
        ((WAVES,), None, "spectra"),
        ((TIME,), "spectra", "spectra"),
        ((TIME,), None, None),
        ((Axis("excitation", "nm", [1, 2]), WAVES), None, "spectra"),
        ((Axis("row"), Axis("column"), WAVES), "image", "spectra"),
        ((Axis("x", "mm", [1, 2]), Axis("y", "mm", [1, 2])), None, "image"),
        ((CHANNELS, Axis("region", "", ["a", "b"])), None, "image"),
        ((Axis("x", "mm", [1, 2]),) * 3, "volume", None),
    ],
)
def test_axes_decide_on_the_figures(axes, kind, figures):
    assert figures_for(axes, kind) == figures


def test_peaks_are_where_channels_differ_most():
    matrix = np.zeros((5, 60))
    for place, size in ((0, 3.0), (20, 9.0), (40, 5.0), (59, 4.0)):
        matrix[:, place] = size * np.arange(5)
    assert peak_places(matrix) == [0, 20, 40, 59]
    assert peak_places(matrix, 2) == [20, 40]
    assert peak_places(np.zeros((5, 7))) == [0]
    assert peak_places(np.full((3, 1), np.nan)) == [0]
    assert channel_mode((TIME, CHANNELS)) == 1


@pytest.mark.parametrize(
    ("axes", "heading", "per_problem", "classes"),
    [
        ((TIME, CHANNELS), "Channels", 4, 2),  # on the head at peaks, lines, image, components
        ((Axis("channel", "", [f"e{k}" for k in range(11)]), TIME), "Channels", 2, 2),
        ((WAVES,), "Spectra", 1, 3),
        ((Axis("excitation", "nm", np.arange(11)), WAVES), "Spectra", 2, 2),
    ],
)
def test_the_page_has_the_figures_of_the_field(axes, heading, per_problem, classes, monkeypatch):
    monkeypatch.setattr("tensormargin.report.field_figures.picture", sketched)
    samples = samples_with(axes, tuple(len(axis.values) for axis in axes), classes=classes)
    model = TensorMarginClassifier("cp", 1).fit(samples.data, samples.target)
    section = field_section(ModelMaps(model, samples), range(len(model.problems_)), samples.axes)
    assert section.heading == heading
    assert [len(part["pictures"]) for group in section.groups for part in group["parts"]] == (
        [per_problem] * len(model.problems_)
    )
    captions = " ".join(one.caption for one in section.groups[0]["parts"][0]["pictures"])
    assert "class 1 against class 0" in captions
    assert ("place is not known: nd." in captions) == (CHANNELS in axes)


def test_each_view_is_shown_on_its_axes_with_its_share_and_reproducibility(monkeypatch):
    monkeypatch.setattr("tensormargin.report.field_figures.picture", sketched)
    samples = samples_with((CHANNELS, TIME), (11, 12), classes=3)
    union = TensorUnion(
        [("scaled", TensorScaler(0)), ("power", BandPower(sfreq=100.0)), ("covariances", Covariances())]
    )
    model = make_pipeline(union, TensorMarginClassifier("full")).fit(samples.data, samples.target)
    section = field_section(ModelMaps(model, samples), range(3), samples.axes)
    assert section.heading == "Patterns"
    assert [group["name"] for group in section.groups] == ModelChain.of(model).problem_names
    shares = {name: float(own.mean()) for name, own in model[-1].view_shares_.items()}
    for number, group in enumerate(section.groups):
        texts = [part["text"] for part in group["parts"]]
        shown = [re.search(r"of the view (\w+)|on the axes of the samples", text)[1] for text in texts]
        assert [name for name in shown if name] == sorted(shares, key=shares.get, reverse=True)
        for name, text, part in zip(shown, texts, group["parts"], strict=True):
            pattern = ModelMaps(model, samples).patterns[name or ""] if number == 0 else None
            assert pattern is None or f"(r = {pattern.halves[0]:.2f})" in text
            assert len(part["pictures"]) == (1 if name == "covariances" else 3)
            assert name is None or f"which has {100 * shares[name]:.1f} % of the score" in text


def test_given_views_with_electrodes_are_on_the_head(monkeypatch):
    monkeypatch.setattr("tensormargin.report.field_figures.picture", sketched)
    eeg, rng = samples_with((CHANNELS, TIME), (11, 12)), np.random.default_rng(1)
    X = Views(eeg=eeg.data, other=rng.normal(size=(24, 11, 12)), age=rng.normal(size=24))
    samples = replace(eeg, data=X, axes={"eeg": eeg.axes})
    model = TensorMarginClassifier("cp", 1).fit(X, samples.target)
    for given, what in ((samples, "activation pattern"), (None, "weight")):
        section = field_section(ModelMaps(model, given), [0], samples.axes)
        assert section.heading == "Channels"
        assert [group["name"] for group in section.groups] == ["class 1 against class 0"]
        (part,) = section.groups[0]["parts"]
        assert f"The {what} of the view eeg, which has" in part["text"]
        assert f"differ most: {what}, class 1 against class 0" in part["pictures"][0].caption
    left_out = TensorMarginClassifier("cp", 1, view_scale={"eeg": 0.0}).fit(X, samples.target)
    assert field_section(ModelMaps(left_out, samples), [0], samples.axes) is None


@pytest.mark.usefixtures("blank_figures")
def test_axes_of_views_that_the_model_does_not_know_are_those_of_the_samples(tmp_path):
    eeg = samples_with((CHANNELS, TIME), (11, 12))
    X = Views(eeg=eeg.data, sex=np.where(np.arange(24) % 3, "F", "M"))
    samples = replace(eeg, data=X, axes={"eeg": eeg.axes})
    model = TensorMarginClassifier("cp", 1).fit(X, samples.target)
    page = model_page(model, save_model(tmp_path / "m.skops", model), samples)
    assert "of the view eeg" in section_of(page, "field.html").groups[0]["parts"][0]["text"]
    of_text = next(section for section in page.sections if section.heading == "View sex")
    assert sorted(set(re.findall("sex=[FM]", str(of_text.tables[0]["rows"])))) == ["sex=F", "sex=M"]


def test_figures_of_the_field_are_on_the_page(tmp_path):
    page = render(page_of(samples_with((WAVES,), (12,), classes=3), tmp_path))
    section = re.search(r'<section id="spectra".*?</section>', page, re.DOTALL)[0]
    assert section.count("<figure>") == 3
    assert section.count(" hidden") == 2  # one binary problem at a time


def test_without_axes_or_samples_there_are_the_usual_figures_only():
    samples = samples_with((CHANNELS, TIME), (11, 12))
    model = TensorMarginClassifier("cp", 1).fit(samples.data, samples.target)
    assert field_section(ModelMaps(model, None), [0], None) is None
    assert field_section(ModelMaps(model, samples_with(None, (11, 12))), [0], None) is None


def test_without_samples_figures_are_of_the_weight(monkeypatch):
    monkeypatch.setattr("tensormargin.report.field_figures.picture", sketched)
    samples = samples_with((CHANNELS, TIME), (11, 12))
    model = TensorMarginClassifier("cp", 1).fit(samples.data, samples.target)
    section = field_section(ModelMaps(model, None), [0], samples.axes)
    assert section.text == "Only patterns should be interpreted, which need the samples."
    assert "The weight on the axes" in section.groups[0]["parts"][0]["text"]


# volumes


AFFINE = np.array([[0, -3.0, 0, 12], [0, 0, 2.0, -8], [-4.0, 0, 0, 20], [0, 0, 0, 1]])
SHAPE = (6, 7, 5)


@pytest.fixture(scope="module")
def brain(tmp_path_factory):
    """Return a report on volumes whose classes differ most in the voxel (1, 2, 3), and their affine."""
    rng = np.random.default_rng(0)
    X, y = 0.05 * rng.standard_normal((40, *SHAPE)), np.repeat([0, 1], 20)
    X[y == 1, 1, 2, 3] += 3.0
    X[y == 1, 1, 2, 2] += 2.5
    folder = tmp_path_factory.mktemp("brain")
    nibabel.save(nibabel.Nifti1Image(rng.random((12, 14, 10)), np.diag([2.0, 2, 2, 1])), folder / "anat.nii.gz")
    samples = SampleSet(X, y, None, None, AFFINE, "x.nii", "4-D NIfTI", ())
    display = Display(read_anatomy(*anatomy((None, folder))))
    page = page_of(samples, folder, display=display)
    write_page(folder / "report.html", page)
    return page, folder


def anatomy(brain):
    return brain[1] / "anat.nii.gz", SHAPE, AFFINE


def test_volumes_have_a_place_and_clusters(brain):
    content = section_of(brain[0], "maps.html").maps
    assert content["overlay"]
    assert content["under"] == "anat.nii.gz"
    start = content["problems"][0]["maps"][0]["start"]
    assert Orientation.of(AFFINE, SHAPE).indices(start) == (1, 2, 3)
    assert content["problems"][0]["maps"][0]["peak"]["at"] == [1, 2, 3]
    (table,) = content["clusters"]
    assert table["rows"][0][1:4] == [f"{place + 0.0:.1f}" for place in millimetres(AFFINE, (1, 2, 3))]
    assert table["rows"][0][4:6] == ["1, 2, 3", "2"]
    assert "threshold is for display" in table["words"]


def test_what_is_no_volume_in_space_is_shown_as_it_was(brain):
    chain, volume = ModelChain.of(load_model(brain[1] / "model.skops").model), {"weight": np.ones((1, *SHAPE))}
    for affine in (None, np.zeros((4, 4)), {"a": AFFINE}):
        content = map_content(chain, volume, np.ones(SHAPE), affine=affine, display=Display(radiological=True))
        assert content["space"] is None
        assert content["clusters"] == []
        assert not content["overlay"]
    shown = Display(read_anatomy(*anatomy(brain)))
    matrix = map_content(chain, {"weight": np.ones((1, 3, 4))}, None, affine=AFFINE, display=shown)
    assert (matrix["space"], matrix["background"]) == (None, None)


def test_the_viewer_gets_names_and_coordinates(brain):
    chain = ModelChain.of(load_model(brain[1] / "model.skops").model)
    axes = (Axis("channel", "", ["Fz", "Cz"]), Axis("time", "ms", [0, 4, 8]))
    content = map_content(chain, {"weight": np.ones((1, 2, 3))}, None, axes)
    assert content["modes"][1] == {"name": "time", "values": ["0 ms", "4 ms", "8 ms"]}
    assert not content["counted"]
    assert map_content(chain, {"weight": np.ones((1, 2, 3))}, None)["counted"]


def test_backgrounds_that_do_not_fit_are_refused(tmp_path):
    nibabel.save(nibabel.Nifti1Image(np.zeros((3, 3, 3, 2)), np.eye(4)), tmp_path / "two.nii")
    with pytest.raises(BadFileError, match=r"two.nii: cannot be drawn below the map: .*one volume"):
        read_anatomy(tmp_path / "two.nii", SHAPE, AFFINE)
    for shape, affine in ((SHAPE, None), ((3, 4), AFFINE), ({"a": SHAPE}, {"a": AFFINE})):
        with pytest.raises(BadFileError, match=r"a background is for samples that are volumes.*Leave --background out"):
            read_anatomy(tmp_path / "two.nii", shape, affine)
    (tmp_path / "bad.nii").write_bytes(b"no volume")
    with pytest.raises(BadFileError, match=r"bad.nii"):
        read_anatomy(tmp_path / "bad.nii", SHAPE, AFFINE)


def test_the_command_draws_over_a_background(brain, tmp_path):
    model = brain[1] / "model.skops"
    done = run("report", model, "-o", tmp_path / "x.html", "--background", brain[1] / "anat.nii.gz", "--radiological")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "x.html").read_text()
    assert 'value="radiological" selected' in text
    assert '"space": {' in text
    wrong = run("report", model, "-o", tmp_path / "y.html", "--background", tmp_path / "x.html")
    assert wrong.returncode == 2
    assert "x.html" in wrong.stderr
    assert not (tmp_path / "y.html").exists()


# in the browser


@pytest.fixture(params=[1280, 390])
def opened(request, browser, brain):
    """Return the browser with a page of volumes, on a large screen and on a telephone."""
    conftest.opened(browser, (brain[1] / "report.html").resolve(), request.param)
    assert browser.get_log("browser") == []
    return browser


def letters(driver):
    return ["".join(b.text for b in one.find_elements("css selector", "b")) for one in frames(driver)]


def frames(driver):
    return driver.find_elements("css selector", ".frame")


def value(driver):
    return driver.find_element("css selector", "[data-value]").text


def choose(driver, selector, chosen):
    driver.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'));"
        "s.dispatchEvent(new Event('change'))",
        selector,
        chosen,
    )


def place_of(text):
    return [float(part) for part in re.search(r"\((.*?)\) mm", text)[1].split(", ")]


def test_the_viewer_has_letters_millimetres_and_keys(opened):
    from selenium.webdriver.common.keys import Keys

    assert letters(opened) == ["PA", "LR", "LR"]
    start = value(opened)
    assert "voxel (1, 2, 3)" in start
    np.testing.assert_allclose(place_of(start), millimetres(AFFINE, (1, 2, 3)), atol=0.051)
    sizes = Orientation.of(AFFINE, SHAPE).voxel_size
    axial = frames(opened)[2]
    for key, axis, sign in (
        (Keys.ARROW_RIGHT, 0, 1),
        (Keys.ARROW_UP, 1, 1),
        (Keys.PAGE_UP, 2, 1),
        (Keys.ARROW_LEFT, 0, -1),
    ):
        before = place_of(value(opened))
        axial.send_keys(key)
        moved = np.subtract(place_of(value(opened)), before)
        np.testing.assert_allclose(moved, sign * sizes[axis] * np.eye(3)[axis], atol=0.11)
    choose(opened, "[data-side]", "radiological")
    assert letters(opened) == ["PA", "RL", "RL"]
    before = place_of(value(opened))
    axial.send_keys(Keys.ARROW_LEFT)  # to the right of the person
    assert place_of(value(opened))[0] > before[0]
    choose(opened, "[data-side]", "neurological")


def test_small_values_can_be_hidden(opened):
    def bright():
        return opened.execute_script(
            "const c = document.querySelectorAll('.frame canvas')[2];"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let k = 0; k < d.length; k += 4) n += d[k] !== d[k + 1] || d[k + 1] !== d[k + 2]; return n"
        )

    choose(opened, "[data-threshold]", "0")
    every = bright()
    choose(opened, "[data-threshold]", "60")
    assert 0 < bright() < every
    choose(opened, "[data-opacity]", "0")
    assert bright() == 0
    choose(opened, "[data-opacity]", "100")
    assert "hidden below" in opened.find_element("css selector", "[data-range]").text


def test_the_cuts_fit_the_screen(opened):
    width = opened.execute_script("return window.innerWidth")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    boxes = opened.execute_script(
        "return [...document.querySelectorAll('.frame')].map((one) => one.getBoundingClientRect())"
        ".map((box) => [box.left, box.right, box.top])"
    )
    assert all(0 <= left < right <= width for left, right, _ in boxes)
    assert len({round(top) for _, _, top in boxes}) == (1 if width == 1280 else 3)  # below each other on a telephone
    controls = opened.execute_script(
        "return [...document.querySelectorAll('[data-viewer] input, [data-viewer] select')]"
        ".map((one) => one.getBoundingClientRect().right)"
    )
    assert max(controls) <= width
