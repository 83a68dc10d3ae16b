"""nilearn: decoding of brain images.

Images are samples: one image with four axes, or a list of images. `Mask` and `Crop` take a mask image and keep volumes
as tensors, so the weight can have a low rank. After nilearn's maskers, and in `Decoder` and `SearchLight`, samples are
vectors of voxels and the weight is flat; weights and patterns are mapped back through maskers to volumes. A masker that
standardizes voxels over the samples of a call has no affine form: use `standardize=None` and a scaler as the next step.

In the snippets, `images` is an image with four axes and `mask` a mask image.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("nilearn", reason="needs nilearn: pip install nilearn")

from contextlib import chdir

import nibabel
from click.testing import CliRunner
from nilearn.decoding import Decoder
from nilearn.image import concat_imgs, index_img, iter_img, new_img_like
from nilearn.maskers import NiftiLabelsMasker, NiftiMapsMasker, NiftiMasker, NiftiSpheresMasker
from nilearn.masking import compute_epi_mask
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensormargin import (
    Crop,
    Mask,
    NotAffineError,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    activation_pattern,
    affine_form,
    load_model,
    load_samples,
    margin_report,
    save_map,
    save_model,
    weight_maps,
)
from tensormargin.cli import main
from tensormargin.data import as_samples
from tensormargin.inspection import ModelChain

pytestmark = pytest.mark.filterwarnings("ignore")  # nilearn's own, of what will change

SHAPE = (6, 7, 5)
AFFINE = np.diag([3.0, 3, 3, 1])


def image(data):
    return nibabel.Nifti1Image(data, AFFINE)


def box():
    inside = np.zeros(SHAPE, np.int8)
    inside[1:5, 1:6, 1:4] = 1
    return image(inside)


def regions():
    labels = np.zeros(SHAPE, np.int16)
    labels[1:3], labels[3:5, :3], labels[3:5, 3:] = 1, 2, 3
    return image(labels)


def soft_maps():
    return image(np.random.default_rng(1).random((*SHAPE, 4)))


@pytest.fixture(scope="module")
def scans():
    """Return an image of 24 volumes, two classes, with a bright brain."""
    rng = np.random.default_rng(0)
    volumes = np.zeros((8, 7, 6, 24), np.float32)
    y = np.arange(24) % 2
    volumes[2:6, 2:5, 1:5] = 100 + rng.standard_normal((4, 3, 4, 24)) + 2 * y
    return image(volumes), y


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    data = rng.normal(10, 1, (*SHAPE, 40))
    data[2:4, 2:4, 2, :20] += 1
    return image(data), np.repeat(["face", "house"], 20)


# ---- images are samples ----


def test_images_as_in_its_tutorials(study, tmp_path, monkeypatch):
    images, y = study
    mask = box()
    monkeypatch.chdir(tmp_path)
    # page: Volumes stay tensors, and the pattern is written as an image:
    from sklearn.pipeline import make_pipeline

    from tensormargin import Mask, TensorMarginClassifier, TensorScaler, activation_pattern, save_map

    model = make_pipeline(Mask(mask), TensorScaler(), TensorMarginClassifier("cp", rank=2)).fit(images, y)
    model.predict(images)
    save_map("pattern.nii.gz", activation_pattern(model, images, y), affine=images.affine)
    # page ends
    assert model.score(images, y) > 0.8
    assert nibabel.load("pattern.nii.gz").shape == SHAPE


def test_images_of_nilearn_go_into_fit_and_predict(scans):
    images, y = scans
    model = TensorMarginClassifier("cp", 1).fit(images, y)
    assert model.sample_shape_ == (8, 7, 6)
    expected = model.predict(np.moveaxis(np.asarray(images.dataobj), -1, 0))
    np.testing.assert_array_equal(model.predict(images), expected)
    np.testing.assert_array_equal(model.predict(list(iter_img(images))), expected)
    np.testing.assert_array_equal(model.predict(index_img(images, slice(0, 5))), expected[:5])
    np.testing.assert_array_equal(model.predict([images, images]), np.tile(expected, 2))
    np.testing.assert_array_equal(as_samples(concat_imgs(list(iter_img(images)))), as_samples(images))


@pytest.mark.parametrize("step", [Mask, Crop])
def test_a_mask_of_nilearn(step, scans, tmp_path):
    images, y = scans
    brain = compute_epi_mask(images, opening=False)
    model = make_pipeline(step(brain), TensorMarginClassifier("cp", 1)).fit(images, y)
    plain = make_pipeline(step(np.asarray(brain.dataobj) > 0), TensorMarginClassifier("cp", 1)).fit(images, y)
    np.testing.assert_array_equal(model.predict(images), plain.predict(images))
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(images), plain.predict(images))
    by_hand = new_img_like(images, np.asarray(brain.dataobj) > 0)
    np.testing.assert_array_equal(step(by_hand).fit_transform(images), model[0].transform(images))


@pytest.mark.parametrize("step", [Mask, Crop])
def test_a_masker_is_a_mask(step, study, tmp_path):
    images, y = study
    masker = NiftiMasker(box(), standardize=None).fit(images)
    computed = NiftiMasker(mask_strategy="background", standardize=None).fit(images)
    for one in (masker, NiftiMasker(box()), computed):
        inside = np.asarray(getattr(one, "mask_img_", box()).dataobj) > 0
        expected = step(inside).fit_transform(images)
        np.testing.assert_array_equal(step(one).fit_transform(images), expected)
        np.testing.assert_array_equal(clone(step(one)).fit_transform(images), expected)
    search = TensorMarginClassifierCV(
        ("cp",), ranks=(1,), lams=(1,), mus=(0,), cv=2, random_state=0, preparation=step(computed)
    )
    save_model(tmp_path / "model.skops", search.fit(images, y))
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(images), search.predict(images))
    with pytest.raises(ValueError, match="masker must have a mask image"):
        step(NiftiMasker()).fit(images)


def test_a_mask_image_on_the_command_line(study, tmp_path):
    images, y = study
    nibabel.save(images, tmp_path / "runs.nii.gz")
    nibabel.save(NiftiMasker(box(), standardize=None).fit(images).mask_img_, tmp_path / "brain.nii.gz")
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(y))
    command = ["fit", "runs.nii.gz", "--labels-from", "labels.csv", "--mask", "brain.nii.gz", "-o", "model.skops"]
    options = ["--outer-folds", "0", "--folds", "2", "--no-report", "--decomposition", "cp", "--rank", "1"]
    with chdir(tmp_path):
        result = CliRunner().invoke(main, [*command, *options])
        assert result.exit_code == 0, result.output
        found = load_model("model.skops").model
    weight = weight_maps(found)[0]
    assert not weight[np.asarray(box().dataobj) == 0].any()
    assert weight[np.asarray(box().dataobj) > 0].all()


# ---- maskers before our classifiers ----

MASKERS = {
    "voxels": lambda: NiftiMasker(box(), standardize=None),
    "smoothed": lambda: NiftiMasker(box(), standardize=None, smoothing_fwhm=5),
    "regions": lambda: NiftiLabelsMasker(regions(), standardize=None),
    "maps": lambda: NiftiMapsMasker(soft_maps(), standardize=None),
    "spheres": lambda: NiftiSpheresMasker([(3, 3, 3), (9, 9, 6)], radius=4, standardize=None, mask_img=box()),
}


def test_maskers_as_in_its_tutorials(study):
    images, y = study
    mask = box()
    # page: A masker, and the weight as a volume:
    from nilearn.maskers import NiftiMasker
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tensormargin import TensorMarginClassifier, weight_maps

    masker = NiftiMasker(mask, standardize=None, smoothing_fwhm=4)
    model = make_pipeline(masker, StandardScaler(), TensorMarginClassifier("full")).fit(images, y)
    weight_maps(model)  # one volume per binary problem
    # page ends
    assert weight_maps(model).shape == (1, *SHAPE)


@pytest.mark.parametrize("masker", MASKERS.values(), ids=MASKERS)
def test_weights_go_back_to_images(masker, study):
    images, y = study
    model = make_pipeline(masker(), StandardScaler(), TensorMarginClassifier("full")).fit(images, y)
    form = affine_form(model)
    arrays = np.moveaxis(images.get_fdata(), -1, 0)
    scores = model.decision_function(images)
    np.testing.assert_allclose(form.scores(arrays)[:, 0], scores, rtol=1e-5, atol=1e-5)
    assert (
        ModelChain.of(model).sample_shape
        == weight_maps(model).shape[1:]
        == activation_pattern(model, images, y).shape[1:]
        == SHAPE
    )
    np.testing.assert_allclose(margin_report(model, images, y).margins, np.where(y == "house", 1, -1) * scores)


def test_what_mixes_samples_is_not_affine_but_has_a_map(study):
    images, y = study
    masker = NiftiMasker(box(), standardize="zscore_sample")
    model = make_pipeline(masker, TensorMarginClassifier("full")).fit(images, y)
    with pytest.raises(NotAffineError, match=r"NiftiMasker.*standardize=None"):
        affine_form(model)
    expected = np.moveaxis(masker.inverse_transform(model[-1].coef_).get_fdata(), -1, 0)
    np.testing.assert_allclose(weight_maps(model), expected)


def test_models_with_maskers_are_not_saved(study, tmp_path):
    images, y = study
    model = make_pipeline(NiftiMasker(box(), standardize=None), TensorMarginClassifier("full")).fit(images, y)
    with pytest.raises(TypeError, match=r"NiftiMasker\. Put tensormargin\.Mask\(masker\) in place of the masker"):
        save_model(tmp_path / "model.skops", model)
    save_map(tmp_path / "map.nii.gz", weight_maps(model), affine=AFFINE)
    assert nibabel.load(tmp_path / "map.nii.gz").shape == SHAPE


# ---- our classifiers in nilearn's estimators ----


def test_decoders_and_searchlights_as_in_its_tutorials(study):
    images, y = study
    mask = box()
    # page: `Decoder` and `SearchLight` around the classifier:
    from nilearn.decoding import Decoder, SearchLight

    from tensormargin import TensorMarginClassifier

    clf = TensorMarginClassifier("full")
    decoder = Decoder(clf, mask=mask, cv=3, standardize=None, scoring="accuracy", screening_percentile=100)
    decoder.fit(images, y)
    decoder.coef_img_["face"]  # an image
    searchlight = SearchLight(mask, radius=4, estimator=clf, cv=3, scoring="accuracy").fit(images, y)
    searchlight.scores_  # an accuracy per voxel
    # page ends
    assert decoder.coef_img_["face"].shape[:3] == SHAPE
    assert searchlight.scores_.max() > 0.7


def test_decoders_read_coefficients_of_the_search(study):
    images, y = study
    search = TensorMarginClassifierCV(("full",), lams=(1,), mus=(0,), cv=2, random_state=0)
    decoder = Decoder(
        estimator=search, mask=box(), cv=2, standardize=None, screening_percentile=100, scoring="accuracy"
    )
    decoder.fit(images, y)
    assert decoder.coef_img_["house"].shape[:3] == SHAPE
    assert np.mean(decoder.predict(images) == y) > 0.7


# clusters and views


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_nilearn(seed):
    from nilearn.image import smooth_img
    from nilearn.reporting import get_clusters_table

    from tensormargin import cluster_table

    affine = np.diag([-3.0, 3, 2, 1])
    affine[:3, 3] = [30, -40, 10]
    noise = np.random.default_rng(seed).normal(size=(12, 14, 11))
    smooth = smooth_img(nibabel.Nifti1Image(noise, affine), 8)
    values = smooth.get_fdata()
    threshold = 0.4 * np.abs(values).max()
    theirs = get_clusters_table(smooth, threshold, two_sided=True, cluster_threshold=0)
    main = theirs[theirs["Cluster Size (mm3)"] != ""]
    expected = sorted(
        (
            round(float(row["Peak Stat"]), 6),
            *(round(float(row[axis]), 3) for axis in "XYZ"),
            int(row["Cluster Size (mm3)"]),
        )
        for _, row in main.iterrows()
    )
    found = sorted(
        (round(one.peak, 6), *(round(place, 3) for place in one.mm), int(one.volume))
        for one in cluster_table(values, affine, threshold)
    )
    assert found == expected


def test_notebooks_get_nilearns_view():
    from nilearn.plotting.html_stat_map import StatMapView

    X = np.random.default_rng(0).normal(size=(12, *SHAPE))
    images, y = image(np.moveaxis(X, 0, -1)), np.arange(12) % 2
    # page: Maps in a notebook are shown by nilearn, and their clusters as a table:
    from tensormargin import TensorMarginClassifier, cluster_table, weight_maps
    from tensormargin.plots import view_map

    model = TensorMarginClassifier("cp", rank=1).fit(images, y)
    view = view_map(model, images.affine)
    cluster_table(weight_maps(model)[0], images.affine)
    # page ends
    assert isinstance(view, StatMapView)
    assert isinstance(view_map(X[0], AFFINE, background=image(X[1]), threshold=1.0), StatMapView)


@pytest.mark.parametrize("detrend", [False, True])
def test_confounds_of_runs_are_removed_as_it_does(detrend, tmp_path):
    from nilearn.signal import clean

    rng = np.random.default_rng(0)
    volumes, confounds = rng.normal(100, 5, size=(40, *SHAPE)), rng.normal(size=(40, 3))
    saved = image(np.moveaxis(volumes, 0, -1).astype(np.float32))
    saved.header.set_zooms((3, 3, 3, 2))
    saved.header.set_xyzt_units("mm", "sec")
    nibabel.save(saved, tmp_path / "sub-1_task-a_space-MNI_desc-preproc_bold.nii.gz")
    table = tmp_path / "sub-1_task-a_desc-confounds_timeseries.tsv"
    table.write_text("\n".join(["csf\trot_x\trot_y", *("\t".join(map(str, row)) for row in confounds)]))
    events = [f"{2 * k}\t0\t{'ab'[k % 2]}" for k in range(40)]
    (tmp_path / "sub-1_task-a_events.tsv").write_text("\n".join(["onset\tduration\ttrial_type", *events]))
    found = load_samples(tmp_path, groups=False, run_confounds="csf,rot_*", detrend=1 if detrend else None)
    flat = np.moveaxis(saved.get_fdata(), -1, 0).reshape(40, -1)
    expected = clean(flat, detrend=detrend, standardize=False, confounds=confounds)
    np.testing.assert_allclose(found.data.reshape(40, -1), expected, atol=2e-4)  # volumes are float32, of about 100
