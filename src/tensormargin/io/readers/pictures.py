"""Files of one sample each, many at a time: images (PNG, JPEG, TIFF); and plain scenes. Runs in the reader process."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...data import MOST_PAGES, BadFileError, FileRules, parsing
from ...runtime import Array
from .entries import IMAGE_WORDS, NIFTI, NIFTI_WORDS, OPAQUE, TRANSPARENT, UPRIGHT

with suppress(ImportError):  # volumes need no Pillow, and `require_package` has asked for it where images are read
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # `FileRules.admit` decides, from the size of the file and the memory

_BATCH_BYTES = 2**25
_PNG = b"\x89PNG\r\n\x1a\n"
_TIFFS = {b"II*\0": ("<", 4), b"MM\0*": (">", 4), b"II+\0": ("<", 8), b"MM\0+": (">", 8)}
"""Byte order and bytes per offset, by the first bytes."""
_ORIENTATION = 0x0112  # the EXIF tag by which cameras note how they were held
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What makes an image upright, by the value of that tag."""


def read_some(
    folder: Path, names: Sequence[str], rules: FileRules
) -> tuple[Array | list[Array], list[Array | None], list[list[str]]]:
    """Return a batch of the first of these files, in one array if possible, affines, and what became of images."""
    samples: list[Array] = []
    affines: list[Array | None] = []
    remarks: list[list[str]] = []
    n_bytes = 0
    for name in names:
        sample, affine, remark = _read_one(folder / name, rules)
        samples.append(sample)
        affines.append(affine)
        remarks.append(remark)
        n_bytes += sample.nbytes
        if n_bytes >= _BATCH_BYTES:
            break
    alike = len({(sample.shape, sample.dtype) for sample in samples}) == 1 and len(samples) > 1
    return np.stack(samples) if alike else samples, affines, remarks


def _read_one(path: Path, rules: FileRules) -> tuple[Array, Array | None, list[str]]:
    rules.check_file(path)
    if path.name.lower().endswith(NIFTI):
        from .volumes import read_volume

        with parsing(path, *NIFTI_WORDS):
            return (*read_volume(path, (), rules), [])
    with parsing(path, *IMAGE_WORDS):
        pixels, remark = read_image(path, rules)
        return pixels, None, remark


def read_image(path: Path, rules: FileRules) -> tuple[Array, list[str]]:
    """Return an image as HxW or HxWx3, the pages of a TIFF along a new first axis, and what became of it."""
    remarks = set[str]()
    found = _read(path, rules, lambda image: _pixels(_without_alpha(_upright(image, remarks), remarks)))
    return found, sorted(remarks - ({OPAQUE} if TRANSPARENT in remarks else set()))


def read_pages(path: Path, rules: FileRules) -> Array:
    """Return the bands of a scene along the first axis: the pages of a TIFF, or the colours of one page."""
    found = _read(path, rules, _bands)
    if found.ndim == 4 and found.shape[-1] > 1 and found.shape[0] > 1:
        raise ValueError("it has pages with several bands each")
    return found.reshape(-1, *found.shape[-3:-1]) if found.shape[-1] == 1 else np.moveaxis(found, -1, -3).squeeze()


def _read(path: Path, rules: FileRules, pixels: Callable[[Any], Array]) -> Array:
    rules.admit(path, path.stat().st_size, "the image")
    content = path.read_bytes()
    if content.startswith(_PNG):
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            image.verify()  # the checksums, also of pixels, which Pillow does not look at otherwise
    pages = _count_pages(path, content) if content[:4] in _TIFFS else 1
    try:
        opened = Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "TIFF"))
    except UnidentifiedImageError:
        raise ValueError("its contents are none of PNG, JPEG and TIFF") from None
    with opened as image:
        size = image.size
        rules.admit(path, pages * size[0] * size[1] * 4, "the image")  # Pillow has up to 4 bytes per pixel
        if pages == 1:
            return pixels(image)
        stack = []
        for page in range(pages):
            image.seek(page)
            if image.size != size:
                raise ValueError(f"page {page + 1} has {image.size} pixels, page 1 has {size}")
            stack.append(pixels(image))
        return np.stack(stack)


def _count_pages(path: Path, content: bytes) -> int:
    """Return the number of pages of a TIFF file, each of which says where the next one is."""
    order, width = _TIFFS[content[:4]]
    offset, count, entry = (order + "I", order + "H", 12) if width == 4 else (order + "Q", order + "Q", 20)
    place = struct.unpack_from(offset, content, 4 if width == 4 else 8)[0]
    pages, seen = 0, set()
    while place:
        if place in seen:
            raise ValueError("its pages lead back to each other")
        seen.add(place)
        pages += 1
        if pages > MOST_PAGES:
            raise BadFileError(
                f"{path}: must have at most {MOST_PAGES} pages, since it is one sample; it has more. Divide it, or "
                "convert it to .npy"
            )
        number = struct.unpack_from(count, content, place)[0]
        place = struct.unpack_from(offset, content, place + struct.calcsize(count) + entry * number)[0]
    return pages


def _bands(image: Any) -> Array:
    """Return the values of an image as HxWx1 or HxWx3; of colours in a palette, their numbers."""
    if image.mode in ("RGB", "P"):
        return np.asarray(image).reshape(image.size[1], image.size[0], -1)
    if image.mode not in ("1", "L", "I", "F") and not image.mode.startswith("I;16"):
        raise ValueError(f"its pages have bands of the kind {image.mode}")
    return _pixels(image)[..., None]


def _upright(image: Any, remarks: set[str]) -> Any:
    """Return an image as its camera was held, as viewers show it."""
    stated = _orientation(image)
    image.load()  # which turns a TIFF already
    left = _orientation(image)
    if stated > 1:
        remarks.add(UPRIGHT)
    return image.transpose(Image.Transpose[_TURNS[left]]) if left > 1 else image


def _orientation(image: Any) -> int:
    """Return how the camera was held, 1 for upright, which also stands for notes that cannot be read."""
    try:
        found = image.getexif().get(_ORIENTATION)
    except Exception:  # noqa: BLE001 - pixels may be whole where such notes are damaged, which can raise anything
        return 1
    return found if isinstance(found, int) and found in _TURNS else 1


def _without_alpha(image: Any, remarks: set[str]) -> Any:
    """Return an image without transparency, on white where it is not the same everywhere; say what became of it."""
    has_alpha = image.mode in ("LA", "La", "PA", "RGBA", "RGBa")
    if not has_alpha and not (image.mode == "P" and "transparency" in image.info):
        return image
    kind = "L" if image.mode in ("LA", "La") else "RGB"
    whole = image.convert(f"{kind}A").convert("RGBA")
    least, most = whole.getchannel("A").getextrema()
    remarks.add(OPAQUE if least == most else TRANSPARENT)
    if least == most:
        return whole.convert(kind)
    return Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole).convert(kind)


def _pixels(image: Any) -> Array:
    """Return greyscale images as HxW in the file's precision, others as HxWx3."""
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode not in ("L", "I", "F") and not image.mode.startswith("I;16"):
        image = image.convert("RGB")
    pixels = np.asarray(image)
    if image.mode == "I" and image.format == "PNG":  # 16-bit images in older versions of Pillow
        return pixels.astype(np.uint16)
    return pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
