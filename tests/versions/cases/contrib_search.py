"""Searches for texts, whose decoders are bodies: a few of each type.

What they do with each attribute and input stands in tests/python/test_generation.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from bench.models import decoders
from tests.versions.case import Case, Entry, Request, cases
from tests.versions.model import build
from tests.versions.oracle import ORACLES

DOMAIN = "com.microsoft"
SIZES = decoders.Sizes()
# No token of that number: no text ends, of which ONNX Runtime would leave the rest as it was.
NEVER = {"eos_token_id": SIZES.vocab, "pad_token_id": decoders.PADDING}


def _number(value: float, dtype: Any = np.int32) -> np.ndarray:
    return np.array([value], dtype)


def _prompts(request: Request, rows: int = 2) -> np.ndarray:
    return request.random(np.dtype(np.int32), (rows, 4), 1, SIZES.vocab - 1)


def _masks(request: Request, rows: int = 2) -> list[np.ndarray]:
    """Of tokens, of the first token for each prompt, and of the prompts."""
    tokens = request.random(np.dtype(np.int32), (SIZES.vocab,), 0, 1)
    first = request.random(np.dtype(np.int32), (rows, SIZES.vocab), 0, 1)
    attention = np.ones((rows, 4), np.int32)
    attention[0, 0] = 0
    return [tokens, first, attention]


@cases("GreedySearch", domain=DOMAIN)
def greedy_search(request: Request) -> list[Case]:
    decoder = decoders.gpt(SIZES)
    attributes = NEVER | {"decoder": decoder, "no_repeat_ngram_size": 2}
    penalty = _number(1.25, request.dtype("T"))
    inputs = [_prompts(request), _number(10)]
    return [
        Case(inputs, NEVER | {"decoder": decoder}, name="prompts"),
        Case([*inputs, _number(6), penalty, *_masks(request)], attributes, name="all inputs"),
    ]


@cases("Sampling", domain=DOMAIN)
def sampling(request: Request) -> list[Case]:
    attributes = NEVER | {"decoder": decoders.gpt(SIZES), "top_p": 1e-6}
    penalty = _number(1.25, request.dtype("T"))
    inputs = [_prompts(request), _number(10), _number(6), penalty, *_masks(request)]
    presence = request.random(np.dtype(np.int32), (2, SIZES.vocab), 0, 1)
    return [
        Case(inputs[:2], attributes, outputs=1, name="the most likely"),
        Case([*inputs, presence, _number(7)], attributes, outputs=1, name="all inputs"),
    ]


def _alike(request: Request, case: Case, attributes: dict[str, Any]) -> list[Any]:
    """What ONNX Runtime finds for the same numbers in float32."""
    types = {
        constraint.type_param_str: "tensor(float)"
        for constraint in request.schema.type_constraints
        if "tensor(float)" in constraint.allowed_type_strs
    }
    if request.type("F") == "tensor(int32)":
        types["F"] = "tensor(int32)"
    inputs = [
        value.astype(np.float32) if value is not None and value.dtype.kind == "f" else value
        for value in case.inputs
    ]
    wide = Case(inputs, attributes, outputs=case.outputs, types=types)
    model, values = build(Entry(request.schema, "", ""), wide, shapes=True)
    found = ORACLES["onnxruntime"](model, values)
    return [value.astype(np.float64) if value.dtype.kind == "f" else value for value in found]


def _beams(request: Request, read: np.ndarray) -> list[Any]:
    return [read, _number(9), _number(0), _number(3), _number(2), _number(1, request.dtype("T"))]


def _speech(request: Request) -> Case:
    """Of features; a body of halves reads the same in float32."""
    features = request.random("F", (2, 6, 8))
    bodies, wide = (
        decoders.encoder_decoder(SIZES, seed=1, speech=True, reads=reads)
        for reads in (onnx.helper.np_dtype_to_tensor_dtype(features.dtype), TensorProto.FLOAT)
    )
    attributes = NEVER | {"decoder_start_token_id": 3, "model_type": 2}
    narrow = "float16" in (request.dtype("T").name, request.dtype("F").name)
    case = Case(
        _beams(request, features),
        attributes | bodies,
        outputs=[True, True, True],
        rtol=1e-2 if narrow else 1e-4,
        atol=1e-3,
        name="features",
    )
    case.expected = _alike(request, case, attributes | wide)
    return case


@cases("BeamSearch", domain=DOMAIN)
def beam_search(request: Request) -> list[Case]:
    if request.type("F") != "tensor(int32)":
        return [_speech(request)]
    attributes = NEVER | {"decoder": decoders.gpt(SIZES)}
    encoded = NEVER | {"decoder_start_token_id": 3, "model_type": 1}
    encoded |= decoders.encoder_decoder(SIZES, seed=1)
    inputs = _beams(request, _prompts(request))
    penalty = _number(1.25, request.dtype("T"))
    more = [*inputs, penalty, *_masks(request)]
    return [
        Case(inputs, attributes, rtol=1e-4, atol=1e-3, name="decoder"),
        Case(inputs, encoded, rtol=1e-4, atol=1e-3, name="encoder and decoder"),
        Case(more, attributes, outputs=1, name="more inputs"),
    ]


@cases("WhisperBeamSearch", domain=DOMAIN)
def whisper_beam_search(request: Request) -> list[Case]:
    if request.type("F") != "tensor(int32)":
        return [_speech(request)]
    # Features may be whole numbers.
    bodies, wide = (
        decoders.encoder_decoder(SIZES, seed=1, speech=True, reads=reads)
        for reads in (TensorProto.INT32, TensorProto.FLOAT)
    )
    attributes = NEVER | {"decoder_start_token_id": 3, "model_type": 2}
    features = request.random("F", (2, 6, 8), -1, 1)  # of larger ones targets differ by 2e-5
    case = Case(_beams(request, features), attributes | bodies, outputs=[True, True, True])
    floats = Case(_beams(request, features.astype(np.float32)), outputs=[True, True, True])
    request.having({"F": "tensor(float)"})
    case.expected = _alike(request, floats, attributes | wide)
    return [case]
