"""nilearn: its images are samples, and masks."""

from __future__ import annotations

import numpy as np
import pytest

from tensormargin import Crop, Mask, TensorMarginClassifier, load_model, save_model
from tensormargin.intake import as_samples

pytest.importorskip("nilearn", reason="needs nilearn: pip install nilearn")

from nilearn.image import concat_imgs, index_img, iter_img, new_img_like
from nilearn.masking import compute_epi_mask
from sklearn.pipeline import make_pipeline

SHAPE = (8, 7, 6)


@pytest.fixture(scope="module")
def scans():
    """An image of 24 volumes, two classes, with a bright brain."""
    import nibabel

    rng = np.random.default_rng(0)
    volumes = np.zeros((*SHAPE, 24), np.float32)
    y = np.arange(24) % 2
    inside = (slice(2, 6), slice(2, 5), slice(1, 5))
    volumes[inside] = 100 + rng.standard_normal((4, 3, 4, 24)) + 2 * y
    return nibabel.Nifti1Image(volumes, np.diag([3.0, 3.0, 3.0, 1.0])), y


def test_images_of_nilearn_go_into_fit_and_predict(scans):
    image, y = scans
    model = TensorMarginClassifier("cp", 1).fit(image, y)
    assert model.sample_shape_ == SHAPE
    expected = model.predict(np.moveaxis(np.asarray(image.dataobj), -1, 0))
    np.testing.assert_array_equal(model.predict(image), expected)
    np.testing.assert_array_equal(model.predict(list(iter_img(image))), expected)
    np.testing.assert_array_equal(model.predict(index_img(image, slice(0, 5))), expected[:5])
    np.testing.assert_array_equal(model.predict([image, image]), np.tile(expected, 2))
    np.testing.assert_array_equal(as_samples(concat_imgs(list(iter_img(image)))), as_samples(image))


@pytest.mark.parametrize("step", [Mask, Crop])
def test_a_mask_of_nilearn(step, scans, tmp_path):
    image, y = scans
    brain = compute_epi_mask(image, opening=False)
    model = make_pipeline(step(brain), TensorMarginClassifier("cp", 1)).fit(image, y)
    plain = make_pipeline(step(np.asarray(brain.dataobj) > 0), TensorMarginClassifier("cp", 1)).fit(image, y)
    np.testing.assert_array_equal(model.predict(image), plain.predict(image))
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").model.predict(image), plain.predict(image))
    by_hand = new_img_like(image, np.asarray(brain.dataobj) > 0)
    np.testing.assert_array_equal(step(by_hand).fit_transform(image), model[0].transform(image))
