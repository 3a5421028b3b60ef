"""Searches for texts: token by token as ONNX Runtime finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from bench.models import decoders as models
from bench.models.decoders import FLOAT, INT, PADDING
from tests.python.generation import (
    EVEN,
    SIZES,
    THIRDS,
    by_onnx_runtime,
    by_sardonyx,
    greedy_inputs,
    greedy_model,
    number,
    prompts,
    softmax,
)


def check_greedy(inputs: dict, op: str = "GreedySearch", **options: Any) -> np.ndarray:
    model = greedy_model(inputs, op, **options)
    [expected] = by_onnx_runtime(model, inputs)
    [found] = by_sardonyx(model, inputs)
    assert found.shape == expected.shape
    # It leaves memory as it was behind the token with which the last text ends.
    begin = inputs["input_ids"].shape[1]
    padded = expected[:, begin:] == PADDING
    ends = begin + 1 + np.max(np.argmax(padded, axis=1)) if np.all(padded.any(axis=1)) else None
    np.testing.assert_array_equal(found[:, :ends], expected[:, :ends])
    if ends is not None:
        np.testing.assert_array_equal(found[:, ends:], PADDING)
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_greedy(rows, seed):
    check_greedy(greedy_inputs(prompts(rows, seed=seed)), decoder=models.gpt(SIZES, seed))


@pytest.mark.parametrize(
    "given",
    [
        {"min_length": number(10)},
        {"min_length": number(40)},
        {"repetition_penalty": number(1.3, np.float32)},
        {"repetition_penalty": number(0.5, np.float32)},
        {"repetition_penalty": number(1, np.float32)},
        {"vocab_mask": EVEN},
        {"prefix_vocab_mask": THIRDS},
        {"attention_mask": np.array([[0, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1] * 5], np.int32)},
        {"min_length": number(9), "vocab_mask": EVEN, "repetition_penalty": number(2, np.float32)},
    ],
    ids=lambda given: "+".join(given),
)
@pytest.mark.parametrize("constant", [False, True], ids=["given", "constant"])
@pytest.mark.parametrize("sizes", [False, True], ids=["names", "sizes"])
def test_greedy_with(given, constant, sizes):
    constants = ("max_length", *given) if constant else ()
    for seed in range(4):
        decoder = models.gpt(SIZES, seed)
        check_greedy(greedy_inputs(**given), decoder=decoder, constants=constants, sizes=sizes)


@pytest.mark.parametrize("size", [-1, 1, 2, 3, 5, 6, 30])
def test_no_ngram_twice(size):
    for length in (1, 5):
        for seed in range(3):
            check_greedy(
                greedy_inputs(prompts(2, length)),
                decoder=models.gpt(SIZES, seed),
                no_repeat_ngram_size=size,
            )


def test_another_decoder_for_the_prompt():
    first = models.gpt(SIZES, seed=8)
    for max_length in (6, 7, 20):
        check_greedy(greedy_inputs(max_length=max_length), init_decoder=first)
    without = by_sardonyx(greedy_model(greedy_inputs()), greedy_inputs())
    assert not np.array_equal(check_greedy(greedy_inputs(), init_decoder=first), without[0])
    check_greedy(greedy_inputs(prefix_vocab_mask=THIRDS), init_decoder=first)


def test_a_text_of_one_token_more():
    check_greedy(greedy_inputs(max_length=6))


def test_greedy_of_the_first_tokens():
    """Logits may have more columns than there are tokens: ONNX Runtime takes them as shorter."""
    mask = (np.arange(SIZES.vocab) < 20).astype(np.int32)
    inputs = greedy_inputs(vocab_mask=mask)
    expected = by_onnx_runtime(greedy_model(inputs), inputs)[0]
    inputs = greedy_inputs()
    found = by_sardonyx(greedy_model(inputs, vocab_size=20), inputs)[0]
    ends = np.max(np.argmax(expected[:, 5:] == PADDING, axis=1)) + 6
    np.testing.assert_array_equal(found[:, :ends], expected[:, :ends])


def test_greedy_of_halves():
    """Which ONNX Runtime refuses."""
    inputs = greedy_inputs()
    halves = models.gpt(SIZES, dtype=TensorProto.FLOAT16)
    found = by_sardonyx(greedy_model(inputs, decoder=halves), inputs)[0]
    np.testing.assert_array_equal(found, check_greedy(inputs))


def test_a_decoder_that_uses_values_around_it():
    inputs = greedy_inputs()
    model = greedy_model(inputs)
    decoder = model.graph.node[0].attribute[0].g
    [moved] = [x for x in decoder.initializer if x.dims == [SIZES.hidden, SIZES.vocab]]
    decoder.initializer.remove(moved)
    model.graph.initializer.append(moved)
    [expected] = by_onnx_runtime(model, inputs)
    [found] = by_sardonyx(model, inputs)
    width = 5 + 1 + np.max(np.argmax(found[:, 5:] == PADDING, axis=1))
    np.testing.assert_array_equal(found[:, :width], expected[:, :width])
    # A value that is computed around it.
    model.graph.initializer.remove(moved)
    moved.name, name = "weight", moved.name
    model.graph.initializer.append(moved)
    ids = models.helper.make_node("Cast", ["input_ids"], ["ids"], to=FLOAT)
    zero = models.helper.make_node("Sub", ["ids", "ids"], ["zeros"])
    none = models.helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0)
    add = models.helper.make_node("Add", ["weight", "zero"], [name])
    nodes = [ids, zero, none, add, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    np.testing.assert_array_equal(by_sardonyx(model, inputs)[0], found)


def check_sampling(given: dict, **options: Any) -> np.ndarray:
    inputs = greedy_inputs(**({"seed": number(1)} | given))
    return check_greedy(inputs, "Sampling", **({"top_p": 1e-6} | options))


@pytest.mark.parametrize("custom", [0, 1])
def test_sampling_of_the_most_likely(custom):
    """Where nothing else is left to draw."""
    for seed in range(4):
        decoder = models.gpt(SIZES, seed)
        check_sampling({}, custom=custom, decoder=decoder)
        check_sampling({}, custom=custom, decoder=decoder, temperature=3.0)
        check_sampling({}, custom=custom, decoder=decoder, min_tokens_to_keep=1)
        check_sampling({}, custom=custom, decoder=decoder, filter_value=-1e4)
        check_sampling({}, custom=custom, decoder=decoder, no_repeat_ngram_size=2)
        check_sampling({}, custom=custom, init_decoder=decoder)
        check_sampling({"vocab_mask": EVEN}, custom=custom, decoder=decoder)
        check_sampling({"prefix_vocab_mask": THIRDS}, custom=custom, decoder=decoder)
        check_sampling({"min_length": number(9)}, custom=custom, decoder=decoder)
    likely = greedy_inputs(seed=None)
    model = greedy_model(likely, "Sampling", top_p=1.0, temperature=1e-4)
    [found] = by_sardonyx(model, likely)
    np.testing.assert_array_equal(found, check_greedy(greedy_inputs()))


def logits_after(ids: np.ndarray) -> np.ndarray:
    """What the decoder finds for texts as a whole, in double."""
    decoder = models.helper.make_model(
        models.gpt(SIZES), opset_imports=[models.helper.make_opsetid("", 18)], ir_version=10
    )
    is_word = (ids != PADDING).astype(np.int32)
    inputs = {
        "input_ids": ids,
        "position_ids": (is_word.cumsum(1) - is_word).astype(np.int32) * is_word,
        "attention_mask": is_word,
    }
    past = np.zeros((2, len(ids), SIZES.heads, 0, SIZES.head), np.float32)
    inputs |= {f"past_{layer}": past for layer in range(SIZES.layers)}
    return by_onnx_runtime(decoder, inputs)[0][:, -1].astype(np.float64)


def filtered(scores: np.ndarray, top_p: float, custom: int, keep: int = 0) -> np.ndarray:
    """Row by row what the standard's text says of top_p."""
    scores = scores.copy()
    for row in scores:
        order = np.argsort(row)
        sums = np.cumsum(softmax(row)[order])
        unlikely = (sums <= 1 - top_p) & (np.arange(len(row)) < len(row) - keep)
        if custom:
            order = order[::-1]
            sums = np.cumsum(softmax(row)[order])
            unlikely = np.concatenate([[False], sums[:-1] > top_p])
        row[order[unlikely]] = -1e20
    return scores


@pytest.mark.parametrize("custom", [0, 1])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9])
def test_filtered_logits(top_p, custom):
    """Of the last token, which ONNX Runtime does not give."""
    outputs = [("sequences", INT, None), ("filtered_logits", FLOAT, None)]
    presence = np.tile(EVEN, (3, 1))
    for given, options in (
        ({}, {}),
        ({}, {"min_tokens_to_keep": 4}),
        ({"presence_mask": presence}, {"presence_penalty": 0.75, "temperature": 0.5}),
    ):
        inputs = greedy_inputs(max_length=8, seed=number(3), **given)
        attributes = {"decoder": models.gpt(SIZES), "eos_token_id": 50, "pad_token_id": PADDING}
        attributes |= {"top_p": top_p, "custom": custom} | options
        model = models.search("Sampling", inputs, outputs, **attributes)
        texts, found = by_sardonyx(model, inputs)
        scores = logits_after(texts[:, :-1]) / options.get("temperature", 1)
        scores -= options.get("presence_penalty", 0) * presence
        expected = filtered(scores, top_p, custom, options.get("min_tokens_to_keep", 0))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        drawn = np.take_along_axis(found, texts[:, -1:], axis=1)
        assert np.all(drawn > -1e20)


@pytest.mark.parametrize("seed", [None, number(5)], ids=["no seed", "seed"])
def test_draws_are_as_likely_as_tokens(seed):
    ids = np.repeat(prompts(1), 4000, axis=0)
    inputs = greedy_inputs(ids, max_length=6, seed=seed)
    [found] = by_sardonyx(greedy_model(inputs, "Sampling", top_p=1.0, eos_token_id=50), inputs)
    counts = np.bincount(found[:, -1], minlength=SIZES.vocab)
    expected = softmax(logits_after(ids[:1]))[0] * len(ids)
    deviation = (counts - expected) / np.sqrt(expected + 1)
    assert np.max(np.abs(deviation)) < 5


def test_seeds():
    def draw(seed):
        inputs = greedy_inputs(max_length=30, seed=seed)
        model = greedy_model(inputs, "Sampling", top_p=1.0, temperature=2.0)
        return by_sardonyx(model, inputs)[0].tobytes()

    assert draw(number(1)) == draw(number(1))
    assert len({draw(number(seed)) for seed in range(-2, 5)}) == 7
    assert len({draw(None) for _ in range(5)}) == 5
