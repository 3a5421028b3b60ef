"""Properties of whole families: signals, images, sequences, strings, recurrence, control flow.

NumPy, torch or plain Python say what is right.
"""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import sardonyx
from tests.versions.one_node import OPSET, reference, run, same
from tests.versions.strategies import PROFILE, arrays, shapes

WORDS = st.text(st.sampled_from("abÄß犬 ,\t"), max_size=6)


def words(shape) -> st.SearchStrategy:
    return hnp.arrays(object, shape, elements=WORDS)


@PROFILE
@given(st.data())
def test_fourier_transforms_of_any_length(data):
    length = data.draw(st.integers(1, 70))
    batch = data.draw(st.integers(1, 3))
    parts = data.draw(st.sampled_from([1, 2]))
    inverse = data.draw(st.integers(0, 1)) if parts == 2 else 0
    onesided = data.draw(st.integers(0, 1)) if parts == 1 else 0
    rng = np.random.default_rng(length)
    x = rng.standard_normal((batch, length, parts))
    taken = data.draw(st.integers(1, 80))
    z = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
    if inverse:
        y = np.fft.ifft(z, taken, axis=1)
    else:
        y = np.fft.fft(z, taken, axis=1)
    if onesided:
        y = y[:, : taken // 2 + 1]
    right = np.stack([y.real, y.imag], -1)
    inputs = [x, np.array(taken), np.array(1)]
    attributes = {"inverse": inverse, "onesided": onesided}
    same(run("DFT", inputs, attributes), [right], rtol=1e-12, atol=1e-12)


@PROFILE
@given(st.data())
def test_grid_samples(data):
    import torch

    n, c = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    x = data.draw(
        arrays(st.just((n, c, *(data.draw(st.integers(2, 5)) for _ in range(2)))), special=False)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    grid = rng.uniform(-1.6, 1.6, (n, 3, 4, 2)).astype(np.float32)
    mode = data.draw(st.sampled_from(["linear", "nearest", "cubic"]))
    padding = data.draw(st.sampled_from(["zeros", "border", "reflection"]))
    corners = data.draw(st.integers(0, 1))
    right = torch.nn.functional.grid_sample(
        torch.from_numpy(x),
        torch.from_numpy(grid),
        {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode),
        padding,
        bool(corners),
    )
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    same(run("GridSample", [x, grid], attributes), [right.numpy()], rtol=1e-5, atol=1e-5)


@PROFILE
@given(st.data())
def test_columns_become_images(data):
    import torch

    kernel, strides, dilations, pads = (
        [data.draw(st.integers(low, high)) for _ in range(2)]
        for low, high in ((1, 3), (1, 2), (1, 2), (0, 1))
    )
    image = [
        data.draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), 8))
        for k, d, p in zip(kernel, dilations, pads, strict=True)
    ]
    blocks = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, d, p in zip(image, kernel, strides, dilations, pads, strict=True)
    ]
    shape = (2, 3 * kernel[0] * kernel[1], blocks[0] * blocks[1])
    x = np.random.default_rng(sum(image)).standard_normal(shape).astype(np.float32)
    right = torch.nn.functional.fold(torch.from_numpy(x), image, kernel, dilations, pads, strides)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads * 2}
    same(
        run("Col2Im", [x, np.array(image), np.array(kernel)], attributes),
        [right.numpy()],
        atol=1e-6,
    )


@PROFILE
@given(st.data())
def test_einstein_sums(data):
    sizes = {letter: data.draw(st.integers(0, 3)) for letter in "abcde"}
    terms = data.draw(st.lists(st.text("abcde", min_size=1, max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    kept = data.draw(st.lists(st.sampled_from(letters), unique=True, max_size=3))
    equation = ",".join(terms) + "->" + "".join(kept)
    rng = np.random.default_rng(len(equation))
    repeated = [set(data.draw(st.text("abcde", max_size=2))) for _ in terms]  # sizes of 1 broadcast
    inputs = [
        rng.standard_normal([1 if k in ones else sizes[k] for k in term]).astype(np.float32)
        for term, ones in zip(terms, repeated, strict=True)
    ]
    right = np.einsum(equation, *[x.astype(np.float64) for x in inputs])
    # That they do must be known beforehand, as it is of constants.
    constants = [i for i, ones in enumerate(repeated) if ones]
    same(
        run("Einsum", inputs, {"equation": equation}, constants=constants),
        [np.asarray(right, np.float32)],
        rtol=1e-6,
        atol=1e-6,
    )


@PROFILE
@given(st.data())
def test_strings_join(data):
    broadcast = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=3))
    a, b = (data.draw(words(s)) for s in broadcast.input_shapes)
    right = np.asarray(
        np.broadcast_to(a, broadcast.result_shape) + np.broadcast_to(b, broadcast.result_shape),
        object,
    )
    (actual,) = run("StringConcat", [a, b], {})
    assert actual.shape == broadcast.result_shape
    assert actual.tolist() == right.tolist()


@PROFILE
@given(st.data())
def test_strings_split(data):
    x = data.draw(words(data.draw(shapes(0, 2, 1, 3))))
    delimiter = data.draw(st.sampled_from([",", "a", "b,"]))
    maxsplit = data.draw(st.sampled_from([None, 1, 2]))
    attributes = {"delimiter": delimiter} | ({} if maxsplit is None else {"maxsplit": maxsplit})
    parts = [text.split(delimiter, maxsplit or -1) for text in x.reshape(-1)]
    width = max(map(len, parts))
    pieces, counts = run("StringSplit", [x], attributes, outputs=2)
    assert counts.tolist() == np.array([len(p) for p in parts]).reshape(x.shape).tolist()
    assert pieces.shape == (*x.shape, width)
    padded = [p + [""] * (width - len(p)) for p in parts]
    assert pieces.reshape(-1, width).tolist() == padded


@PROFILE
@given(st.data())
def test_recurrent_cells(data):
    op = data.draw(st.sampled_from(["LSTM", "GRU", "RNN"]))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    steps, batch, width, hidden = (data.draw(st.integers(1, 4)) for _ in range(4))
    rng = np.random.default_rng(steps * 100 + hidden)
    x, w, r = (
        rng.uniform(-1, 1, s).astype(np.float32)
        for s in ((steps, batch, width), (1, gates * hidden, width), (1, gates * hidden, hidden))
    )
    b = rng.uniform(-1, 1, (1, 2 * gates * hidden)).astype(np.float32)
    attributes = {"hidden_size": hidden}
    if op == "GRU":
        attributes["linear_before_reset"] = data.draw(st.integers(0, 1))
    outputs = 3 if op == "LSTM" else 2
    inputs = [x, w, r, b]
    same(
        run(op, inputs, attributes, outputs=outputs),
        reference(op, inputs, attributes, outputs=outputs),
        rtol=1e-5,
        atol=1e-6,
    )


def _info(name: str, type_: int, dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, type_, dims)


def _load(nodes: list, inputs: list, outputs: list[str]) -> sardonyx.Session:
    graph = helper.make_graph(
        nodes, "graph", inputs, [onnx.ValueInfoProto(name=name) for name in outputs]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return sardonyx.load(model.SerializeToString(), threads=1)


@PROFILE
@given(st.data())
def test_loops_count_and_stop(data):
    trips, limit = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    starts = data.draw(st.booleans())
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "i"], ["next"]),
            helper.make_node("Less", ["i", "limit"], ["goes_on"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        "body",
        [
            _info("i", TensorProto.INT64, []),
            _info("go", TensorProto.BOOL, []),
            _info("sum", TensorProto.INT64, []),
        ],
        [
            _info("goes_on", TensorProto.BOOL, []),
            _info("next", TensorProto.INT64, []),
            _info("seen", TensorProto.INT64, []),
        ],
    )
    session = _load(
        [helper.make_node("Loop", ["trips", "start", "zero"], ["sum", "all"], body=body)],
        [
            _info("trips", TensorProto.INT64, []),
            _info("start", TensorProto.BOOL, []),
            _info("zero", TensorProto.INT64, []),
            _info("limit", TensorProto.INT64, []),
        ],
        ["sum", "all"],
    )
    total, seen, goes_on, i = 0, [], starts, 0
    while goes_on and i < trips:
        goes_on = i < limit
        total += i
        seen.append(total)
        i += 1
    found = session.run(
        {
            "trips": np.array(trips),
            "start": np.array(starts),
            "zero": np.array(0),
            "limit": np.array(limit),
        }
    )
    assert found["sum"] == total
    assert found["all"].tolist() == seen


@PROFILE
@given(st.data())
def test_sequences_are_lists(data):
    items = [data.draw(arrays(shapes(0, 2))) for _ in range(data.draw(st.integers(1, 4)))]
    extra = data.draw(arrays(shapes(0, 2)))
    count = len(items)
    at = data.draw(st.integers(-count, count))
    gone = data.draw(st.integers(-count - 1, count))
    names = [f"x{i}" for i in range(count)]
    session = _load(
        [
            helper.make_node("SequenceConstruct", names, ["s"]),
            helper.make_node("SequenceInsert", ["s", "extra", "at"], ["t"]),
            helper.make_node("SequenceErase", ["t", "gone"], ["u"]),
            helper.make_node("SequenceLength", ["u"], ["n"]),
            helper.make_node("SequenceAt", ["t", "gone"], ["v"]),
        ],
        [
            *(
                _info(name, TensorProto.FLOAT, [None] * x.ndim)
                for name, x in zip(names, items, strict=True)
            ),
            _info("extra", TensorProto.FLOAT, [None] * extra.ndim),
            _info("at", TensorProto.INT64, []),
            _info("gone", TensorProto.INT64, []),
        ],
        ["u", "n", "v"],
    )
    right = list(items)
    right.insert(at if at >= 0 else count + at, extra)
    value = right[gone]
    del right[gone]
    found = session.run(
        {
            **dict(zip(names, items, strict=True)),
            "extra": extra,
            "at": np.array(at),
            "gone": np.array(gone),
        }
    )
    assert found["n"] == len(right)
    np.testing.assert_array_equal(found["v"], value)
    for a, b in zip(found["u"], right, strict=True):
        np.testing.assert_array_equal(a, b)


@PROFILE
@given(st.data())
def test_normalizations(data):
    op = data.draw(
        st.sampled_from(
            [
                "LayerNormalization",
                "InstanceNormalization",
                "GroupNormalization",
                "BatchNormalization",
            ]
        )
    )
    groups = data.draw(st.integers(1, 3)) if op == "GroupNormalization" else 1
    channels = groups * data.draw(st.integers(1, 3))
    spatial = [data.draw(st.integers(1, 5)) for _ in range(data.draw(st.integers(1, 2)))]
    shape = (data.draw(st.integers(1, 3)), channels, *spatial)
    epsilon = data.draw(st.sampled_from([1e-5, 1e-2, 1.0]))
    rng = np.random.default_rng(sum(shape))
    # Far from zero the variance is a small difference of large sums.
    x = (rng.standard_normal(shape) + data.draw(st.sampled_from([0, 30]))).astype(np.float32)
    wide, attributes = x.astype(np.float64), {"epsilon": epsilon}
    column = (1, channels, *[1] * len(spatial))
    if op == "LayerNormalization":
        axis = attributes["axis"] = data.draw(st.integers(-x.ndim, x.ndim - 1))
        axes = tuple(range(axis % x.ndim, x.ndim))
        scale, bias = (rng.standard_normal(x.shape[axes[0] :]).astype(np.float32) for _ in range(2))
        column = scale.shape
    else:
        scale, bias = (rng.standard_normal(channels).astype(np.float32) for _ in range(2))
        axes = tuple(range(2, x.ndim))
    inputs = [x, scale, bias]
    if op == "GroupNormalization":
        attributes["num_groups"] = groups
        wide = wide.reshape(shape[0], groups, -1)
        axes = (2,)
    if op == "BatchNormalization":
        inputs += [
            rng.standard_normal(channels).astype(np.float32),
            rng.uniform(0.5, 2, channels).astype(np.float32),
        ]
        mean, variance = (v.astype(np.float64).reshape(column) for v in inputs[3:])
    else:
        mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    y = ((wide - mean) / np.sqrt(variance + epsilon)).reshape(shape)
    right = y * scale.astype(np.float64).reshape(column) + bias.reshape(column)
    same(run(op, inputs, attributes), [right.astype(np.float32)], rtol=2e-5, atol=4e-5)


@PROFILE
@given(st.data())
def test_attention(data):
    batch, heads, size = (data.draw(st.integers(1, 3)) for _ in range(3))
    kv_heads = data.draw(st.sampled_from([h for h in (1, 2, 3) if heads % h == 0]))
    queries, keys = (data.draw(st.integers(1, 5)) for _ in range(2))
    rng = np.random.default_rng(queries * 10 + keys)
    q, k, v = (
        rng.standard_normal(s).astype(np.float32)
        for s in (
            (batch, heads, queries, size),
            (batch, kv_heads, keys, size),
            (batch, kv_heads, keys, size + 1),
        )
    )
    attributes, inputs = {}, [q, k, v]
    if data.draw(st.booleans()):
        attributes["is_causal"] = 1
    if data.draw(st.booleans()):
        attributes["softcap"] = 0.5
    if data.draw(st.booleans()):
        attributes["scale"] = 0.3
    mask = data.draw(st.sampled_from(["none", "float", "bool"]))
    if mask == "float":
        inputs.append(rng.standard_normal((queries, keys)).astype(np.float32))
    elif mask == "bool":
        allowed = rng.random((batch, 1, queries, keys)) < 0.7
        allowed[..., 0] = True  # a query that sees nothing has no attention
        inputs.append(allowed)
    same(
        run("Attention", inputs, attributes),
        reference("Attention", inputs, attributes),
        rtol=1e-5,
        atol=1e-6,
    )


def _random_tree(rng, features: int, depth: int, nodes: list) -> int:
    """Append a tree's nodes as tuples; return the position of its root."""
    position = len(nodes)
    if depth == 0 or rng.random() < 0.2:
        nodes.append(("LEAF", 0, 0.0, -1, -1, float(np.float32(rng.standard_normal()))))
        return position
    nodes.append(None)
    low = _random_tree(rng, features, depth - 1, nodes)
    high = _random_tree(rng, features, depth - 1, nodes)
    mode = str(rng.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"]))
    split = float(np.float32(rng.choice([-1, -0.5, 0, 0.5, 1])))
    nodes[position] = (mode, int(rng.integers(features)), split, low, high, 0.0)
    return position


@PROFILE
@given(st.integers(0, 10_000))
def test_tree_ensembles(seed):
    rng = np.random.default_rng(seed)
    features, trees = int(rng.integers(1, 5)), int(rng.integers(1, 30))
    forest: list[list] = []
    for _ in range(trees):
        forest.append([])
        _random_tree(rng, features, int(rng.integers(0, 7)), forest[-1])
    rows = [(t, i, *node) for t, nodes in enumerate(forest) for i, node in enumerate(nodes)]
    leaves = [row for row in rows if row[2] == "LEAF"]
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[r[0] for r in rows],
        nodes_nodeids=[r[1] for r in rows],
        nodes_modes=[r[2] for r in rows],
        nodes_featureids=[r[3] for r in rows],
        nodes_values=[r[4] for r in rows],
        nodes_truenodeids=[max(r[5], 0) for r in rows],
        nodes_falsenodeids=[max(r[6], 0) for r in rows],
        target_treeids=[r[0] for r in leaves],
        target_nodeids=[r[1] for r in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[r[7] for r in leaves],
    )
    graph = helper.make_graph(
        [node],
        "trees",
        [_info("x", TensorProto.FLOAT, [None, features])],
        [_info("y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = rng.choice([-2, -1, -0.5, 0, 0.5, 1, 2], (int(rng.integers(1, 40)), features)).astype(
        np.float32
    )
    compare = {
        "BRANCH_LEQ": np.less_equal,
        "BRANCH_LT": np.less,
        "BRANCH_GT": np.greater,
        "BRANCH_GTE": np.greater_equal,
    }
    right = np.zeros((len(x), 1))
    for row, values in enumerate(x):
        for nodes in forest:
            mode, feature, split, low, high, weight = nodes[0]
            while mode != "LEAF":
                taken = low if compare[mode](values[feature], split) else high
                mode, feature, split, low, high, weight = nodes[taken]
            right[row] += weight
    found = sardonyx.load(model.SerializeToString(), threads=1).run({"x": x})["y"]
    np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-7)
