"""Contributed attention operators: what schemas cannot say, and buffers that hold anything."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from tests.python.one_node import one_node

TOKEN = np.zeros((4, 1, 16), np.float32)
CACHE = np.zeros((4, 2, 6, 8), np.float32)
FILLED, WIDTH = np.array([3], np.int32), np.array([2], np.int32)
BEAMS = np.zeros((2, 2, 6), np.int32)
BYTES, WEIGHTS = np.zeros((2, 3, 8), np.uint8), np.zeros((8, 48), np.int8)
BIAS, ONE = np.zeros(48, np.float32), np.ones((), np.float32)
HEADS = {"num_heads": 2}
SHARED = HEADS | {"past_present_share_buffer": 1}
GROUPS = HEADS | {"kv_num_heads": 1, "sparse_block_size": 4}
PACKED = np.zeros((4, 1, 32), np.float32)
ROWS, COLUMNS = np.array([[0, 1, 2]], np.int32), np.array([[0, 1]], np.int32)
TOTAL, LENGTHS = np.array([4], np.int32), np.full(4, 4, np.int32)
BLOCKS = [CACHE[:, :1], CACHE[:, :1], ROWS, COLUMNS, TOTAL, LENGTHS]
IDS, TABLE = np.zeros((2, 3), np.int32), np.zeros((5, 8), np.uint8)
ROW, ZERO = np.zeros(8, np.uint8), np.zeros((), np.uint8)
WORDS, LETTERS = np.ones((3, 4), np.int32), np.zeros((9, 5), np.float32)
TAPS, FILTERS = np.zeros((6, 1, 3, 5), np.float32), np.zeros(6, np.float32)
X, GATES, STATE = (np.zeros(s, np.float32) for s in ((3, 2, 4), (1, 20, 7), (1, 20, 5)))
MEMORY = [np.zeros(s, np.float32) for s in ((1, 5, 2), (1, 3, 2), (1, 2), (2, 6, 3))]
CELL: list[Any] = [X, GATES, STATE, *[None] * 5, *MEMORY]
SIZE = {"hidden_size": 5}


def model(op: str, inputs: list[Any], attributes: dict[str, Any], *, named: bool = False):
    count = {"AttnLSTM": 3, "WordConvEmbedding": 1}.get(op, 2 if op.startswith("Q") else 3)
    if op == "QAttention" and len(inputs) < 9:
        count = 1
    return one_node(op, inputs, attributes, outputs=count, named=named)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("QAttention", [BYTES, WEIGHTS, BIAS, ONE, ONE], SHARED, "how much of it is filled"),
        ("QAttention", [BYTES, WEIGHTS, BIAS, ONE, ONE], HEADS | {"do_rotary": 1}, "do_rotary"),
        ("QAttention", [BYTES[0], WEIGHTS, BIAS, ONE, ONE], HEADS, "ranks 2 and 2, not 3 and 2"),
        ("QAttention", [BYTES, WEIGHTS, BIAS, ONE, BIAS[:5]], HEADS, "weight_scale has rank 1 and"),
        ("QAttention", [BYTES, WEIGHTS, BIAS, BIAS, ONE], HEADS, "input_scale has rank 1 and 48"),
        ("QAttention", [BYTES, WEIGHTS, BIAS, ONE, ONE], {"num_heads": 3}, "3 heads cannot|16"),
        (
            "QEmbedLayerNormalization",
            [IDS, IDS, TABLE, TABLE, None, ROW, ROW, None, *[ONE] * 5, *[ZERO] * 5],
            {},
            "come together",
        ),
        (
            "QEmbedLayerNormalization",
            [IDS, None, TABLE, TABLE, None, ROW, ROW, None, BIAS, *[ONE] * 4, *[ZERO] * 5],
            {},
            "a scale or zero point of input 2 has rank 1 and not one element|cannot broadcast",
        ),
        (
            "QEmbedLayerNormalization",
            [IDS, IDS, *[TABLE] * 3, ROW, ROW, None, ONE, ONE, None, ONE, ONE, *[ZERO] * 5],
            {},
            "input 4 has no scale",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            [np.zeros((4, 2, 16), np.float32)] * 3,
            HEADS,
            "query has 2 tokens, not 1",
        ),
        ("DecoderMaskedMultiHeadAttention", [TOKEN[0]] * 3, HEADS, "query has rank 2, not 3"),
        (
            "DecoderMaskedMultiHeadAttention",
            [*[TOKEN] * 3, None, None, CACHE, CACHE],
            SHARED,
            "needs the input past_sequence_length",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            [TOKEN, None, None, None, None, CACHE, CACHE, FILLED],
            SHARED | {"num_heads": 3},
            "a packed query of 16 features is not of 3 heads",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            [TOKEN, None, None, None, None, CACHE, CACHE, FILLED],
            SHARED | {"num_heads": 2**62},
            "num_heads is 4611686018427387904, more than",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            [*[TOKEN] * 3, None, None, CACHE, CACHE, FILLED, WIDTH, BEAMS[:1]],
            SHARED,
            "for 1 groups of 2 beams, but there are 4 sequences|reshape",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            [*[TOKEN] * 3, None, None, CACHE, CACHE, FILLED, WIDTH, BEAMS[0]],
            SHARED,
            "cache_indirection has rank 2, not 3",
        ),
        (
            "MultiHeadAttention",
            [*[TOKEN] * 3, *[None] * 6, BEAMS],
            HEADS,
            "cache_indirection needs past_key and past_value",
        ),
        ("SparseAttention", [PACKED, PACKED, None, *BLOCKS], GROUPS, "key and value come together"),
        ("SparseAttention", [PACKED[0], None, None, *BLOCKS], GROUPS, "query has rank 2, not 3"),
        (
            "SparseAttention",
            [PACKED, None, None, *BLOCKS],
            GROUPS | {"sparse_block_size": 0},
            "sparse_block_size is 0",
        ),
        (
            "SparseAttention",
            [PACKED, None, None, *BLOCKS],
            GROUPS | {"do_rotary": 1},
            "needs cos_cache and sin_cache",
        ),
        (
            "SparseAttention",
            [PACKED, None, None, *BLOCKS[:2], ROWS.repeat(3, 0), COLUMNS, TOTAL, LENGTHS],
            GROUPS,
            "3 and 1 layouts",
        ),
        (
            "SparseAttention",
            [
                PACKED,
                None,
                None,
                *BLOCKS[:2],
                ROWS.repeat(3, 0),
                COLUMNS.repeat(3, 0),
                TOTAL,
                LENGTHS,
            ],
            GROUPS,
            "2 heads cannot share 3 layouts",
        ),
        (
            "SparseAttention",
            [PACKED, None, None, *BLOCKS[:2], ROWS[:, :1], COLUMNS, TOTAL, LENGTHS],
            GROUPS,
            "6 rows and 1 block_row_indices hold no block",
        ),
        (
            "SparseAttention",
            [PACKED, None, None, *BLOCKS],
            GROUPS | {"kv_num_heads": 2**62},
            "kv_num_heads is 4611686018427387904, more than",
        ),
        ("WordConvEmbedding", [WORDS, TAPS[:, :, :0], FILTERS, LETTERS], {}, "a window of 0"),
        ("WordConvEmbedding", [WORDS[0], TAPS, FILTERS, LETTERS], {}, "ranks 1, 4 and 2"),
        (
            "WordConvEmbedding",
            [WORDS, TAPS.repeat(2, 1), FILTERS, LETTERS],
            {},
            "W has 2 channels, not 1",
        ),
        (
            "WordConvEmbedding",
            [WORDS, TAPS, FILTERS, LETTERS],
            {"embedding_size": 7},
            "embedding_size is 7, but the weights have 6",
        ),
        ("AttnLSTM", CELL[:8], SIZE, "the input QW is missing"),
        ("AttnLSTM", CELL, SIZE | {"direction": "both"}, "direction 'both' is none of"),
        (
            "AttnLSTM",
            CELL,
            SIZE | {"direction": "bidirectional"},
            "input W is .1,20,7., expected .2,20,7",
        ),
        (
            "AttnLSTM",
            [X, GATES[:, :, :6], *CELL[2:]],
            SIZE,
            "input W is .1,20,6., expected .1,20,7",
        ),
        ("AttnLSTM", [*CELL[:11], MEMORY[3][:1]], SIZE, "input M is .1,6,3., expected .2,"),
        ("AttnLSTM", [X[0], *CELL[1:]], SIZE, "input X is .2,4., expected"),
        ("AttnLSTM", CELL, {"hidden_size": 4}, "hidden_size is 4, but R has 5 columns"),
        ("AttnLSTM", CELL, SIZE | {"activations": ["Tanh"]}, "1 activations are given, 3"),
        ("AttnLSTM", CELL, SIZE | {"activations": ["Tanh"] * 2 + ["no"]}, "no activation 'no'"),
    ],
)
def test_wrong_attention(op, inputs, attributes, message, named):
    with pytest.raises(sardonyx.Error, match=message):
        built, values = model(op, inputs, attributes, named=named)
        sardonyx.load(built).run(values)


def test_a_bias_of_another_size_than_what_is_held():
    bias = np.zeros((1, 2, 1, 5), np.float32)
    inputs = [*[TOKEN] * 3, None, bias, CACHE, CACHE, FILLED]
    built, values = model("DecoderMaskedMultiHeadAttention", inputs, SHARED)
    built.graph.initializer.append(numpy_helper.from_array(values.pop("x7"), "x7"))
    kept = [info for info in built.graph.input if info.name != "x7"]
    del built.graph.input[:]
    built.graph.input.extend(kept)
    with pytest.raises(sardonyx.Error, match="a mask or bias of 5 keys, but there are 4"):
        sardonyx.load(built).run(values)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_a_buffer_is_a_past_with_room(op, masked):
    rng = np.random.default_rng(5)
    batch, heads, tokens, held, room, size = 2, 2, 3, 4, 9, 8
    floats = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)  # noqa: E731
    cache = floats(2, batch, heads, room, size)
    past = np.ascontiguousarray(cache[:, :, :, :held])
    filled = np.array([held], np.int32)
    total = held + tokens
    mask = np.array(rng.integers(0, 2, (batch, total)), np.int32) if masked else None
    bias = floats(1, heads, tokens, total) if masked else None
    attributes = {"num_heads": heads, "unidirectional": 1}
    if op == "Attention":
        head = [floats(batch, tokens, 5), floats(5, 48), floats(48), mask]
        pair = [*head, past, bias], [*head, cache, bias, filled]
        shared = attributes | {"past_present_share_buffer": 1}
    else:
        head = [*(floats(batch, tokens, 16) for _ in range(3)), floats(48), mask, bias]
        pair = [*head, *past], [*head, *cache, filled]
        shared = attributes
    found = []
    for inputs, given in zip(pair, (attributes, shared), strict=True):
        built, values = model(op, inputs, given)
        if op == "Attention":
            del built.graph.node[0].output[2:]
        for name in built.graph.node[0].output[1:]:
            built.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        found.append([*sardonyx.load(built).run(values).values()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other[..., :total, :] if other.ndim > 3 else other, one, 1e-5)


@pytest.mark.parametrize("window", [-1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_cache_that_grows_by_tokens(dtype, window):
    rng = np.random.default_rng(6)
    length, given = 24, {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window}
    q, k, v = (rng.uniform(-1, 1, (1, length, w)).astype(dtype) for w in (32, 16, 16))
    past = [np.zeros((1, 2, 0, 8), dtype)] * 2

    def inputs(begin, end, past):
        tokens = [x[:, begin:end] for x in (q, k, v)]
        return [*tokens, *past, np.array([end - 1], np.int32), np.array(end, np.int32)]

    built, _ = one_node(
        "GroupQueryAttention", inputs(0, 1, past), given, outputs=3, named=True, dtype=dtype
    )
    for name in built.graph.node[0].output[1:]:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        built.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    session = sardonyx.load(built)
    named = [info.name for info in built.graph.input]
    whole = session.run(dict(zip(named, inputs(0, length, past), strict=True)))
    for step in range(length):
        found = session.run(dict(zip(named, inputs(step, step + 1, past), strict=True)))
        past = [found["y1"], found["y2"]]
        wanted = whole["y0"][:, step : step + 1]
        np.testing.assert_allclose(found["y0"], wanted, atol=1e-5 if dtype == np.float32 else 2e-3)
        for name in ("y1", "y2"):
            np.testing.assert_array_equal(found[name], whole[name][:, :, : step + 1])


@pytest.mark.parametrize("beams", [None, BEAMS])
@pytest.mark.parametrize("outputs", [3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_that_are_not_held_are_not_read(dtype, outputs, beams):
    cache = np.full((4, 2, 6, 8), np.nan, dtype)
    cache[:, :, :3] = 1
    token = TOKEN.astype(dtype)
    inputs = [*[token] * 3, None, None, cache, cache, FILLED, None, beams]
    built, values = model("DecoderMaskedMultiHeadAttention", inputs, SHARED)
    if outputs == 4:
        built.graph.node[0].output.append("scores")
        built.graph.output.append(helper.make_tensor_value_info("scores", 1, None))
    for info in built.graph.output:
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    found = sardonyx.load(built).run(values)
    np.testing.assert_allclose(found["y0"].astype(np.float32), 0.75, rtol=1e-3)
    if outputs == 4:
        assert found["scores"].shape == (4, 2, 1, 4)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize("lengths", [[4, 4, 4, 4], [4, 2, 1, 3]])
@pytest.mark.parametrize("smooth", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_that_are_not_held_are_not_read_by_groups(dtype, smooth, lengths, named):
    cache = np.full((4, 1, 6, 8), np.nan, dtype)
    for sequence, length in zip(cache, lengths, strict=True):
        sequence[:, : length - 1] = 1
    token = PACKED.astype(dtype)
    last = np.array(lengths, np.int32) - 1
    expected = (last / (last + 1 + smooth)).reshape(4, 1, 1)
    inputs = [token, None, None, cache, cache, last, TOTAL[0]]
    attributes = HEADS | {"kv_num_heads": 1, "smooth_softmax": smooth}
    built, values = model("GroupQueryAttention", inputs, attributes, named=named)
    for info in built.graph.output:
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    y = sardonyx.load(built).run(values)["y0"].astype(np.float32)
    np.testing.assert_allclose(y, np.broadcast_to(expected, y.shape), rtol=1e-3)


@pytest.mark.parametrize("lengths", [[4, 4, 4, 4], [4, 2, 1, 3]])
@pytest.mark.parametrize("size", [4, 2**62])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_beyond_the_last_are_not_read(dtype, size, lengths):
    cache = np.full((4, 1, 6, 8), np.nan, dtype)
    for sequence, length in zip(cache, lengths, strict=True):
        sequence[:, : length - 1] = 1
    ends = np.array(lengths, np.int32)
    expected = ((ends - 1) / ends).reshape(4, 1, 1)
    inputs = [PACKED.astype(dtype), None, None, cache, cache, *BLOCKS[2:5], ends]
    built, values = model("SparseAttention", inputs, GROUPS | {"sparse_block_size": size})
    built.graph.output[0].type.tensor_type.elem_type = built.graph.input[
        0
    ].type.tensor_type.elem_type
    y = sardonyx.load(built).run(values)["y0"].astype(np.float32)
    np.testing.assert_allclose(y, np.broadcast_to(expected, y.shape), rtol=1e-3)
