"""Searches for texts whose models or inputs are wrong."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from bench.models import decoders as models
from bench.models.decoders import FLOAT, INT, Sizes
from tests.python.generation import (
    EVEN,
    THIRDS,
    beam_inputs,
    beam_model,
    by_sardonyx,
    encoded_model,
    greedy_inputs,
    greedy_model,
    number,
    prompts,
)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"max_length": number(5)}, {}, "max_length is 5, must be more than the 5 tokens"),
        ({"max_length": None}, {}, "max_length"),
        ({"max_length": np.array([6, 7], np.int32)}, {}, "max_length must be one number"),
        ({"input_ids": prompts()[0]}, {}, "input_ids has rank 1, expected 2"),
        ({"vocab_mask": EVEN[:7]}, {}, "vocab_mask has 7 elements along axis 0, expected 23"),
        ({"vocab_mask": THIRDS}, {}, "vocab_mask has rank 2, expected 1"),
        ({"prefix_vocab_mask": THIRDS[:2]}, {}, "prefix_vocab_mask has 2 .* axis 0, expected 3"),
        ({"attention_mask": THIRDS}, {}, "attention_mask has 23 .* axis 1, input_ids has 5"),
        ({"repetition_penalty": number(0, np.float32)}, {}, "penalty is 0, must be positive"),
        ({}, {"model_type": 1}, "model_type is 1"),
        ({}, {"pad_token_id": 1 << 31}, "pad_token_id is 2147483648, which is no int32"),
        ({}, {"eos_token_id": -(1 << 40)}, "eos_token_id is -1099511627776, which is no int32"),
        ({}, {"vocab_size": 24}, "vocab_size is 24, but logits are of 23 tokens"),
        ({}, {"no_repeat_ngram_size": 1 << 40}, "no_repeat_ngram_size is 1099511627776"),
    ],
)
@pytest.mark.parametrize("op", ["GreedySearch", "Sampling"])
def test_wrong_searches(op, given, options, message):
    inputs = greedy_inputs() | given
    constants = tuple(name for name in ("max_length", "repetition_penalty") if name in given)
    constants = tuple(name for name in constants if given[name] is not None)
    model = greedy_model(inputs, op, constants=constants, **options)
    with pytest.raises(sardonyx.Error, match=message) as caught:
        by_sardonyx(model, inputs)
    assert "search" in str(caught.value)


def test_negative_top_p():
    with pytest.raises(sardonyx.Error, match=r"top_p is -0\.5"):
        sardonyx.load(greedy_model(greedy_inputs(), "Sampling", top_p=-0.5))


def renamed(graph, position: int, name: str):
    for node in graph.node:
        for i, found in enumerate(node.input):
            if found == graph.input[position].name:
                node.input[i] = name
    graph.input[position].name = name
    return graph


def test_wrong_decoders():
    def refused(decoder, message, **options):
        model = greedy_model(greedy_inputs(), decoder=decoder, **options)
        with pytest.raises(sardonyx.Error, match=message):
            sardonyx.load(model)

    refused(renamed(models.gpt(), 1, "places"), "input 1 of the decoder is 'places', expected")
    without = models.gpt()
    del without.output[-1]
    refused(without, "6 inputs|5 inputs and 2 outputs")
    more = models.gpt()
    more.output.append(models.info("logits", FLOAT, None))
    refused(more, "5 inputs and 4 outputs, expected two inputs more")
    flat = models.gpt()
    flat.input[3].type.tensor_type.shape.dim[2].dim_param = "heads"
    refused(flat, "input 3 of the decoder must declare a shape")
    few = models.gpt()
    del few.input[2:]
    refused(few, "undefined")
    other = models.gpt(Sizes(layers=1))
    refused(models.gpt(), "init_decoder takes 4 inputs, the decoder 5", init_decoder=other)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"num_beams": number(0)}, {}, "num_beams is 0, must be positive"),
        ({"num_return_sequences": number(4)}, {}, "num_return_sequences is 4, more than the 3"),
        ({"max_length": number(5)}, {}, "max_length is 5, must be more than the 5 tokens"),
        ({"input_ids": prompts()[0]}, {}, "input_ids has rank 1, expected 2"),
        ({}, {"model_type": 3}, "model_type is 3"),
        ({}, {"model_type": 1}, "encoder is missing|decoder_start_token_id is -1"),
    ],
)
def test_wrong_beams(given, options, message):
    inputs = beam_inputs(**given)
    constants = ("max_length", "num_beams", "num_return_sequences")
    model = beam_model(inputs, constants=constants, **options)
    with pytest.raises(sardonyx.Error, match=message):
        by_sardonyx(model, inputs)


def test_wrong_encoders():
    def refused(message, **changes):
        bodies = models.encoder_decoder() | changes
        with pytest.raises(sardonyx.Error, match=message):
            sardonyx.load(encoded_model(beam_inputs(), **bodies))

    apart = models.encoder_decoder(apart=True)
    hidden = models.encoder_decoder(hidden=True)
    refused("does not give", encoder=apart["encoder"], decoder=hidden["decoder"])
    speech = models.encoder_decoder(speech=True)
    refused("input 1 of the encoder is 'decoder_input_ids', expected", **speech)
    few = models.encoder_decoder(Sizes(layers=1))
    refused("the encoder has 3 inputs and 10 outputs, expected 3 and 6", decoder=few["decoder"])
    refused("the encoder has 3 inputs and 6 outputs, expected 3 and 10", encoder=few["encoder"])
    refused("decoder_start_token_id is -1", decoder_start_token_id=-1)
    refused("decoder_start_token_id is 2147483648", decoder_start_token_id=1 << 31)
    odd = models.encoder_decoder()["decoder"]
    del odd.output[-1]
    refused("the decoder has 4 outputs, expected logits", decoder=odd)
    shared = models.encoder_decoder()["decoder"]
    shared.input.append(models.info("past_sequence_length", INT, [1]))
    refused("share are not supported", decoder=shared)


@pytest.mark.parametrize("build", [greedy_model, beam_model])
def test_length_that_a_run_finds_too_short(build):
    inputs = greedy_inputs(max_length=3) if build is greedy_model else beam_inputs()
    inputs["max_length"] = number(3)
    with pytest.raises(sardonyx.Error, match=r"search.*-2"):
        by_sardonyx(build(inputs), inputs)
