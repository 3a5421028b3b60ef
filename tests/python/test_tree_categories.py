"""Trees that ask for categories: chains of equalities as converters write them, and sets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import sardonyx

FEATURES = 4
SETS = {
    "small": lambda random: random.choice(20, random.integers(1, 6), replace=False),
    "of two words": lambda random: random.choice(100, 6, replace=False),
    "up to the end": lambda random: np.append(random.choice(4096, 3), 4095),
    "beyond": lambda random: np.append(random.choice(20, 3), 4096),
    "fractions": lambda random: random.choice(20, 3) + 0.5,
    "negative": lambda random: random.choice(20, 3) - 10,
}


class Builder:
    """A random tree, its nodes in the order of TreeEnsemble, and how a plain walk goes down it."""

    def __init__(self, seed, draw, missing):
        self.random = np.random.default_rng(seed)
        self.draw, self.missing = draw, missing
        self.nodes = []  # [feature, split or set, takes_nan, (yes, is_leaf), (no, is_leaf)]
        self.weights = []

    def grow(self, depth):
        if depth == 0 or (depth < 3 and self.random.random() < 0.2):
            self.weights.append(float(self.random.integers(-8, 9)))
            return len(self.weights) - 1, True
        at = len(self.nodes)
        feature = int(self.random.integers(FEATURES))
        takes_nan = self.missing and bool(self.random.integers(2))
        if self.random.random() < 0.5:
            split = {float(member) for member in self.draw(self.random)}
        else:
            split = float(np.float32(self.random.standard_normal()))
        self.nodes.append([feature, split, takes_nan, None, None])
        self.nodes[at][3] = self.grow(depth - 1)
        self.nodes[at][4] = self.grow(depth - 1)
        return at, False

    def score(self, roots, row):
        total = 0.0
        for at, is_leaf in roots:
            while not is_leaf:
                feature, split, takes_nan, yes, no = self.nodes[at]
                value = float(row[feature])
                passes = value in split if isinstance(split, set) else value <= split
                at, is_leaf = yes if passes or (takes_nan and np.isnan(value)) else no
            total += self.weights[at]
        return total


def rows_of(dtype, count=37):
    random = np.random.default_rng(5)
    x = random.choice([*range(-2, 22), 0.5, 64, 99, 4095, 4096, 1e9, np.nan], (count, FEATURES))
    x[::3] = random.standard_normal((len(x[::3]), FEATURES))
    return x.astype(dtype)


def ensemble_with_sets(tree, roots, dtype):
    leq, member = 0, 6
    members = []
    for node in tree.nodes:
        if isinstance(node[1], set):
            members += [*sorted(node[1]), np.nan]

    def tensor(values, kind=dtype):
        return numpy_helper.from_array(np.array(values, kind), "")

    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=1,
        post_transform=0,
        tree_roots=[at for at, _ in roots],
        nodes_featureids=[node[0] for node in tree.nodes],
        nodes_modes=tensor([member if isinstance(n[1], set) else leq for n in tree.nodes], "u1"),
        nodes_splits=tensor([0 if isinstance(node[1], set) else node[1] for node in tree.nodes]),
        nodes_missing_value_tracks_true=[int(node[2]) for node in tree.nodes],
        nodes_truenodeids=[node[3][0] for node in tree.nodes],
        nodes_trueleafs=[int(node[3][1]) for node in tree.nodes],
        nodes_falsenodeids=[node[4][0] for node in tree.nodes],
        nodes_falseleafs=[int(node[4][1]) for node in tree.nodes],
        leaf_targetids=[0] * len(tree.weights),
        leaf_weights=tensor(tree.weights),
        membership_values=tensor(members),
    )
    return model_of(node, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 5)


def regressor_with_chains(tree, roots):
    """Sets as chains of BRANCH_EQ that share what is behind "yes"."""
    columns = {name: [] for name in ("feature", "mode", "value", "nan", "true", "false")}
    weights = []
    root_ids = []

    def add(feature=0, mode="LEAF", value=0.0, nan=0):
        for name, entry in zip(columns, (feature, mode, value, nan, 0, 0), strict=True):
            columns[name].append(entry)
        return len(columns["mode"]) - 1

    def write(target):
        at, is_leaf = target
        if is_leaf:
            node = add()
            weights.append((node, tree.weights[at]))
            return node
        feature, split, takes_nan, yes, no = tree.nodes[at]
        if isinstance(split, set):
            chain = [add(feature, "BRANCH_EQ", each, int(takes_nan)) for each in sorted(split)]
        else:
            chain = [add(feature, "BRANCH_LEQ", split, int(takes_nan))]
        shared, last = write(yes), write(no)
        for node, following in zip(chain, [*chain[1:], last], strict=True):
            columns["true"][node], columns["false"][node] = shared, following
        return chain[0]

    tree_ids = []
    for number, root in enumerate(roots):
        before = len(columns["mode"])
        root_ids.append(write(root))
        tree_ids += [number] * (len(columns["mode"]) - before)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=tree_ids,
        nodes_nodeids=list(range(len(tree_ids))),
        nodes_featureids=columns["feature"],
        nodes_modes=columns["mode"],
        nodes_values=columns["value"],
        nodes_missing_value_tracks_true=columns["nan"],
        nodes_truenodeids=columns["true"],
        nodes_falsenodeids=columns["false"],
        target_treeids=[tree_ids[node] for node, _ in weights],
        target_nodeids=[node for node, _ in weights],
        target_ids=[0] * len(weights),
        target_weights=[weight for _, weight in weights],
    )
    return model_of(node, onnx.TensorProto.FLOAT, 3)


def model_of(node, dtype, version):
    graph = helper.make_graph(
        [node],
        "trees",
        [helper.make_tensor_value_info("x", dtype, ["n", FEATURES])],
        [helper.make_tensor_value_info("y", dtype, ["n", 1])],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets)


@pytest.mark.parametrize("missing", [False, True], ids=["", "missing"])
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("form", ["float", "double", "chains"])
def test_categories(form, kind, missing):
    dtype = np.float64 if form == "double" else np.float32
    tree = Builder(3, SETS[kind], missing)
    roots = [tree.grow(5) for _ in range(12)]
    if form == "chains":
        model = regressor_with_chains(tree, roots)
    else:
        model = ensemble_with_sets(tree, roots, dtype)
    session = sardonyx.load(model, threads=1)
    x = rows_of(dtype)
    expected = [[tree.score(roots, row)] for row in x]
    for count in (1, 5, 16, len(x)):
        with session.profile() as profile:
            y = session.run({"x": x[:count]})["y"]
        np.testing.assert_array_equal(y, np.array(expected[:count], dtype))
        used = [step.implementation for step in profile.steps() if "tree" in step.core_op]
        are_categories = kind in ("small", "of two words", "up to the end")
        assert used == ["wide nodes" if are_categories else "reference"]
