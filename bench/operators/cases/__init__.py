"""The tables, and which operators none of them needs."""

from __future__ import annotations

from bench.operators.case import Case
from bench.operators.cases import (
    contributed,
    contributed_attention,
    contributed_experts,
    contributed_gates,
    contributed_search,
    contributed_tensors,
    elementwise,
    ml,
    movement,
    neural,
    quantized,
    rare,
    reduction,
)

TABLES = (
    elementwise,
    reduction,
    movement,
    neural,
    rare,
    quantized,
    contributed,
    contributed_attention,
    contributed_experts,
    contributed_gates,
    contributed_search,
    contributed_tensors,
    ml,
)


# Kernels of ONNX Runtime without a row, by the reason.
WITHOUT = {
    "copies between devices": "MemcpyFromHost MemcpyToHost",
    "made of other operators, measured by bench peers and scaling": "If Loop Scan",
    "no data of size to work on": (
        "Optional OptionalGetElement OptionalHasElement SequenceEmpty DictVectorizer CastMap"
    ),
    "names of the same kernel": "SimplifiedLayerNormalization TreeEnsemble TransposeMatMul",
    "experiments of ONNX 1.0 to 1.4": "Scale DynamicSlice",
    "runs in ONNX Runtime only where its caches are written in place": "SparseAttention",
    "contributed operators that Sardonyx does not have, or that have an equal in the standard": (
        "DequantizeLinear MatMulFpQ4 QLinearConv QuantizeLinear SampleOp SparseToDenseMatMul"
    ),
}


def all_cases() -> list[Case]:
    """Every case, in the order of the tables."""
    return [case for table in TABLES for case in table.table()]
