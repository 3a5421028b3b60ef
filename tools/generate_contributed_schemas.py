#!/usr/bin/env python3
"""Write the schemas of contributed operators, those of ``com.microsoft``, as a C++ table.

The ``onnxruntime`` package says what their parameters, attributes and types are; this script turns
that into ``onnx`` schemas and these into ``src/onnx/contributed_table.inc``, which is checked in.
``tests/onnx/test_schema_table.py`` makes it again and compares.

Usage: generate_contributed_schemas.py [OUTPUT_FOLDER]
"""

from __future__ import annotations

from functools import cache

import onnx
import onnxruntime
from generate_schemas import Table, quote, schema_row, write
from onnx.defs import OpSchema
from onnxruntime.capi import onnxruntime_pybind11_state as state

ONNXRUNTIME_VERSION = "1.31.1"
DOMAIN = "com.microsoft"
OPERATORS = """
    Attention AttnLSTM BeamSearch BiasGelu BifurcationDetector BranchwiseRMSNorm CDist
    CausalConvWithState ConvTransposeWithDynamicPads CropAndResize
    DecoderMaskedMultiHeadAttention DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul
    DynamicTimeWarping EmbedLayerNormalization EngramGate ExpandDims FastGelu FusedConv
    FusedGemm FusedMatMul GatedAdd GatedRMSNorm GatherBlockQuantized GatherND Gelu GreedySearch
    GridSample GroupQueryAttention HyperConnectionPostMix HyperConnectionPreMix Inverse Irfft
    LinearAttention LinearAttentionGate MRotaryEmbedding MatMulBnb4 MatMulInteger16
    MatMulIntegerToFloat MatMulNBits MaxpoolWithMask MoE MultiHeadAttention MurmurHash3
    NGramHashMapping NGramRepeatBlock NhwcMaxPool Pad QAttention QEmbedLayerNormalization QGemm
    QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QLinearWhere QMoE QuantizeLinear
    QuickGelu Range Rfft RotaryEmbedding Sampling ScaledSiLU SkipLayerNormalization
    SkipSimplifiedLayerNormalization SparseAttention Tokenizer TransposeMatMul Trilu
    UnfoldTensor Unique VarlenNGramHashMapping WhisperBeamSearch WordConvEmbedding
""".split()
# ONNX Runtime writes these into the default domain, the first for opsets before the standard has
# one; they are taken in the contributed domain as well.
IN_DEFAULT_DOMAIN = ["LayerNormalization", "SimplifiedLayerNormalization"]


def to_onnx(schema: state.schemadef.OpSchema, domain: str) -> OpSchema:
    """Return the schema as one of the ``onnx`` package, without its documentation."""

    def parameters(formals: list, least: int) -> list[OpSchema.FormalParameter]:
        return [
            OpSchema.FormalParameter(
                formal.name,
                formal.typeStr,
                param_option=getattr(OpSchema.FormalParameterOption, formal.option.name),
                is_homogeneous=formal.isHomogeneous,
                # Of a variadic one; 1 by convention for others.
                min_arity=max(least - index, 1) if formal.option.name == "Variadic" else 1,
            )
            for index, formal in enumerate(formals)
        ]

    def attribute(given: state.schemadef.OpSchema.Attribute) -> OpSchema.Attribute:
        if given._default_value:
            default = onnx.AttributeProto.FromString(given._default_value)
            return OpSchema.Attribute(given.name, default)
        kind = getattr(OpSchema.AttrType, given.type.name)
        return OpSchema.Attribute(given.name, kind, required=given.required)

    return OpSchema(
        schema.name,
        domain,
        schema.since_version,
        inputs=parameters(schema.inputs, schema.min_input),
        outputs=parameters(schema.outputs, schema.min_output),
        type_constraints=[
            (c.type_param_str, list(c.allowed_type_strs), "") for c in schema.type_constraints
        ],
        attributes=[attribute(given) for given in schema.attributes.values()],
    )


@cache
def contributed_schemas() -> list[OpSchema]:
    """Return the schemas of all contributed operators, by domain and name."""
    if onnxruntime.__version__ != ONNXRUNTIME_VERSION:
        raise RuntimeError(
            f"onnxruntime {onnxruntime.__version__} is installed, the table is of "
            f"{ONNXRUNTIME_VERSION}"
        )
    schemas = []
    for schema in state.get_all_operator_schema():
        if schema.domain == DOMAIN and schema.name in OPERATORS:
            schemas.append(to_onnx(schema, DOMAIN))
        elif (schema.domain, schema.since_version) == ("", 1) and schema.name in IN_DEFAULT_DOMAIN:
            schemas += [to_onnx(schema, ""), to_onnx(schema, DOMAIN)]
    return sorted(schemas, key=lambda schema: (schema.domain, schema.name))


def generate() -> dict[str, str]:
    """Return the table's text by file name."""
    table = Table()
    rows = [schema_row(table, Table(), schema) for schema in contributed_schemas()]
    lines = [
        f"// Generated from onnxruntime {ONNXRUNTIME_VERSION} by "
        "tools/generate_contributed_schemas.py. Do not edit.",
        "",
        *table.lines,
        "constexpr OpSchema kSchemas[] = {",
        *(f"    {row}," for row in rows),
        "};",
        f"constexpr DomainInfo kDomain = {{{quote(DOMAIN)}, 1}};",
    ]
    return {"contributed_table.inc": "\n".join(lines) + "\n"}


if __name__ == "__main__":
    write(generate())
