"""Searches for texts in beams: token by token as ONNX Runtime finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sardonyx
from bench.models import decoders as models
from bench.models.decoders import FLOAT
from tests.python.generation import (
    BEAM_OUTPUTS,
    BEGIN,
    EVEN,
    FEATURES,
    KINDS,
    SIZES,
    THIRDS,
    beam_inputs,
    beam_model,
    by_onnx_runtime,
    by_sardonyx,
    encoded_model,
    number,
    row_of,
    softmax,
    speech_inputs,
)


def check_beams(inputs: dict, build: Any = beam_model, **options: Any) -> list:
    """Each prompt by itself: of several, ONNX Runtime compares the scores of others with theirs to
    find out whether one is done."""
    texts, scores, steps = found = by_sardonyx(build(inputs, **options), inputs)
    for row in range(len(texts)):
        alone = row_of(inputs, row)
        expected = by_onnx_runtime(build(alone, **options), alone)
        np.testing.assert_array_equal(texts[row : row + 1], expected[0])
        np.testing.assert_allclose(scores[row : row + 1], expected[1], rtol=1e-4)
        assert steps[:, row : row + 1].shape == expected[2].shape
        # Scores of what is impossible sum up to numbers of few digits.
        [mine] = by_sardonyx(build(alone, **options), alone)[2:]
        count = made_steps(mine)
        np.testing.assert_allclose(mine[:count], expected[2][:count], rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(mine[count:], 0)
        np.testing.assert_allclose(steps[:count, row], mine[:count, 0], rtol=1e-4, atol=1e-3)
    return found


def made_steps(scores: np.ndarray) -> int:
    """How many steps there were before all texts had ended."""
    return int(np.sum(np.any(scores, axis=(1, 2, 3))))


@pytest.mark.parametrize("beams", [1, 2, 3, 4])
@pytest.mark.parametrize("early", [0, 1])
def test_beams(beams, early):
    for seed in range(5):
        for returned in {1, beams}:
            decoder = models.gpt(SIZES, seed)
            check_beams(beam_inputs(beams, returned), decoder=decoder, early_stopping=early)


@pytest.mark.parametrize(
    "given",
    [
        {"min_length": number(9)},
        {"length_penalty": number(2, np.float32)},
        {"length_penalty": number(0, np.float32)},
        {"length_penalty": number(-0.5, np.float32)},
        {"repetition_penalty": number(1.4, np.float32)},
        {"vocab_mask": EVEN},
        {"prefix_vocab_mask": THIRDS},
        {"attention_mask": np.array([[0, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1] * 5], np.int32)},
        {"max_length": number(6)},
        {"max_length": number(40)},
    ],
    ids=lambda given: "+".join(given),
)
@pytest.mark.parametrize("constant", [False, True], ids=["given", "constant"])
@pytest.mark.parametrize("sizes", [False, True], ids=["names", "sizes"])
def test_beams_with(given, constant, sizes):
    inputs = beam_inputs(**given)
    scalars = ("max_length", "num_beams", "num_return_sequences", "length_penalty")
    constants = tuple({*scalars, *given}) if constant else ()
    for seed in range(2):
        check_beams(inputs, decoder=models.gpt(SIZES, seed), constants=constants, sizes=sizes)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_twice_in_a_beam(size):
    for seed in range(3):
        check_beams(beam_inputs(), decoder=models.gpt(SIZES, seed), no_repeat_ngram_size=size)


def test_fewer_outputs_and_inputs():
    inputs = beam_inputs()
    texts, scores, _ = check_beams(inputs)
    for outputs in (1, 2):
        found = by_sardonyx(beam_model(inputs, outputs), inputs)
        for actual, expected in zip(found, (texts, scores), strict=False):
            np.testing.assert_array_equal(actual, expected)
    less = inputs | {"min_length": None, "length_penalty": None}
    np.testing.assert_array_equal(by_sardonyx(beam_model(less, 1), less)[0], texts)


def test_beams_with_another_decoder_for_the_prompt():
    for beams in (1, 3):
        check_beams(beam_inputs(beams, 1), init_decoder=models.gpt(SIZES, seed=8))
    check_beams(beam_inputs(max_length=number(6)), init_decoder=models.gpt(SIZES, seed=8))


def check_encoded(inputs: dict, op: str = "BeamSearch", **options: Any) -> list:
    return check_beams(inputs, encoded_model, op=op, **options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "+".join(kind))
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_encoder_and_decoder(beams, kind):
    for seed in (1, 2, 3):
        for returned in {1, beams}:
            bodies = models.encoder_decoder(SIZES, seed, **kind)
            found = check_encoded(beam_inputs(beams, returned), **bodies)
            plain = models.encoder_decoder(SIZES, seed)
            inputs = beam_inputs(beams, returned)
            again = by_sardonyx(encoded_model(inputs, **plain), inputs)
            np.testing.assert_array_equal(again[0], found[0])


@pytest.mark.parametrize(
    "given",
    [
        {"min_length": number(7)},
        {"length_penalty": number(2, np.float32)},
        {"repetition_penalty": number(1.4, np.float32)},
        {"vocab_mask": EVEN},
        {"prefix_vocab_mask": THIRDS},
        {"attention_mask": np.array([[0, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1] * 5], np.int32)},
        {"max_length": number(3)},
    ],
    ids=lambda given: "+".join(given),
)
@pytest.mark.parametrize("sizes", [False, True], ids=["names", "sizes"])
def test_encoder_and_decoder_with(given, sizes):
    for kind in KINDS[::3]:
        bodies = models.encoder_decoder(SIZES, seed=1, **kind)
        check_encoded(beam_inputs(**given), sizes=sizes, **bodies)


def test_encoder_and_decoder_of_one_token():
    """For which ONNX Runtime calls a decoder without inputs."""
    longer, shorter = beam_inputs(1, 1), beam_inputs(1, 1, max_length=number(2))
    bodies = models.encoder_decoder(SIZES)
    expected = by_sardonyx(encoded_model(longer, **bodies), longer)[0]
    found = by_sardonyx(encoded_model(shorter, **bodies), shorter)[0]
    np.testing.assert_array_equal(found, expected[:, :, :2])


@pytest.mark.parametrize("op", ["BeamSearch", "WhisperBeamSearch"])
@pytest.mark.parametrize("kind", KINDS[:3], ids=lambda kind: "+".join(kind))
def test_speech(op, kind):
    for seed in range(3):
        bodies = models.encoder_decoder(SIZES, seed, speech=True, **kind) | {"model_type": 2}
        check_encoded(beam_inputs(input_ids=FEATURES), op, **bodies)
        begun = beam_inputs(input_ids=FEATURES, decoder_input_ids=BEGIN)
        check_encoded(begun, op, **bodies)
        check_encoded(begun | {"repetition_penalty": number(1.5, np.float32)}, op, **bodies)
        check_encoded(begun, op, no_repeat_ngram_size=2, **bodies)
        check_encoded(begun | {"logits_processor": number(0)}, op, **bodies)


def test_temperature():
    for value in (0.5, 1.0, 3.0):
        inputs = speech_inputs(temperature=number(value, np.float32))
        bodies = models.encoder_decoder(SIZES, speech=True)
        check_encoded(inputs, "WhisperBeamSearch", model_type=2, **bodies)


@pytest.mark.parametrize("first", [12, 16, 20])
@pytest.mark.parametrize("constant", [False, True], ids=["given", "constant"])
def test_timestamps(first, constant):
    options = {
        "beginning_timestamp_token_id": first,
        "no_timestamps_token_id": first - 1,
        "start_of_lm_token_id": first - 2,
        "translate_token_id": 5,
        "transcribe_token_id": 6,
        "constants": ("logits_processor",) if constant else (),
    }
    for seed in range(3):
        bodies = models.encoder_decoder(SIZES, seed, speech=True) | {"model_type": 2}
        for row, begin in ((0, None), (1, BEGIN[1:])):
            for asked in (0, 1, 2):
                inputs = speech_inputs(row, decoder_input_ids=begin, logits_processor=number(asked))
                for end in (2, first - 5):
                    model = encoded_model(
                        inputs, "WhisperBeamSearch", eos_token_id=end, **options, **bodies
                    )
                    expected, found = by_onnx_runtime(model, inputs), by_sardonyx(model, inputs)
                    np.testing.assert_array_equal(found[0], expected[0])
                    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)


def test_no_speech():
    """Of which ONNX Runtime says nothing on a processor."""
    inputs = speech_inputs()
    bodies = models.encoder_decoder(SIZES, speech=True)
    outputs = [BEAM_OUTPUTS[0], ("non_speech_probs", FLOAT, None)]
    options = {"model_type": 2, "no_speech_token_id": 7}
    model = encoded_model(inputs, "WhisperBeamSearch", outputs, **options, **bodies)
    model.graph.node[0].output[:] = ["sequences", "", "", "", "non_speech_probs"]
    _, found = by_sardonyx(model, inputs)
    opsets = [models.helper.make_opsetid("", 18)]
    encoder = models.helper.make_model(bodies["encoder"], opset_imports=opsets, ir_version=10)
    read = {"encoder_input_ids": FEATURES, "decoder_input_ids": BEGIN}
    logits = by_onnx_runtime(encoder, read)[0][:, -1].astype(np.float64)
    np.testing.assert_allclose(found, softmax(logits)[:, 7], rtol=1e-5)


def test_wrong_speech():
    def refused(message, outputs=None, **options):
        inputs = speech_inputs(logits_processor=number(1))
        bodies = models.encoder_decoder(SIZES, speech=True) | {"model_type": 2}
        constants = ("logits_processor",)
        model = encoded_model(
            inputs, "WhisperBeamSearch", outputs, constants=constants, **(bodies | options)
        )
        with pytest.raises(sardonyx.Error, match=message):
            sardonyx.load(model)

    refused("beginning_timestamp_token_id is -1, must be positive")
    refused("model_type is 1, must be 2", model_type=1)
    refused("cross_qk is not supported", decoder_output_cross_qk=1)
    names = [*BEAM_OUTPUTS, ("cross_qk", FLOAT, None), ("non_speech_probs", FLOAT, None)]
    refused("cross_qk is not supported", names)
