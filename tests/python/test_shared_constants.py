"""Nodes that share constants give in one model what each gives alone: what is packed of a constant,
or computed from it, depends on how it is used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper

import sardonyx

ML, CONTRIBUTED = "ai.onnx.ml", "com.microsoft"
Values = dict[str, np.ndarray]
LIMITS = {np.int8: (-128, 128), np.uint8: (0, 256)}
#: Nodes of one output each, their constants, their inputs.
Family = tuple[list[NodeProto], Values, Values]


def run(nodes: list[NodeProto], constants: Values, inputs: Values) -> list[np.ndarray]:
    read = {name for node in nodes for name in node.input}
    inputs = {name: value for name, value in inputs.items() if name in read}
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(node.output[0]) for node in nodes],
        [numpy_helper.from_array(v, name) for name, v in constants.items() if name in read],
    )
    imports = [helper.make_opsetid(*opset) for opset in (("", 21), (ML, 3), (CONTRIBUTED, 1))]
    built = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return list(sardonyx.load(built.SerializeToString(), threads=1).run(inputs).values())


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return np.float32(random.normal(size=shape))


def convolutions(random: np.random.Generator) -> Family:
    channels = int(random.choice([1, 3, 8, 16, 32]))
    groups = int(random.choice([1, 1, channels]))
    filters = groups * int(random.choice([1, 4, 16]))
    kernel = int(random.choice([1, 3, 5]))
    size = int(random.choice([12, 14, 20]))
    nodes = []
    for i in range(4):
        pads = [int(random.choice([0, kernel // 2]))] * 4
        strides = [int(s) for s in random.choice([1, 2], 2)]
        dilations = [int(random.choice([1, 2]))] * 2
        attributes = {"group": groups, "pads": pads, "strides": strides, "dilations": dilations}
        x = ["x", "wide"][i % 2]
        nodes.append(helper.make_node("Conv", [x, "w", *["b"][: i // 2]], [f"y{i}"], **attributes))
    if filters == channels:
        attributes = {"group": groups, "strides": [2, 2]}
        nodes.append(helper.make_node("ConvTranspose", ["x", "w"], ["back"], **attributes))
    constants = {
        "w": floats(random, filters, channels // groups, kernel, kernel),
        "b": floats(random, filters),
    }
    inputs = {name: floats(random, 1, channels, size, size) for name in ("x", "wide")}
    inputs["wide"] = np.concatenate([inputs["wide"]] * 2, 3)
    return nodes, constants, inputs


def integer_convolutions(random: np.random.Generator) -> Family:
    channels, filters = int(random.choice([3, 4, 16, 64])), int(random.choice([4, 8, 16, 64]))
    kernel, size = int(random.choice([1, 3])), int(random.choice([7, 14, 28]))
    kind = random.choice([np.int8, np.uint8])
    constants = {"w": random.integers(*LIMITS[kind], (filters, channels, kernel, kernel), kind)}
    nodes = []
    for i in range(4):
        constants |= {f"xz{i}": np.array(random.integers(0, 256), np.uint8)}
        neutral = np.array(0 if kind == np.int8 else 128, kind)
        zeros = [neutral, neutral + kind(5), random.integers(*LIMITS[kind], filters, kind)]
        constants |= {f"wz{i}": zeros[i % 3]}
        attributes = {"pads": [kernel // 2 * (i % 2)] * 4, "strides": [1 + i // 2] * 2}
        zero_points = [f"xz{i}", f"wz{i}"]
        nodes.append(
            helper.make_node("ConvInteger", ["x", "w", *zero_points], [f"y{i}"], **attributes)
        )
    x = random.integers(0, 256, (1, channels, size, size), np.uint8)
    return nodes, constants, {"x": x}


def products(random: np.random.Generator) -> Family:
    n, rows = int(random.choice([4, 16, 33, 128])), [int(r) for r in random.choice([1, 5, 64], 2)]
    constants = {"w": floats(random, n, n), "b": floats(random, n)}
    constants |= {"codes": random.integers(-128, 128, (n, n), np.int8)}
    constants |= {f"z{i}": np.array(z, np.int8) for i, z in enumerate((0, 3, -7))}
    constants["xz"] = np.array(120, np.uint8)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["right"]),
        helper.make_node("Gemm", ["y", "w", "b"], ["transposed"], transB=1),
        helper.make_node("Gemm", ["columns", "w"], ["both"], transA=1, transB=1, alpha=0.5),
        helper.make_node("MatMul", ["w", "columns"], ["left"]),
        helper.make_node("Gemm", ["w", "columns"], ["left_transposed"], transA=1),
    ]
    for i in range(3):
        codes = ["bytes", "codes", "xz", f"z{i}"]
        nodes.append(helper.make_node("MatMulInteger", codes, [f"integers{i}"]))
    inputs = {"x": floats(random, rows[0], n), "y": floats(random, rows[1], n)}
    inputs |= {"columns": floats(random, n, 7), "bytes": random.integers(0, 256, (6, n), np.uint8)}
    return nodes, constants, inputs


def recurrences(random: np.random.Generator) -> Family:
    operator = str(random.choice(["LSTM", "GRU", "RNN"]))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    hidden, features = int(random.choice([4, 16, 32])), int(random.choice([3, 16]))
    constants = {name: floats(random, 1, gates * hidden, features) / 3 for name in ("w", "v")}
    constants["r"] = floats(random, 1, gates * hidden, hidden) / 3
    constants |= {name: floats(random, 1, 2 * gates * hidden) for name in ("b", "c")}
    nodes = []
    for i in range(6):
        attributes = {"hidden_size": hidden, "direction": ["forward", "reverse"][i % 2]}
        if operator == "GRU":
            attributes["linear_before_reset"] = i // 3
        given = ["x", ["w", "v"][i // 2 % 2], "r", *[["b"], ["c"], []][i % 3]]
        nodes.append(helper.make_node(operator, given, [f"y{i}"], **attributes))
    return nodes, constants, {"x": floats(random, 5, 2, features)}


def narrow_products(random: np.random.Generator) -> Family:
    depth, columns, block = int(random.choice([32, 128])), int(random.choice([8, 32])), 16
    blocks = depth // block
    constants = {"codes": random.integers(0, 256, (columns, blocks, block // 2), np.uint8)}
    for i in range(2):
        constants[f"s{i}"] = np.float32(random.uniform(0.01, 0.1, columns * blocks))
        zeros = random.integers(0, 256, columns * ((blocks + 1) // 2), np.uint8)
        constants[f"z{i}"] = zeros
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": block}
    nodes = [
        helper.make_node(
            "MatMulNBits",
            ["x", "codes", f"s{i % 2}", *[[], ["z0"], ["z1"]][i % 3]],
            [f"y{i}"],
            domain=CONTRIBUTED,
            **sizes,
        )
        for i in range(6)
    ]
    return nodes, constants, {"x": floats(random, int(random.choice([1, 5])), depth)}


def lookups(random: np.random.Generator) -> Family:
    """Indices in even steps, keys, n-grams."""
    size = int(random.choice([4, 6]))
    grid = np.meshgrid(np.arange(0, size, 2), np.arange(1, size, 2), indexing="ij")
    constants = {"pairs": np.stack(grid, -1).astype(np.int64), "rows": np.int64(grid[0])}
    nodes = [
        helper.make_node("GatherND", [x, "pairs"], [f"nd_{x}"]) for x in ("flat", "deep", "cube")
    ]
    for axis in range(3):
        nodes.append(helper.make_node("Gather", ["cube", "rows"], [f"along{axis}"], axis=axis))
        nodes.append(helper.make_node("Gather", ["cube", "pairs"], [f"of{axis}"], axis=axis))
        values = [int(value) for value in random.integers(0, 100, 4)]
        labels = {"keys_int64s": [1, 2, 3, 4], "values_int64s": values, "default_int64": axis}
        nodes.append(
            helper.make_node("LabelEncoder", ["words"], [f"label{axis}"], domain=ML, **labels)
        )
        grams = {
            "mode": ["TF", "IDF", "TFIDF"][axis],
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": axis % 2,
            "ngram_counts": [0, 4],
            "ngram_indexes": [int(i) for i in random.permutation(8)[:7]],
            "pool_int64s": [1, 2, 3, 4, 1, 2, 3, 3, 2, 1],
        }
        nodes.append(helper.make_node("TfIdfVectorizer", ["words"], [f"grams{axis}"], **grams))
    inputs = {"flat": floats(random, size, size), "deep": floats(random, size, size, 3)}
    inputs |= {"cube": floats(random, size, size, size)}
    inputs["words"] = random.integers(0, 6, (3, 9))
    return nodes, constants, inputs


FAMILIES = [
    convolutions,
    integer_convolutions,
    products,
    recurrences,
    narrow_products,
    lookups,
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_in_one_model_and_apart(family: Callable[..., Family], seed: int):
    nodes, constants, inputs = family(np.random.default_rng(seed))
    together = run(nodes, constants, inputs)
    for node, found in zip(nodes, together, strict=True):
        [alone] = run([node], constants, inputs)
        assert found.shape == alone.shape, node
        np.testing.assert_allclose(found, alone, 1e-4, 1e-4, err_msg=str(node))


def test_outputs_that_are_initializers():
    """Of several types and shapes, with and without nodes that read them as well; short names, for
    names were mixed up."""
    values = {
        "a": np.array([1, 2], np.float32),
        "b": np.array([3, 4, 5]),
        "c": np.array([True]),
        "d": np.array([[7]], np.uint8),
        "a name too long to be kept within a string": np.array([8.0]),
    }
    node = helper.make_node("Add", ["x", "a"], ["y"])
    outputs = [*values, "y"]
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in values.items()}
    for nodes in ([], [node]):
        names = outputs[: len(values)] if not nodes else outputs
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info("x", types["a"], [2])],
            [helper.make_tensor_value_info(n, types.get(n, types["a"]), None) for n in names],
            [numpy_helper.from_array(value, name) for name, value in values.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        session = sardonyx.load(model.SerializeToString(), threads=1)
        results = session.run({"x": np.ones(2, np.float32)})
        for name, value in values.items():
            np.testing.assert_array_equal(results[name], value, strict=True)
        if nodes:
            np.testing.assert_array_equal(results["y"], values["a"] + 1)
