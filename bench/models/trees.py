"""Ensembles of decision trees, as exporters of tree libraries write them, with random splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.models.table import TREE_FEATURES

ML_OPSET = 3


@dataclass
class _Nodes:
    """The lists of attributes that describe nodes and the votes of leaves."""

    trees: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    yes: list[int] = field(default_factory=list)
    no: list[int] = field(default_factory=list)
    votes: list[tuple[int, int, int, float]] = field(default_factory=list)  # tree, node, target

    def add(self, rng: np.random.Generator, tree: int, number: int, *, is_leaf: bool) -> int:
        """Append a node, with a random split unless it is a leaf; its place in the lists."""
        self.trees.append(tree)
        self.numbers.append(number)
        self.features.append(0 if is_leaf else int(rng.integers(TREE_FEATURES)))
        self.thresholds.append(0.0 if is_leaf else float(np.float32(rng.normal(0, 0.7))))
        self.modes.append("LEAF" if is_leaf else "BRANCH_LEQ")
        self.yes.append(0)
        self.no.append(0)
        if is_leaf:
            self.votes.append((tree, number, 0, 0.0))
        return len(self.trees) - 1


Grow = Callable[[_Nodes, np.random.Generator, int], None]


def _by_depth(depth: int, early: float) -> Grow:
    """Trees of at most `depth` levels whose branches end early with that probability."""

    def grow(nodes: _Nodes, rng: np.random.Generator, tree: int) -> None:
        count = 0

        def add(level: int) -> int:
            nonlocal count
            number = count
            count += 1
            is_leaf = level == depth or (level >= depth // 2 and rng.random() < early)
            at = nodes.add(rng, tree, number, is_leaf=is_leaf)
            if not is_leaf:
                nodes.yes[at] = add(level + 1)
                nodes.no[at] = add(level + 1)
            return number

        add(0)

    return grow


def _by_leaves(leaves: int) -> Grow:
    """Trees that grow a leaf at a time, half of the time where the last one did."""

    def grow(nodes: _Nodes, rng: np.random.Generator, tree: int) -> None:
        children: dict[int, tuple[int, int]] = {}
        ends = [0]
        while len(ends) < leaves:
            at = len(ends) - 1 if rng.random() < 0.5 else int(rng.integers(len(ends)))
            first = 2 * len(children) + 1
            children[ends.pop(at)] = (first, first + 1)
            ends += [first, first + 1]
        for number in range(2 * leaves - 1):
            at = nodes.add(rng, tree, number, is_leaf=number not in children)
            if number in children:
                nodes.yes[at], nodes.no[at] = children[number]

    return grow


def _write(path: Path, *, trees: int, grow: Grow, classes: int) -> None:
    rng = np.random.default_rng(7)
    nodes = _Nodes()
    for tree in range(trees):
        grow(nodes, rng, tree)
    if classes:
        shares = rng.dirichlet(np.ones(classes), len(nodes.votes)) / trees
        votes = [
            (tree, number, target, float(np.float32(share[target])))
            for (tree, number, _, _), share in zip(nodes.votes, shares, strict=True)
            for target in range(classes)
        ]
    else:
        weights = rng.normal(0, 1 / trees, len(nodes.votes)).astype(np.float32)
        votes = [
            (tree, number, 0, float(weight))
            for (tree, number, _, _), weight in zip(nodes.votes, weights, strict=True)
        ]
    prefix = "class" if classes else "target"
    lists = dict(
        zip(("treeids", "nodeids", "ids", "weights"), zip(*votes, strict=True), strict=True)
    )
    labels = {"classlabels_int64s": list(range(classes))} if classes else {"n_targets": 1}
    node = helper.make_node(
        "TreeEnsembleClassifier" if classes else "TreeEnsembleRegressor",
        ["x"],
        ["label", "y"] if classes else ["y"],
        domain="ai.onnx.ml",
        nodes_treeids=nodes.trees,
        nodes_nodeids=nodes.numbers,
        nodes_featureids=nodes.features,
        nodes_values=nodes.thresholds,
        nodes_modes=nodes.modes,
        nodes_truenodeids=nodes.yes,
        nodes_falsenodeids=nodes.no,
        post_transform="NONE",
        **{f"{prefix}_{name}": list(values) for name, values in lists.items()},
        **labels,
    )
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", max(classes, 1)])]
    if classes:
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, ["rows"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", TREE_FEATURES])
    graph = helper.make_graph([node], "trees", [x], outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def write_forest(path: Path) -> None:
    """Write a random forest for regression: 100 trees of depth 12, some branches shorter."""
    _write(path, trees=100, grow=_by_depth(12, 0.12), classes=0)


def write_forest_classes(path: Path) -> None:
    """Write a random forest for ten classes, each leaf with a share of each."""
    _write(path, trees=100, grow=_by_depth(12, 0.12), classes=10)


def write_boosted(path: Path) -> None:
    """Write boosted trees: 500 complete ones of depth 6."""
    _write(path, trees=500, grow=_by_depth(6, 0.0), classes=0)


def write_boosted_leaves(path: Path) -> None:
    """Write boosted trees that are not balanced: 200 of 31 leaves."""
    _write(path, trees=200, grow=_by_leaves(31), classes=0)
