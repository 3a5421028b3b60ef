"""Models that search for texts, their inputs, and how they are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

import sardonyx
from bench.models import decoders as models
from bench.models.decoders import FLOAT, INT, PADDING, Sizes

SIZES = Sizes()


EVEN = (np.arange(SIZES.vocab) % 2 == 0).astype(np.int32)


THIRDS = np.stack([np.arange(SIZES.vocab) % 3 == row for row in range(3)]).astype(np.int32)


def number(value: float, dtype: Any = np.int32) -> np.ndarray:
    return np.array([value], dtype)


def prompts(rows: int = 3, length: int = 5, seed: int = 1) -> np.ndarray:
    """Random tokens; the second row begins with padding."""
    found = np.random.default_rng(seed).integers(2, SIZES.vocab, (rows, length)).astype(np.int32)
    found[1:2, :2] = PADDING
    return found


def by_onnx_runtime(model, inputs: dict) -> list:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, fed(session.get_inputs(), inputs))


def by_sardonyx(model, inputs: dict) -> list:
    session = sardonyx.load(model)
    return list(session.run(fed(session.inputs, inputs)).values())


def fed(infos, inputs: dict) -> dict:
    return {info.name: inputs[info.name] for info in infos}


def greedy_inputs(ids: np.ndarray | None = None, max_length: int = 16, **given: Any) -> dict:
    names = ("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask")
    names += ("attention_mask", "presence_mask", "seed")
    ids = prompts() if ids is None else ids
    inputs = {"input_ids": ids, "max_length": number(max_length)}
    return inputs | dict.fromkeys(names) | given


def greedy_model(inputs: dict, op: str = "GreedySearch", **options: Any):
    attributes = {"decoder": models.gpt(SIZES), "eos_token_id": 2, "pad_token_id": PADDING}
    outputs = [("sequences", INT, None)]
    return models.search(op, inputs, outputs, **(attributes | options))


def beam_inputs(beams: int = 3, returned: int = 2, **given: Any) -> dict:
    """ONNX Runtime wants a minimum length and a penalty, though they are optional."""
    inputs = {
        "input_ids": prompts(),
        "max_length": number(12),
        "min_length": number(0),
        "num_beams": number(beams),
        "num_return_sequences": number(returned),
        "length_penalty": number(1, np.float32),
    }
    names = ("repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")
    return inputs | dict.fromkeys((*names, "decoder_input_ids", "logits_processor")) | given


BEAM_OUTPUTS = [
    ("sequences", INT, None),
    ("sequences_scores", FLOAT, None),
    ("scores", FLOAT, None),
]


def beam_model(inputs: dict, outputs: int = 3, **options: Any):
    attributes = {"decoder": models.gpt(SIZES), "eos_token_id": 2, "pad_token_id": PADDING}
    return models.search("BeamSearch", inputs, BEAM_OUTPUTS[:outputs], **(attributes | options))


def row_of(inputs: dict, row: int) -> dict:
    per_prompt = ("input_ids", "prefix_vocab_mask", "attention_mask", "decoder_input_ids")
    return {
        name: value[row : row + 1] if name in per_prompt and value is not None else value
        for name, value in inputs.items()
    }


def encoded_model(inputs: dict, op: str = "BeamSearch", outputs: Any = None, **options: Any):
    attributes = {"eos_token_id": 2, "pad_token_id": PADDING, "decoder_start_token_id": 3}
    outputs = BEAM_OUTPUTS if outputs is None else outputs
    return models.search(op, inputs, outputs, **(attributes | {"model_type": 1} | options))


KINDS = [
    {},
    {"hidden": True},
    {"all_texts": True},
    {"apart": True},
    {"apart": True, "all_texts": True},
]


FEATURES = np.random.default_rng(0).normal(size=(2, 6, 10)).astype(np.float32)


BEGIN = np.array([[3, 4, 5], [3, 6, 5]], np.int32)


def speech_inputs(row: int | None = None, **given: Any) -> dict:
    inputs = beam_inputs(input_ids=FEATURES, decoder_input_ids=BEGIN)
    inputs |= dict.fromkeys(("cross_qk_layer_head", "extra_decoding_ids", "temperature"))
    return (inputs if row is None else row_of(inputs, row)) | given


def softmax(x: np.ndarray) -> np.ndarray:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
