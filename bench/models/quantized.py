"""Quantised forms of other models, made with the tools of ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_dynamic,
    quantize_static,
)

from bench.models import ensure
from bench.models.table import pixels


class Pictures(CalibrationDataReader):
    """A few random pictures, from which the ranges of activations are taken."""

    def __init__(self, count: int = 4) -> None:
        rng = np.random.default_rng(5)
        self.pictures: Iterator[dict[str, np.ndarray]] = iter(
            [pixels(rng, 2) for _ in range(count)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next picture, None at the end."""
        return next(self.pictures, None)


def write_static(name: str, path: Path, form: QuantFormat, *, per_channel: bool) -> None:
    """Quantise model `name` of the collection: activations uint8, weights int8."""
    with tempfile.TemporaryDirectory() as scratch:
        prepared = Path(scratch) / "prepared.onnx"
        quant_pre_process(ensure(name), prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            path,
            Pictures(),
            quant_format=form,
            per_channel=per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


def write_resnet50_int8(path: Path) -> None:
    """ResNet-50 with QuantizeLinear and DequantizeLinear, a scale for each output channel."""
    write_static("resnet50", path, QuantFormat.QDQ, per_channel=True)


def write_mobilenet_v2_qoperator(path: Path) -> None:
    """MobileNetV2 of QLinearConv and its like, a scale for each tensor."""
    write_static("mobilenet_v2", path, QuantFormat.QOperator, per_channel=False)


def write_bert_dynamic_int8(path: Path) -> None:
    """BERT-base with int8 weights, activations quantised as they come."""
    quantize_dynamic(ensure("bert_base"), path, weight_type=QuantType.QInt8)
