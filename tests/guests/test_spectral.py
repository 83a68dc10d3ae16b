"""Spectral Python (SPy): hyperspectral images.

ENVI scenes that it writes are read by `tensormargin patches`, with their wavelengths and names of classes; the map of
predictions (`tensormargin predict --scene map.hdr`) is an ENVI classification that it opens.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("spectral", reason="needs spectral: pip install spectral")

from spectral.io import envi

from tensormargin.data import Axis
from tensormargin.io import load_scene

pytestmark = pytest.mark.filterwarnings("ignore")  # its own, of what will change

CUBE = np.random.default_rng(0).integers(0, 250, (6, 9, 5))
TRUTH = np.arange(54).reshape(6, 9) % 3


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize(
    "kind", ["uint8", "int16", "int32", "float32", "float64", "uint16", "uint32", "int64", "uint64"]
)
def test_scenes_that_it_writes(kind, interleave, tmp_path):
    about = {"wavelength": [400.5, 410, 420, 430, 440], "wavelength units": "Nanometers", "description": "a {b} = c"}
    for order in (0, 1):
        path = tmp_path / f"scene{order}.hdr"
        envi.save_image(str(path), CUBE, dtype=kind, interleave=interleave, byteorder=order, metadata=about, ext=".img")
        scene = load_scene(path)
        np.testing.assert_array_equal(scene.data, CUBE)
        np.testing.assert_array_equal(scene.data, envi.open(str(path)).open_memmap(interleave="bip"))
        assert scene.axes[2] == Axis("wavelength", "nm", [400.5, 410, 420, 430, 440])


def test_scenes_go_both_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    envi.save_image("scene.hdr", CUBE.astype(np.float32), ext=".img")
    envi.save_classification("truth.hdr", TRUTH, class_names=["Unclassified", "corn", "oats"], ext=".img")
    # page: A scene with its ground truth as samples, and a map (here the ground truth) as an ENVI classification:
    from spectral.io import envi as envi_files

    from tensormargin import Patches
    from tensormargin.io import load_scene
    from tensormargin.plots import save_scene

    scene = load_scene("scene.hdr", "truth.hdr")
    samples = Patches(3).cut(scene.data, scene.truth, background=scene.background)
    painted = Patches(3).paint(samples.target, samples, fill="")
    save_scene("map.hdr", painted, background="", names=scene.class_names, georeference=scene.georeference)
    opened = envi_files.open("map.hdr")
    # page ends
    np.testing.assert_array_equal(opened.read_band(0), TRUTH)
    assert opened.metadata["class names"] == ["Unclassified", "corn", "oats"]
    assert opened.metadata["file type"] == "ENVI Classification"
    assert len(opened.metadata["class lookup"]) == 9
    np.testing.assert_array_equal(load_scene("scene.hdr", "map.hdr").truth, scene.truth)


def test_classified_scenes_that_it_writes(tmp_path):
    envi.save_image(str(tmp_path / "scene.hdr"), CUBE.astype(np.float32))
    names = ["Unclassified", "corn", "oats"]
    envi.save_classification(str(tmp_path / "truth.hdr"), TRUTH, class_names=names, ext=".img")
    scene = load_scene(tmp_path / "scene.hdr", tmp_path / "truth.hdr")
    np.testing.assert_array_equal(scene.truth, np.array(["", "corn", "oats"])[TRUTH])
