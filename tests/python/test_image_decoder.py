"""Damaged and hostile pictures: an error each, whatever the format."""

from __future__ import annotations

import functools
import io
import struct
import zlib

import numpy as np
import pytest
import small_models as small
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from PIL import Image

import sardonyx

FORMATS = {
    "JPEG": {},
    "progressive JPEG": {"progressive": True},
    "PNG": {},
    "BMP": {},
    "PPM": {},
    "TIFF": {},
    "compressed TIFF": {"compression": "tiff_lzw"},
    "WEBP": {},
    "lossless WEBP": {"lossless": True},
    "JPEG2000": {},
    "tiled JPEG2000": {"tile_size": (16, 16)},
}


@functools.cache
def encoded(name: str) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, name.split()[-1], **FORMATS[name])
    return file.getvalue()


@functools.cache
def decoder() -> sardonyx.Session:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], name="camera")
    inputs = [small.value("x", dtype=TensorProto.UINT8)]
    outputs = [small.value("y", None, TensorProto.UINT8)]
    return sardonyx.load(small.model([node], inputs, outputs))


def decode(data: bytes) -> np.ndarray:
    return decoder().run({"x": np.frombuffer(data, np.uint8)})["y"]


@pytest.mark.parametrize("name", FORMATS)
def test_truncated(name: str):
    data = encoded(name)
    whole = decode(data)
    for size in {*range(64), *range(64, len(data) - 16, 37)}:
        with pytest.raises(sardonyx.Error, match="camera"):
            decode(data[:size])
    assert np.array_equal(decode(data + b"trailing"), whole)


def test_palette_behind_the_end():
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(encoded("PNG"))).convert("P")
    picture.save(file, "TIFF", compression="tiff_lzw")
    data = file.getvalue()
    assert np.array_equal(decode(data), np.array(picture.convert("RGB")))
    with pytest.raises(sardonyx.InvalidArgumentError, match="IO error"):
        decode(data[:-1])


@pytest.mark.parametrize("name", FORMATS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_random_bytes_crash_nothing(name: str, seed: int):
    rng = np.random.default_rng(seed)
    data = bytearray(encoded(name))
    for at in rng.integers(0, rng.choice([40, 200, len(data)]), rng.integers(1, 10)):
        data[at % len(data)] = rng.integers(256)
    try:
        assert decode(bytes(data)).dtype == np.uint8
    except sardonyx.Error as error:
        assert "camera" in str(error)


@pytest.mark.parametrize("name", FORMATS)
def test_noise_behind_a_header(name: str):
    noise = np.random.default_rng(2).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    for kept in (12, 16, 24):
        if name == "PPM" and kept > 12:  # what follows its header of 13 bytes is as good as any
            continue
        with pytest.raises(sardonyx.Error):
            decode(encoded(name)[:kept] + noise)


@pytest.mark.parametrize("data", [b"", b"\0", b"GIF89a" + bytes(100), b"RIFF\0\0\0\0WAVEfmt "])
def test_other_formats(data: bytes):
    with pytest.raises(sardonyx.InvalidArgumentError, match="begin like none of JPEG"):
        decode(data)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def bmp(width: int, height: int, bits: int = 24, compression: int = 0) -> bytes:
    fields = (40, width, height, 1, bits, compression, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54) + struct.pack("<IiiHHIIiiII", *fields)


def tiff(width: int, height: int) -> bytes:
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1)]
    tags += [(262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, height), (279, 4, 1, 8)]
    rows = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + rows + bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        png(900_000, 900_000),
        bmp(2**31 - 1, 2**31 - 1),
        bmp(2**31 - 1, -(2**31)),
        tiff(2**32 - 1, 2**32 - 1),
        b"P5 999999999 999999999 255\n",
        b"P1 9999999999 9999999999\n",
        encoded("JPEG2000")[:40]
        + encoded("JPEG2000")[40:].replace(
            struct.pack(">IIII", 40, 24, 0, 0), struct.pack(">IIII", 2**31, 2**31, 0, 0)
        ),
    ],
    ids=["PNG", "BMP", "BMP top down", "TIFF", "PGM", "PBM", "JPEG 2000"],
)
def test_claimed_sizes_are_checked_before_memory_is_asked_for(data: bytes):
    with pytest.raises(sardonyx.Error):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        bmp(4, 4),  # no pixels
        bmp(0, 4),
        bmp(4, 4, bits=7),
        bmp(4, 4, bits=8),  # no palette
        bmp(4, 4, bits=8, compression=1),
        bmp(4, 4, bits=24, compression=4),  # holds a JPEG
        b"P3 2 1 255\n1 2 3 4 5",
        b"P3 1 1 10\n1 2 11",
        b"P6 1 1 65536\n123456",
        b"P6 1 1 0\n123",
        b"P1 2 1\n1 2",
        b"P4 9 1\n1",
        b"P5 #",
        b"P2 x 1 255\n1",
    ],
)
def test_headers_that_contradict_themselves(data: bytes):
    with pytest.raises(sardonyx.Error):
        decode(data)


def test_run_lengths_of_bitmaps():
    header = b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 12)
    header += struct.pack("<IiiHHIIiiII", 40, 4, 3, 1, 8, 1, 0, 0, 0, 3, 0)
    palette = bytes([10, 20, 30, 0, 1, 2, 3, 0, 4, 5, 6, 0])
    runs = bytes([4, 1, 0, 0, 0, 3, 2, 1, 2, 0, 0, 2, 1, 1, 1, 2, 0, 1])
    want = np.array(Image.open(io.BytesIO(header + palette + runs)).convert("RGB"))
    assert np.array_equal(decode(header + palette + runs), want)


def test_plain_and_raw_bitmaps():
    text = b"P1 # a comment\n5 2\n10110 0 1\n001"
    raw = b"P4\n5 2\n" + bytes([0b10110000, 0b01001000])
    want = np.array([[0, 255, 0, 0, 255], [255, 0, 255, 255, 0]], np.uint8)[..., None]
    for data in (text, raw):
        assert np.array_equal(decode(data), np.repeat(want, 3, axis=2))


def test_sixteen_bits_keep_the_high_byte():
    deep = np.array([[0, 255, 256, 0x1234, 65535]], np.uint16)
    file = io.BytesIO()
    Image.fromarray(deep).save(file, "PNG")
    assert np.array_equal(decode(file.getvalue())[..., 1], (deep >> 8).astype(np.uint8))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_turns_tiff_but_not_jpeg(orientation: int):
    picture = Image.open(io.BytesIO(encoded("PNG")))
    for format_, options in (("TIFF", {"tiffinfo": {274: orientation}}), ("JPEG", {})):
        if format_ == "JPEG":
            options["exif"] = Image.Exif()
            options["exif"][274] = orientation
        file = io.BytesIO()
        picture.save(file, format_, **options)
        assert np.array_equal(decode(file.getvalue()), np.array(Image.open(file)))
