"""The tables, and which operators none of them needs."""

from __future__ import annotations

from bench.operators.case import Case
from bench.operators.cases import (
    contributed,
    elementwise,
    ml,
    movement,
    neural,
    quantized,
    rare,
    reduction,
)

TABLES = (elementwise, reduction, movement, neural, rare, quantized, contributed, ml)


# Kernels of ONNX Runtime without a row, by the reason.
WITHOUT = {
    "copies between devices": "MemcpyFromHost MemcpyToHost",
    "made of other operators, measured by bench peers and scaling": "If Loop Scan",
    "no data of size to work on": (
        "Optional OptionalGetElement OptionalHasElement SequenceEmpty DictVectorizer CastMap"
    ),
    "names of the same kernel": "SimplifiedLayerNormalization TreeEnsemble TransposeMatMul",
    "experiments of ONNX 1.0 to 1.4": "Scale DynamicSlice",
    "contributed operators that Sardonyx does not have, or that have an equal in the standard": (
        "AttnLSTM BeamSearch BifurcationDetector BranchwiseRMSNorm CDist CausalConvWithState "
        "ConvTransposeWithDynamicPads CropAndResize DecoderMaskedMultiHeadAttention "
        "DequantizeLinear DynamicTimeWarping EngramGate GatedAdd GatedRMSNorm GatherND "
        "GreedySearch HyperConnectionPostMix HyperConnectionPreMix LinearAttention "
        "LinearAttentionGate MRotaryEmbedding MatMulBnb4 MatMulFpQ4 MaxpoolWithMask MoE "
        "MurmurHash3 NGramHashMapping NGramRepeatBlock QAttention QEmbedLayerNormalization "
        "QLinearConv QMoE QuantizeLinear Range SampleOp Sampling ScaledSiLU SparseAttention "
        "SparseToDenseMatMul Tokenizer UnfoldTensor VarlenNGramHashMapping WhisperBeamSearch "
        "WordConvEmbedding"
    ),
}


def all_cases() -> list[Case]:
    """Every case, in the order of the tables."""
    return [case for table in TABLES for case in table.table()]
