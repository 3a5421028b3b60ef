"""Layers: normalisation, pooling, resizing, products."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import NONE, C, Case, W, X, rows

IMAGE = X(2, 64, 112, 112)
CHANNEL = W(64, low=0.5, high=2)
SPREAD = W(64, low=0.5, high=2)


def table() -> Iterator[Case]:
    """All rows."""
    yield from rows("BatchNormalization", "f32 f64", [IMAGE, CHANNEL, CHANNEL, CHANNEL, SPREAD])
    planes, many = X(8, 512, 7, 7), W(512, low=0.5, high=2)
    yield from rows("BatchNormalization", "f32", [planes, *[many] * 4])
    yield from rows("InstanceNormalization", "f32", [IMAGE, CHANNEL, CHANNEL], [planes, many, many])
    yield from rows("GroupNormalization", "f32", [IMAGE, CHANNEL, CHANNEL], num_groups=8)
    tokens, width = X(2, 1024, 768), W(768, low=0.5, high=2)
    yield from rows("LayerNormalization", "f32 f64 f16", [tokens, width, width])
    yield from rows("LayerNormalization", "f32", [IMAGE, W(64, 112, 112)], axis=1)
    yield from rows("RMSNormalization", "f32", [tokens, width])
    yield from rows("RMSNormalization", "f32 f16", [X(1, 128, 4096), W(4096, low=0.5, high=2)])
    yield from rows("LRN", "f32", [IMAGE], size=5)
    yield from rows("MeanVarianceNormalization", "f32", [IMAGE])
    for axis, p in ((-1, 2), (1, 2), (-1, 1)):
        yield from rows("LpNormalization", "f32 f64", [tokens], axis=axis, p=p)
    pools = (
        dict(kernel_shape=[2, 2], strides=[2, 2]),
        dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        dict(kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        dict(kernel_shape=[7, 7], strides=[7, 7]),
        dict(kernel_shape=[3, 3], dilations=[2, 2]),
    )
    for pool in pools:
        yield from rows("MaxPool AveragePool LpPool", "f32", [IMAGE], **pool)
    yield from rows("MaxPool", "f64 u8 i8", [IMAGE], **pools[1])
    yield from rows("MaxPool", "f32", [X(2, 32, 112, 112)], outputs=2, **pools[1])
    yield from rows(
        "MaxPool AveragePool",
        "f32",
        [X(2, 16, 32, 32, 32)],
        kernel_shape=[2, 2, 2],
        strides=[2, 2, 2],
    )
    yield from rows("MaxPool AveragePool", "f32", [X(2, 64, 10000)], kernel_shape=[3], strides=[2])
    for kernel, strides in (([2, 1], [2, 1]), ([1, 2], [1, 2]), ([1, 4], [1, 4]), ([3, 3], [3, 3])):
        pool = dict(kernel_shape=kernel, strides=strides)
        yield from rows("MaxPool AveragePool", "f32", [X(1, 64, 56, 56)], **pool)
    yield from rows(
        "MaxPool AveragePool", "f32", [X(4, 1, 160000)], kernel_shape=[400], strides=[160]
    )
    yield from rows("AveragePool", "f32", [IMAGE], count_include_pad=1, ceil_mode=1, **pools[1])
    for size, kernel in ((20, 5), (20, 13), (14, 3), (7, 3)):
        pool = dict(kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)
        yield from rows("MaxPool", "f32", [X(1, 256, size, size)], **pool)
    yield from rows("AveragePool", "f32", [X(1, 2048, 7, 7)], kernel_shape=[7, 7])
    yield from rows("AveragePool", "f32", [X(1, 192, 35, 35)], kernel_shape=[3, 3], pads=[1] * 4)
    yield from rows("GlobalAveragePool GlobalMaxPool", "f32", [IMAGE], [X(8, 512, 14, 14)])
    yield from rows("GlobalLpPool", "f32", [IMAGE], version=21)
    photo, double = X(1, 3, 480, 640), C([1, 1, 2, 2], "f32")
    for mode in ("nearest", "linear", "cubic"):
        yield from rows(
            "Resize", "f32", [photo, NONE, double], [X(1, 64, 64, 64), NONE, double], mode=mode
        )
        small = [photo, NONE, NONE, C([1, 3, 224, 224])]
        # Which of two nearest pixels is a matter of rounding.
        yield from rows("Resize", "f32", small, exact=mode != "nearest", mode=mode)
        yield from rows(
            "Resize",
            "f32",
            [photo, NONE, NONE, C([1, 3, 333, 777])],
            mode=mode,
            coordinate_transformation_mode="align_corners",
        )
    yield from rows(
        "Resize", "f32", [photo, NONE, NONE, C([1, 3, 224, 224])], mode="linear", antialias=1
    )
    yield from rows("Resize", "u8 i32 i8", [photo, NONE, double], mode="nearest")
    yield from rows("Resize", "u8", [photo, NONE, double], mode="linear")
    small = [X(1, 1024, 7, 7), NONE, double]
    yield from rows("Resize", "f32", [X(1, 128, 32, 32), NONE, double], small, mode="linear")
    yield from rows(
        "Resize", "f32", [X(1, 480, 640, 3), NONE, C([1, 2, 2, 1], "f32")], mode="linear"
    )
    yield from rows(
        "Resize",
        "f32",
        [photo, NONE, double],
        [X(1, 64, 80, 80), NONE, double],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    yield from rows("MatMul", "f32 f64 i32 i64", [X(256, 256), X(256, 256)])
    yield from rows("MatMul", "f32", [X(12, 128, 64), X(12, 64, 128)], [X(1024), X(1024, 1024)])
    yield from rows("MatMul", "f32", [X(4, 1, 8, 64, 64), X(1, 4, 8, 64, 64)])
    column = (
        [X(64, 1536, 384), X(64, 384, 1)],
        [X(3072, 1024), X(1024, 1)],
        [X(50000, 64), W(64, 1)],
    )
    yield from rows("MatMul", "f32", *column)
    yield from rows("Gemm", "f32 f64", [X(512, 256), W(256, 512), W(512)])
    yield from rows("Gemm", "f32", [X(512, 256), W(512, 256), W(512)], transB=1)
    yield from rows("Conv", "f32", [X(1, 64, 56, 56), W(64, 64, 3, 3), W(64)], pads=[1, 1, 1, 1])
    yield from rows("Conv", "f32", [X(1, 64, 56, 56), W(128, 64, 1, 1)])
    yield from rows("Conv", "f32", [X(1, 96, 56, 56), W(96, 1, 3, 3)], group=96, pads=[1, 1, 1, 1])
    yield from rows("Conv", "f32", [X(1, 64, 10000), W(64, 64, 3)])
    yield from rows("Conv", "f32", [X(1, 64, 16000), W(1, 64, 7)], pads=[3, 3])
    yield from rows("Conv", "f32", [X(1, 64, 128, 128), W(3, 64, 3, 3), W(3)], pads=[1] * 4)
    yield from rows("Conv", "f32", [X(1, 64, 64, 64), W(3, 64, 9, 9), W(3)], pads=[4] * 4)
    yield from rows("Conv", "f32", [X(1, 128, 28, 28), W(128, 4, 3, 3)], group=32, pads=[1] * 4)
    same = {"pads": [1] * 4}
    yield from rows("Conv", "f32", [X(1, 104, 28, 28), W(104, 8, 3, 3)], group=13, **same)
    yield from rows("Conv", "f32", [X(1, 512, 14, 14), W(512, 16, 3, 3)], group=32, **same)
    yield from rows("Conv", "f32", [X(1, 216, 7, 7), W(216, 24, 3, 3)], group=9, **same)
    half = {"pads": [1] * 4, "strides": [2, 2]}
    yield from rows("Conv", "f32", [X(1, 48, 112, 112), W(48, 8, 3, 3)], group=6, **half)
    yield from rows("Conv", "f32", [X(1, 128, 112, 112), W(128, 4, 3, 3)], group=32, **half)
    yield from rows("Conv", "f32", [X(1, 256, 56, 56), W(256, 32, 3, 3)], group=8, **half)
    yield from rows("Conv", "f32", [X(1, 240, 28, 28), W(240, 1, 5, 5)], group=240, pads=[2] * 4)
    wide = {"pads": [3] * 4, "strides": [2, 2]}
    yield from rows("Conv", "f32", [X(1, 48, 112, 112), W(96, 1, 7, 7)], group=48, **wide)
    yield from rows("Conv", "f32", [X(1, 128, 56, 56), W(128, 128, 3, 3)], **half)
    yield from rows("Conv", "f32", [X(1, 256, 56, 56), W(512, 256, 1, 1)], strides=[2, 2])
    yield from rows("Conv", "f32", [X(1, 768, 99), W(768, 48, 128)], group=16, pads=[64] * 2)
    yield from rows("Conv", "f32", [X(1, 3, 224, 224), W(64, 3, 7, 7)], strides=[2, 2])
    dilated = {"dilations": [2, 2], "pads": [2] * 4}
    yield from rows("Conv", "f32", [X(1, 256, 32, 32), W(256, 256, 3, 3)], **dilated)
    yield from rows("Conv", "f32", [X(4, 192, 17, 17), W(192, 192, 1, 7)], pads=[0, 3, 0, 3])
    yield from rows("Conv", "f32", [X(4, 192, 17, 17), W(192, 192, 7, 1)], pads=[3, 0, 3, 0])
    yield from rows("Conv", "f32", [X(1, 32, 12800), W(32, 32, 11)], pads=[25, 25], dilations=[5])
    # Of segmentation, whose windows mostly see padding; maps of a few pixels do so too.
    far = {"dilations": [18, 18], "pads": [18] * 4}
    yield from rows("Conv", "f32", [X(1, 960, 32, 32), W(256, 960, 3, 3)], **far)
    yield from rows("Conv", "f32", [X(1, 512, 2, 2), W(1024, 512, 4, 4)], **half)
    yield from rows("Conv", "f32", [X(1, 3, 100, 100), W(16, 3, 3, 3)], **dilated)
    yield from rows("Conv", "f32", [X(1, 48, 112, 112), W(16, 3, 1, 1)], group=16)
    yield from rows("Conv", "f32", [X(1, 384, 28, 28), W(96, 48, 1, 1)], group=8)
    yield from rows("Conv", "f32", [X(1, 32, 16, 32, 32), W(32, 32, 3, 3, 3)], pads=[1] * 6)
    yield from rows("Conv", "f32", [X(1, 64, 8, 32, 32), W(64, 64, 3, 1, 1)], pads=[1, 0, 0] * 2)
    yield from rows("Conv", "f32", [X(1, 3, 16, 112, 112), W(64, 3, 3, 7, 7)], strides=[1, 2, 2])
    # Few channels: a blur, a filter of audio, multiples of them.
    yield from rows("Conv", "f32", [X(1, 3, 480, 640), W(3, 1, 11, 11)], group=3, pads=[5] * 4)
    tall = dict(group=12, pads=[32, 0, 32, 0])
    yield from rows("Conv", "f32", [X(1, 12, 512, 64), W(12, 1, 65, 1)], **tall)
    yield from rows("Conv", "f32", [X(1, 1, 480, 640), W(1, 1, 3, 3)], pads=[1] * 4)
    yield from rows("Conv", "f32", [X(1, 1, 43844), W(1, 1, 256)], strides=[2])
    yield from rows("Conv", "f32", [X(1, 1, 160000), W(402, 1, 400)], strides=[160])
    yield from rows("Conv", "f32", [X(1, 2, 160, 160), W(32, 1, 3, 3)], group=2, **same)
    yield from rows("Conv", "f32", [X(1, 40, 80, 80), W(40, 10, 3, 3)], group=4, **same)
    yield from rows("Conv", "f32", [X(1, 48, 56, 56), W(48, 3, 3, 3)], group=16, **same)
    yield from rows("Conv", "f32", [X(1, 64, 56, 56), W(32, 2, 3, 3)], group=32, **same)
    # Depthwise: of steps, wide windows, and three axes.
    yield from rows("Conv", "f32", [X(1, 144, 56, 56), W(144, 1, 3, 3)], group=144, **half)
    yield from rows("Conv", "f32", [X(1, 72, 56, 56), W(72, 1, 5, 5)], group=72, **half)
    yield from rows("Conv", "f32", [X(1, 96, 56, 56), W(96, 1, 7, 7)], group=96, pads=[3] * 4)
    volume = {"pads": [1] * 6}
    yield from rows("Conv", "f32", [X(1, 54, 13, 56, 56), W(54, 1, 3, 3, 3)], group=54, **volume)
    yield from rows("Conv", "f32", [X(1, 5, 16, 40, 40), W(5, 1, 3, 3, 3)], group=5, **volume)
    yield from rows("Conv", "f32", [X(1, 1, 48, 48, 48), W(16, 1, 3, 3, 3)], **volume)
    yield from rows("ConvTranspose", "f32", [X(1, 258, 1000), W(258, 1, 256)], strides=[64])
    yield from rows("ConvTranspose", "f32", [X(1, 64, 56, 56), W(64, 32, 2, 2)], strides=[2, 2])
    up = {"strides": [2, 2], "pads": [1] * 4}
    yield from rows("ConvTranspose", "f32", [X(1, 256, 32, 32), W(256, 128, 4, 4)], **up)
    yield from rows("ConvTranspose", "f32", [X(1, 64, 64, 64), W(64, 3, 4, 4)], **up)
    yield from rows(
        "ConvTranspose", "f32", [X(1, 32, 64, 64), W(32, 1, 4, 4)], group=32, strides=[2, 2]
    )
    yield from rows("ConvTranspose", "f32", [X(1, 3, 80, 80), W(3, 1, 4, 4)], group=3, **up)
    bilinear = {"group": 21, "strides": [32, 32], "pads": [16] * 4}
    yield from rows("ConvTranspose", "f32", [X(1, 21, 10, 10), W(21, 1, 64, 64)], **bilinear)
    steps = {"strides": [2, 2, 2], "pads": [1] * 6}
    yield from rows("ConvTranspose", "f32", [X(1, 8, 24, 24, 24), W(8, 1, 4, 4, 4)], **steps)
    blocks = {"strides": [4, 4, 4]}
    yield from rows("ConvTranspose", "f32", [X(1, 16, 12, 12, 12), W(16, 1, 4, 4, 4)], **blocks)
    yield from rows("ConvTranspose", "f32", [X(1, 64, 28, 28), W(64, 8, 8, 8)], strides=[8, 8])
    yield from rows("ConvTranspose", "f32", [X(1, 64, 200), W(64, 64, 31)])
    yield from rows("ConvTranspose", "f32", [X(1, 512, 4, 4), W(512, 256, 4, 4)], **up)
    for text, shapes in (
        ("ij,jk->ik", [X(256, 256), X(256, 256)]),
        ("bij,bjk->bik", [X(8, 128, 128), X(8, 128, 128)]),
        ("bhid,bhjd->bhij", [X(2, 8, 128, 64), X(2, 8, 128, 64)]),
        ("bihd,bjhd->bhij", [X(2, 128, 8, 64), X(2, 128, 8, 64)]),
        ("ij->ji", [X(1024, 1024)]),
        ("ij->i", [X(1024, 1024)]),
        ("ii->i", [X(1024, 1024)]),
        ("i,j->ij", [X(1024), X(1024)]),
        ("ij,ij->ij", [X(1024, 1024), X(1024, 1024)]),
        ("ij,ij->", [X(1024, 1024), X(1024, 1024)]),
    ):
        yield from rows("Einsum", "f32", shapes, equation=text)
