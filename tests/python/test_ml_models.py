"""Models of ai.onnx.ml with random parameters, and damaged ones."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import sardonyx

onnxruntime.set_default_logger_severity(4)

MODES = [f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
COLUMNS = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids")
COLUMNS += ("missing_value_tracks_true",)


def model(operator: str, features: int, attributes: dict, outputs: int, version: int = 3) -> bytes:
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, ["x"], names, "node", domain="ai.onnx.ml", **attributes)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", features])
    graph = helper.make_graph([node], "graph", [given], [ValueInfoProto(name=n) for n in names])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def compare(built: bytes, x: np.ndarray, tolerance: float = 1e-5) -> None:
    session = sardonyx.load(built)
    found = list(session.run([x]).values())
    wanted = onnxruntime.InferenceSession(built).run(None, {"x": x})
    for actual, right in zip(found, wanted, strict=True):
        assert (actual.dtype, actual.shape) == (right.dtype, right.shape)
        if right.dtype.kind == "f":
            np.testing.assert_allclose(actual, right, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(actual, right)
    empty = session.run([x[:0]])
    assert [len(value) for value in empty.values()] == [0] * len(found)


class Trees:
    """Attributes of random trees, none of them complete."""

    def __init__(self, rng: np.random.Generator, count: int, depth: int, features: int, modes):
        self.rng, self.features, self.modes = rng, features, modes
        self.thresholds = np.float32(np.round(rng.normal(size=5), 1))
        self.rows, self.leaves = [], []
        for tree in range(count):
            nodes = {}
            self._grow(tree, nodes, 0, depth)
            self.rows += [(tree, node, *nodes[node]) for node in sorted(nodes)]

    def _grow(self, tree: int, nodes: dict, node: int, depth: int) -> None:
        if depth == 0 or (node > 0 and self.rng.random() < 0.2):
            nodes[node] = ("LEAF", 0, 0.0, 0, 0, 0)
            self.leaves.append((tree, node))
            return
        nodes[node] = ()
        yes, no = len(nodes), len(nodes) + 1
        nodes[yes] = nodes[no] = ()
        feature, missing = int(self.rng.integers(self.features)), int(self.rng.integers(2))
        threshold = float(self.rng.choice(self.thresholds))
        nodes[node] = (str(self.rng.choice(self.modes)), feature, threshold, yes, no, missing)
        self._grow(tree, nodes, yes, depth - 1)
        self._grow(tree, nodes, no, depth - 1)

    def attributes(self, prefix: str, votes: list[tuple[int, int, int]], weights) -> dict:
        found = {
            f"nodes_{name}": list(column)
            for name, column in zip(COLUMNS, zip(*self.rows, strict=True), strict=True)
        }
        for name, column in zip(
            ("treeids", "nodeids", "ids"), zip(*votes, strict=True), strict=True
        ):
            found[f"{prefix}_{name}"] = list(column)
        found[f"{prefix}_weights"] = [float(w) for w in np.float32(weights)]
        return found

    def inputs(self, rows: int) -> np.ndarray:
        """Thresholds themselves, numbers between them, and NaN."""
        x = self.rng.choice(self.thresholds, (rows, self.features))
        x = np.where(self.rng.random(x.shape) < 0.5, self.rng.normal(size=x.shape), x)
        x[self.rng.random(x.shape) < 0.1] = np.nan
        return x.astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3, 50])
@pytest.mark.parametrize("seed", range(12))
def test_random_regressors(seed, rows):
    rng = np.random.default_rng(seed)
    modes = [MODES[:1], MODES, [MODES[seed % 6]]][seed % 3]
    trees = Trees(rng, [1, 3, 20][seed % 3], seed % 6, 4, modes)
    targets = 1 + seed % 3
    votes = [(*leaf, target) for leaf in trees.leaves for target in range(targets)]
    attributes = trees.attributes("target", votes, rng.normal(size=len(votes)))
    attributes["n_targets"] = targets
    attributes["aggregate_function"] = ["SUM", "AVERAGE", "MIN", "MAX"][seed % 4]
    attributes["base_values"] = [0.25, -1.0, 2.0][:targets]
    compare(model("TreeEnsembleRegressor", 4, attributes, 1), trees.inputs(rows))


@pytest.mark.parametrize("rows", [1, 3, 50])
@pytest.mark.parametrize("seed", range(12))
def test_random_classifiers(seed, rows):
    rng = np.random.default_rng(100 + seed)
    trees = Trees(rng, [1, 3, 20][seed % 3], seed % 6, 4, MODES[: 1 + seed % 6])
    classes = 2 + seed % 3
    voted = [seed % 2] if classes == 2 else range(classes)
    votes = [(*leaf, one) for leaf in trees.leaves for one in voted]
    weights = rng.normal(size=len(votes))
    attributes = trees.attributes("class", votes, np.abs(weights) if seed % 4 else weights)
    attributes["post_transform"] = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"][seed // 3]
    attributes["classlabels_strings"] = list("abcd")[:classes]
    compare(model("TreeEnsembleClassifier", 4, attributes, 2), trees.inputs(rows))


@pytest.mark.parametrize("seed", range(12))
def test_random_vector_machines(seed):
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> list[float]:
        return [float(value) for value in np.float32(rng.normal(size=shape)).ravel()]

    classes = 2 + seed % 3
    counts = [int(count) for count in rng.integers(1, 4, classes)]
    pairs = classes * (classes - 1) // 2
    attributes = {
        "coefficients": floats(classes - 1, sum(counts)),
        "support_vectors": floats(sum(counts), 3),
        "vectors_per_class": counts,
        "rho": floats(pairs),
        "kernel_type": ["LINEAR", "POLY", "RBF", "SIGMOID"][seed % 4],
        "kernel_params": [0.25, 0.5, 2.0],
        "classlabels_ints": [3, 5, 8, 13][:classes],
    }
    x = np.float32(rng.normal(size=(40, 3)))
    compare(model("SVMClassifier", 3, attributes, 2, 1), x, 1e-4)
    attributes.update(prob_a=[-abs(a) for a in floats(pairs)], prob_b=floats(pairs))
    compare(model("SVMClassifier", 3, attributes, 2, 1), x, 1e-3)


def test_a_vector_machine_far_away():
    attributes = {
        "coefficients": [1.0, 2.0],
        "kernel_params": [0.5, 0.0, 3.0],
        "kernel_type": "RBF",
        "n_supports": 2,
        "rho": [0.25],
        "support_vectors": [0.0, 0.0, 1.0, 1.0],
    }
    x = np.float32([[0, 0], [np.inf, 0], [0, -np.inf], [1e30, 0], [np.nan, 0]])
    compare(model("SVMRegressor", 2, attributes, 1, 1), x)


STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
    "n_targets": 1,
}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "node 0 is below itself"),
        ({"nodes_truenodeids": [2, 0, 0], "nodes_modes": ["BRANCH_LEQ"] * 3}, "below itself"),
        ({"nodes_truenodeids": [7, 0, 0]}, "tree 0 has no node 7"),
        ({"nodes_nodeids": [0, 1, 1]}, "tree 0 has node 1 twice"),
        ({"nodes_values": [0.0]}, "lists of 3 and of 1 elements"),
        ({"target_weights": [1.0]}, "lists of 1 and of 2 elements"),
        ({"target_ids": [0, 1]}, "target 1, outside"),
        ({"nodes_featureids": [-1, 0, 0]}, "feature -1 is outside"),
        ({"nodes_featureids": [9, 0, 0]}, "the trees ask for feature 9, the input has 2"),
        ({"nodes_modes": ["BRANCH_NEAR", "LEAF", "LEAF"]}, "BRANCH_NEAR"),
        ({"n_targets": 0}, "number of targets"),
        ({"n_targets": 1 << 62}, "number of targets"),
        ({"base_values": [1.0, 2.0]}, "2 base values for 1 targets"),
        ({"post_transform": "TANH"}, "TANH"),
    ],
)
def test_damaged_trees_are_errors(damage, message):
    with pytest.raises(sardonyx.InvalidModelError) as caught:
        sardonyx.load(model("TreeEnsembleRegressor", 2, {**STUMP, **damage}, 1))
    assert message in str(caught.value)


ENSEMBLE = {
    "nodes_splits": helper.make_tensor("", TensorProto.FLOAT, [1], [0.5]),
    "nodes_modes": helper.make_tensor("", TensorProto.UINT8, [1], [0]),
    "nodes_featureids": [0],
    "nodes_truenodeids": [0],
    "nodes_trueleafs": [1],
    "nodes_falsenodeids": [1],
    "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0],
    "leaf_weights": helper.make_tensor("", TensorProto.FLOAT, [2], [1.0, 2.0]),
    "tree_roots": [0],
}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"nodes_trueleafs": [0]}, "node 0 is below itself"),
        ({"nodes_falsenodeids": [2]}, "leaf 2 is outside"),
        ({"tree_roots": [-1]}, "node -1 is outside"),
        ({"nodes_featureids": [0, 1]}, "elements describe the nodes"),
        ({"leaf_targetids": [0]}, "1 leaf_targetids have 2 leaf_weights"),
        (
            {"nodes_modes": helper.make_tensor("", TensorProto.UINT8, [1], [6])},
            "1 nodes test for members of 0 sets",
        ),
        ({"nodes_modes": helper.make_tensor("", TensorProto.UINT8, [1], [7])}, "modes holds 7"),
        ({"aggregate_function": 4}, "aggregate_function is 4"),
    ],
)
def test_damaged_ensembles_are_errors(damage, message):
    with pytest.raises(sardonyx.InvalidModelError) as caught:
        sardonyx.load(model("TreeEnsemble", 2, {**ENSEMBLE, **damage}, 1, 5))
    assert message in str(caught.value)


@pytest.mark.parametrize("how", ["loaded", "compiled"])
@pytest.mark.parametrize("rows", [2, 64])
def test_ensembles_of_the_same_nodes(how, rows, tmp_path):
    """Their tables are one constant, whose packed form depends on what the leaves say."""
    weights = {"a": [1.0, 2.0], "b": [10.0, 20.0], "c": [1.0, 2.0]}
    nodes = [
        helper.make_node(
            "TreeEnsembleRegressor",
            ["x"],
            [name],
            domain="ai.onnx.ml",
            **{**STUMP, "target_weights": given, "n_targets": 2 if name == "c" else 1},
        )
        for name, given in weights.items()
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])]
    graph = helper.make_graph(nodes, "graph", inputs, [ValueInfoProto(name=n) for n in weights])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    built = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    if how == "compiled":
        (tmp_path / "trees.onnx").write_bytes(built)
        shapes = {"x": (rows, 2)}
        sardonyx.compile(tmp_path / "trees.onnx", tmp_path / "trees.sdx", shapes=shapes)
        built = tmp_path / "trees.sdx"
    x = np.resize(np.float32([[-1, 0], [1, 0]]), (rows, 2))
    found = sardonyx.load(built).run([x])
    for name, given in weights.items():
        np.testing.assert_array_equal(found[name][:2, 0], given)


@pytest.mark.parametrize("mode", ["BRANCH_EQ", "BRANCH_LT"])
def test_trees_whose_branches_meet(mode):
    """A test for one of several categories, as onnxmltools writes it of XGBoost's: the nodes 0 and
    1 lead to the same node 3."""
    attributes = {
        **STUMP,
        "nodes_treeids": [0] * 6,
        "nodes_nodeids": list(range(6)),
        "nodes_modes": [mode, mode, "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0, 1, 0, 0],
        "nodes_values": [1.0, 3.0, 0.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [3, 3, 0, 4, 0, 0],
        "nodes_falsenodeids": [1, 2, 0, 5, 0, 0],
        "target_treeids": [0] * 3,
        "target_nodeids": [2, 4, 5],
        "target_ids": [0] * 3,
        "target_weights": [10.0, 20.0, 30.0],
    }
    x = np.float32([[0, -1], [1, -1], [2, 1], [3, 1], [3, -1]])
    compare(model("TreeEnsembleRegressor", 2, attributes, 1, 1), x)


def test_a_tree_that_is_there_twice():
    x = np.float32([[0, 0], [1, 0]])
    twice = sardonyx.load(model("TreeEnsemble", 2, {**ENSEMBLE, "tree_roots": [0, 0]}, 1, 5))
    np.testing.assert_array_equal(twice.run([x])["y0"], [[2], [4]])


def test_branches_that_meet_too_often_are_errors():
    """Of 40 nodes that all lead to the next in both ways: 2^40 leaves."""
    count = 40
    attributes = {
        **STUMP,
        "nodes_treeids": [0] * (count + 1),
        "nodes_nodeids": list(range(count + 1)),
        "nodes_modes": ["BRANCH_LEQ"] * count + ["LEAF"],
        "nodes_featureids": [0] * (count + 1),
        "nodes_values": [0.0] * (count + 1),
        "nodes_truenodeids": [*range(1, count + 1), 0],
        "nodes_falsenodeids": [*range(1, count + 1), 0],
        "target_treeids": [0],
        "target_nodeids": [count],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    with pytest.raises(sardonyx.InvalidModelError) as caught:
        sardonyx.load(model("TreeEnsembleRegressor", 2, attributes, 1))
    assert "nodes are shared so often" in str(caught.value)


def test_chains_that_many_trees_share_are_errors():
    """Each tree asks for the categories from its own on: sets of half of the square of 3000."""
    count = 3000
    attributes = {
        **ENSEMBLE,
        "tree_roots": list(range(count)),
        "nodes_featureids": [0] * count,
        "nodes_modes": numpy_helper.from_array(np.full(count, 4, np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.arange(count, dtype=np.float32)),
        "nodes_trueleafs": [1] * count,
        "nodes_truenodeids": [0] * count,
        "nodes_falseleafs": [0] * (count - 1) + [1],
        "nodes_falsenodeids": [*range(1, count), 1],
    }
    with pytest.raises(sardonyx.InvalidModelError) as caught:
        sardonyx.load(model("TreeEnsemble", 2, attributes, 1, 5))
    assert "nodes are shared so often" in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 3, "targets": 2}, "3 coefficients"),
        ("LinearClassifier", {"coefficients": [1.0, 2.0]}, "one of classlabels_strings"),
        ("Scaler", {"offset": [1.0] * 3, "scale": [1.0]}, "offset has 3 values for 2 features"),
        ("Normalizer", {"norm": "L3"}, "MAX, L1 or L2"),
        ("Imputer", {"imputed_value_int64s": [1]}, "needs the attribute imputed_value_floats"),
        ("OneHotEncoder", {}, "one of cats_strings and cats_int64s"),
        ("LabelEncoder", {"keys_floats": [1.0], "values_int64s": [1, 2]}, "1 keys cannot"),
        ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": -1}, "-1"),
    ],
)
def test_attributes_that_do_not_fit_are_errors(operator, attributes, message):
    outputs = 2 if operator == "LinearClassifier" else 1
    version = 2 if operator == "LabelEncoder" else 1
    with pytest.raises(sardonyx.InvalidModelError) as caught:
        sardonyx.load(model(operator, 2, attributes, outputs, version))
    assert message in str(caught.value)
