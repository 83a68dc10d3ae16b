"""Weights behind nilearn's maskers, and nilearn's decoders around our classifiers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("nilearn", reason="needs nilearn: pip install nilearn")

import nibabel
from nilearn.decoding import Decoder
from nilearn.maskers import NiftiLabelsMasker, NiftiMapsMasker, NiftiMasker, NiftiSpheresMasker

from tensormargin import (
    NotAffineError,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    activation_pattern,
    affine_form,
    load_model,
    margin_report,
    save_map,
    save_model,
    weight_maps,
)
from tensormargin.model_steps import sample_shape

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


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():  # nilearn's own, of what will change
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    data = rng.normal(10, 1, (*SHAPE, 40))
    data[2:4, 2:4, 2, :20] += 1
    return image(data), np.repeat(["face", "house"], 20)


MASKERS = {
    "voxels": lambda: NiftiMasker(box(), standardize=None),
    "smoothed": lambda: NiftiMasker(box(), standardize=None, smoothing_fwhm=5),
    "regions": lambda: NiftiLabelsMasker(regions(), standardize=None),
    "maps": lambda: NiftiMapsMasker(soft_maps(), standardize=None),
    "spheres": lambda: NiftiSpheresMasker([(3, 3, 3), (9, 9, 6)], radius=4, standardize=None, mask_img=box()),
}


@pytest.mark.parametrize("masker", MASKERS.values(), ids=MASKERS)
def test_weights_go_back_to_images(masker, study):
    images, y = study
    model = make_pipeline(masker(), StandardScaler(), TensorMarginClassifier("full")).fit(images, y)
    form = affine_form(model)
    arrays = np.moveaxis(images.get_fdata(), -1, 0)
    scores = model.decision_function(images)
    np.testing.assert_allclose(form.scores(arrays)[:, 0], scores, rtol=1e-5, atol=1e-5)
    assert (
        sample_shape(model) == weight_maps(model).shape[1:] == activation_pattern(model, images, y).shape[1:] == SHAPE
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


def test_models_with_maskers_are_saved(study, tmp_path):
    images, y = study
    model = make_pipeline(NiftiMasker(box(), standardize=None), TensorMarginClassifier("full")).fit(images, y)
    save_model(tmp_path / "model.skops", model)
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.model.predict(images), model.predict(images))
    assert loaded.facts["sample_shape"] == list(SHAPE)
    save_map(tmp_path / "map.nii.gz", weight_maps(loaded.model), affine=AFFINE)
    assert nibabel.load(tmp_path / "map.nii.gz").shape == SHAPE


def test_decoders_read_coefficients_of_the_search(study):
    images, y = study
    search = TensorMarginClassifierCV(("full",), lams=(1,), mus=(0,), cv=2, random_state=0)
    decoder = Decoder(
        estimator=search, mask=box(), cv=2, standardize=None, screening_percentile=100, scoring="accuracy"
    )
    decoder.fit(images, y)
    assert decoder.coef_img_["house"].shape[:3] == SHAPE
    assert np.mean(decoder.predict(images) == y) > 0.7
