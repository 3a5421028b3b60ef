"""Tree ensembles of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.ml import ML, ORT, batches, floats, labels, tensor_of


def forest(request: Request, depth: int, features: int, trees: int, modes: list[str]) -> dict:
    """Attributes nodes_* of complete random trees."""
    columns = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids")
    columns += ("falsenodeids", "missing_value_tracks_true")
    table = {f"nodes_{column}": [] for column in columns}
    branches = 2**depth - 1
    for tree in range(trees):
        for node in range(2 * branches + 1):
            leaf = node >= branches
            row = (
                tree,
                node,
                0 if leaf else int(request.rng.integers(features)),
                0.0 if leaf else float(np.float32(request.rng.integers(-4, 5) / 2)),
                "LEAF" if leaf else str(request.rng.choice(modes)),
                0 if leaf else 2 * node + 1,
                0 if leaf else 2 * node + 2,
                int(request.rng.integers(2)),
            )
            for column, value in zip(columns, row, strict=True):
                table[f"nodes_{column}"].append(value)
    return table


def votes(request: Request, table: dict, prefix: str, targets: list[int]) -> dict:
    """A vote of each leaf for each of the targets."""
    leaves = [
        (tree, node, target)
        for tree, node, mode in zip(
            table["nodes_treeids"], table["nodes_nodeids"], table["nodes_modes"], strict=True
        )
        if mode == "LEAF"
        for target in targets
    ]
    return {
        f"{prefix}_treeids": [row[0] for row in leaves],
        f"{prefix}_nodeids": [row[1] for row in leaves],
        f"{prefix}_ids": [row[2] for row in leaves],
        f"{prefix}_weights": floats(request, len(leaves)),
    }


def as_tensors(request: Request, attributes: dict, parameter: str) -> dict:
    """From version 3 on numbers may be tensors, as they must be for double in ONNX Runtime."""
    if request.version < 3 or request.dtype(parameter) != np.float64:
        return attributes
    found = {}
    for name, value in attributes.items():
        if name in ("nodes_values", "target_weights", "class_weights", "base_values"):
            found[f"{name}_as_tensor"] = tensor_of(np.dtype(np.float64), value)
        else:
            found[name] = value
    return found


LEQ, ALL = ["BRANCH_LEQ"], [f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]


def halves(request: Request, parameter: str, rows: int, features: int) -> np.ndarray:
    """Features that meet thresholds exactly, and NaN where the type has it."""
    x = (request.rng.integers(-5, 6, (rows, features)) / 2).astype(request.dtype(parameter))
    if x.dtype.kind == "f":
        x[request.rng.random(x.shape) < 0.1] = np.nan
    return x


def leaf_sums(attributes: dict, prefix: str, targets: int, x: np.ndarray) -> list[list[list]]:
    """Weights that each row collects for each target; nodes one by one, as the text says."""
    compare = {
        "BRANCH_LEQ": np.less_equal,
        "BRANCH_LT": np.less,
        "BRANCH_GTE": np.greater_equal,
        "BRANCH_GT": np.greater,
        "BRANCH_EQ": np.equal,
        "BRANCH_NEQ": np.not_equal,
    }
    rows = zip(*(attributes[f"nodes_{name}"] for name in NODE_COLUMNS), strict=True)
    nodes = {(row[0], row[1]): row[2:] for row in rows}
    given = {}
    for tree, node, target, weight in zip(
        *(attributes[f"{prefix}_{name}"] for name in ("treeids", "nodeids", "ids", "weights")),
        strict=True,
    ):
        given.setdefault((tree, node), []).append((target, weight))
    found = [[[] for _ in range(targets)] for _ in x]
    for row, collected in zip(x, found, strict=True):
        for tree in sorted({tree for tree, _ in nodes}):
            node = 0
            while nodes[tree, node][2] != "LEAF":
                feature, threshold, mode, yes, no, missing = nodes[tree, node]
                passes = compare[mode](row[feature], threshold) or (
                    missing and np.isnan(row[feature])
                )
                node = yes if passes else no
            for target, weight in given.get((tree, node), []):
                collected[target].append(weight)
    return found


NODE_COLUMNS = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids")
NODE_COLUMNS += ("falsenodeids", "missing_value_tracks_true")


@cases("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(request: Request) -> list[Case]:
    x = halves(request, "T", 20, 4)
    merge = {"SUM": sum, "AVERAGE": lambda w: sum(w) / 6, "MIN": min, "MAX": max}
    found = []
    for modes, targets in ((LEQ, 1), (ALL, 1), (LEQ, 3), (ALL, 3)):
        table = forest(request, 3, 4, 6, modes)
        table.update(votes(request, table, "target", list(range(targets))))
        base = floats(request, targets)
        for aggregate, combine in merge.items():
            attributes = {
                **table,
                "n_targets": targets,
                "aggregate_function": aggregate,
                "base_values": base,
            }

            def scores(x, table=table, base=base, targets=targets, combine=combine):
                sums = leaf_sums(table, "target", targets, x)
                return np.array([[combine(w) for w in row] for row in sums]) + base

            name = f"{aggregate}, {len(modes)} modes, {targets} targets"
            attributes = as_tensors(request, attributes, "T")
            found.append(Case([x], attributes, expected=scores, name=name))
    plain = forest(request, 4, 4, 20, LEQ)
    del plain["nodes_missing_value_tracks_true"]
    plain.update(votes(request, plain, "target", [0]), n_targets=1)
    if x.dtype.kind == "f":
        plain = as_tensors(request, plain, "T")
        found += batches(x, plain, oracle=ORT)
        found.append(Case([x], {**plain, "post_transform": "PROBIT"}, oracle=ORT, name="PROBIT"))
    return found


@cases("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(request: Request) -> list[Case]:
    x = halves(request, "T1", 20, 4)
    found = []
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        for targets, classes in (([0], 2), ([1], 2), ([0, 1, 2], 3)):
            table = forest(request, 3, 4, 6, ALL if transform == "NONE" else LEQ)
            table.update(votes(request, table, "class", targets))
            table.update(labels(request, classes, "classlabels_int64s"))
            table["post_transform"] = transform
            positive = {"class_weights": [abs(w) / 6 for w in table["class_weights"]]}
            name = f"{transform}, votes for {targets} of {classes}"
            for suffix, attributes in (("", table), (", positive", {**table, **positive})):
                attributes = as_tensors(request, attributes, "T1")
                found.append(Case([x], attributes, oracle=ORT, name=name + suffix))
            if classes == 3:
                attributes = as_tensors(request, {**table, "base_values": [0.5, -0.25, 1.0]}, "T1")
                found.append(Case([x], attributes, oracle=ORT, name=f"{name}, base values"))
    return found


@cases("TreeEnsemble", domain=ML)
def tree_ensemble(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    x = np.array([[1, 5], [2, -1], [3, 0], [4, 2], [np.nan, 7], [0.5, np.nan]], dtype)
    # Tree 0: is x0 in {2, 4}?  then leaf 0, else is x1 <= 2? leaf 1 : leaf 2.
    # Tree 1: x1 > 0 (NaN too) ? leaf 3 : leaf 4.
    attributes = {
        "nodes_splits": tensor_of(dtype, [0, 2, 0]),
        "nodes_featureids": [0, 1, 1],
        "nodes_modes": tensor_of(np.dtype(np.uint8), [6, 0, 3]),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 4],
        "nodes_falseleafs": [0, 1, 1],
        "nodes_missing_value_tracks_true": [0, 0, 1],
        "membership_values": tensor_of(dtype, [2, 4, float("nan")]),
        "leaf_targetids": [0, 1, 0, 0, 1],
        "leaf_weights": tensor_of(dtype, [1.5, -2, 0.5, 4, -0.25]),
        "tree_roots": [0, 2],
        "n_targets": 2,
    }

    def scores(x, combine=sum):
        weights, targets = [1.5, -2, 0.5, 4, -0.25], [0, 1, 0, 0, 1]
        found = []
        for a, b in x.astype(np.float64):
            leaves = [0 if a in (2, 4) else 1 if b <= 2 else 2, 3 if b > 0 or np.isnan(b) else 4]
            by_target = [[weights[i] for i in leaves if targets[i] == t] for t in (0, 1)]
            found.append([combine(list_) if list_ else 0 for list_ in by_target])
        return np.array(found)

    def logistic(x):
        return 1 / (1 + np.exp(-scores(x)))

    functions = [(0, lambda w: sum(w) / 2), (1, sum), (2, min), (3, max)]
    return [
        Case(
            [x],
            {**attributes, "aggregate_function": number},
            expected=lambda x, combine=combine: scores(x, combine),
            name=f"aggregate {number}",
        )
        for number, combine in functions
    ] + [Case([x], {**attributes, "post_transform": 2}, expected=logistic, name="LOGISTIC")]
