"""Transforms and windows; expected values in float64 and complex128 by NumPy."""

import numpy as np
import onnx

from tests.versions.case import Case, Request, cases


def _complex(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def _pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def _scalar(value: int, dtype=np.int64) -> np.ndarray:
    return np.array(value, dtype)


@cases("DFT")
def dft(request: Request) -> list[Case]:
    made = []

    def add(name, shape, *, axis=None, length=None, inverse=0, onesided=0):
        x = request.random("T1", shape)
        given = {20: -2}.get(request.version, 1) if axis is None else axis
        line = given % x.ndim
        values = _complex(x)
        n = length
        if inverse and onesided:
            wanted = np.fft.irfft(values, n, line)[..., None]
        elif inverse:
            wanted = _pairs(np.fft.ifft(values, n, line))
        elif onesided:
            wanted = _pairs(np.fft.rfft(values.real, n, line))
        else:
            wanted = _pairs(np.fft.fft(values, n, line))
        inputs = [x, None if length is None else _scalar(length, request.dtype("T2"))]
        attributes = {"inverse": inverse, "onesided": onesided}
        if request.version >= 20:
            inputs.append(None if axis is None else _scalar(axis))
        elif axis is not None:
            attributes["axis"] = axis
        # Sums of some forty numbers, by a convolution where their count is a large prime.
        made.append(
            Case(
                inputs,
                attributes,
                expected=[wanted],
                name=name,
                initializers=(1, 2),
                atol=1e-5 if request.dtype("T1") == np.float32 else None,
            )
        )
        made.append(
            Case(
                inputs,
                attributes,
                expected=[wanted],
                name=f"{name}, computed inputs",
                atol=1e-5 if request.dtype("T1") == np.float32 else None,
            )
        )

    add("real", (2, 10, 1))
    add("complex", (2, 10, 2))
    for size in (1, 2, 7, 16, 30, 37, 74):
        add(f"length {size}", (1, size, 2))
    add("inverse", (2, 12, 2), inverse=1)
    add("inverse of real", (2, 5, 1), inverse=1)
    add("onesided", (2, 9, 1), onesided=1)
    add("onesided, padded", (2, 9, 1), onesided=1, length=12)
    add("to real", (2, 6, 2), onesided=1, inverse=1)
    add("to real, odd", (2, 6, 2), onesided=1, inverse=1, length=11)
    add("to real, cut", (2, 6, 2), onesided=1, inverse=1, length=4)
    add("padded", (2, 5, 2), length=8)
    add("cut", (2, 9, 2), length=5)
    add("first axis", (6, 3, 2, 2), axis=0)
    add("negative axis", (3, 6, 2, 1), axis=-3)
    add("nothing", (0, 4, 2))
    return made


@cases("STFT")
def stft(request: Request) -> list[Case]:
    kind = request.dtype("T2")
    made = []

    def add(name, shape, step, window=None, length=None, onesided=None):
        x = request.random("T1", shape)
        weights = None if window is None else request.random("T1", (window,))
        size = length or window or shape[1]
        starts = range(0, shape[1] - size + 1, step)
        frames = np.stack([_complex(x)[:, start : start + size] for start in starts], 1)
        if weights is not None:
            frames = frames * weights.astype(np.float64)
        wanted = np.fft.fft(frames)
        if onesided is None or onesided:
            wanted = wanted[..., : size // 2 + 1]
        made.append(
            Case(
                [
                    x,
                    _scalar(step, kind),
                    weights,
                    None if length is None else _scalar(length, kind),
                ],
                {} if onesided is None else {"onesided": onesided},
                expected=[_pairs(wanted)],
                name=name,
                atol=1e-5 if request.dtype("T1") == np.float32 else None,
            )
        )

    add("length", (2, 20, 1), 4, length=8)
    add("window", (2, 21, 1), 5, window=7)
    add("both", (1, 16, 1), 3, window=6, length=6)
    add("whole signal", (1, 11, 1), 2)
    add("two sides", (2, 18, 1), 6, window=6, onesided=0)
    add("complex", (2, 18, 2), 4, window=8, onesided=0)
    return made


def _mel(bins, length, rate, lower, upper):
    bins, length, rate = int(bins), int(length), float(rate)
    low, high = (2595 * np.log10(1 + float(hertz) / 700) for hertz in (lower, upper))
    mels = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    corners = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(int)
    y = np.zeros((length // 2 + 1, bins))
    for i, (left, center, right) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        for row in range(left, center):
            y[row, i] = (row - left) / (center - left)
        y[center, i] = 1
        for row in range(center, right):
            y[row, i] = (right - row) / (right - center)
    return y


@cases("MelWeightMatrix")
def mel_weight_matrix(request: Request) -> list[Case]:
    kind, edge = request.dtype("T1"), request.dtype("T2")
    type_ = onnx.helper.np_dtype_to_tensor_dtype(request.dtype("T3"))
    made = []
    for bins, length, rate, lower, upper in ((8, 16, 8192, 0, 4096), (5, 64, 16000, 128, 7168)):
        sizes = [np.array(value, kind) for value in (bins, length, rate)]
        edges = [np.array(value, edge) for value in (lower, upper)]
        made.append(
            Case([*sizes, *edges], {"output_datatype": type_}, expected=_mel, name=f"{bins} bins")
        )
        made.append(
            Case(
                [*sizes, *edges],
                {"output_datatype": type_},
                expected=_mel,
                name=f"{bins} bins, constants",
                initializers=range(5),
            )
        )
    return made


WINDOWS = {
    "HannWindow": (0.5, 0.5, 0),
    "HammingWindow": (25 / 46, 21 / 46, 0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@cases(*WINDOWS)
def window(request: Request) -> list[Case]:
    a, b, c = WINDOWS[request.op]
    type_ = onnx.helper.np_dtype_to_tensor_dtype(request.dtype("T2"))
    # An integer is what remains of 1 - 1e-16, too: the middle of a window is left out.
    sizes = (7, 1) if request.dtype("T2").kind in "iu" else (10, 7, 1, 0)
    made = []
    for size in sizes:
        for periodic in (0, 1):
            if size == 7 and not periodic and len(sizes) == 2:
                continue
            t = 2 * np.pi * np.arange(size) / (size if periodic else max(size - 1, 1))
            wanted = a - b * np.cos(t) + c * np.cos(2 * t)
            if request.dtype("T2").kind == "u":
                wanted = np.maximum(wanted, 0)
            made.append(
                Case(
                    [_scalar(size, request.dtype("T1"))],
                    {"periodic": periodic, "output_datatype": type_},
                    expected=[wanted],
                    name=f"{size}, periodic {periodic}",
                )
            )
    return made
