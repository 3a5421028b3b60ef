"""ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from bench.operators.case import Case, X, rows

ML = "ai.onnx.ml"
TABLE = X(20000, 30)


def forest(trees: int, depth: int) -> dict:
    """Attributes nodes_* of complete trees over 30 features, and where their leaves are."""
    branches = 2**depth - 1
    nodes = [(tree, node) for tree in range(trees) for node in range(2 * branches + 1)]
    inner = [node < branches for _, node in nodes]

    def below(side: int) -> list[int]:
        return [2 * node + side if node < branches else 0 for _, node in nodes]

    return dict(
        nodes_treeids=[tree for tree, _ in nodes],
        nodes_nodeids=[node for _, node in nodes],
        nodes_featureids=[(7 * node + tree) % 30 for tree, node in nodes],
        nodes_values=[float((node * 37 + tree) % 50) / 10 - 2.5 for tree, node in nodes],
        nodes_modes=["BRANCH_LEQ" if i else "LEAF" for i in inner],
        nodes_truenodeids=below(1),
        nodes_falsenodeids=below(2),
    )


def votes(table: dict, prefix: str, targets: int) -> dict:
    """A vote of each leaf."""
    nodes = zip(table["nodes_treeids"], table["nodes_nodeids"], table["nodes_modes"], strict=True)
    leaves = [(tree, node) for tree, node, mode in nodes if mode == "LEAF"]
    return {
        f"{prefix}_treeids": [tree for tree, _ in leaves],
        f"{prefix}_nodeids": [node for _, node in leaves],
        f"{prefix}_ids": [(node + tree) % targets for tree, node in leaves],
        f"{prefix}_weights": [float((node * 13) % 17) / 10 for _, node in leaves],
    }


def table() -> Iterator[Case]:
    """All rows."""
    yield from rows("Binarizer", "f32", [TABLE], domain=ML, threshold=0.5)
    yield from rows("Scaler", "f32", [TABLE], domain=ML, offset=[0.5] * 30, scale=[2.0] * 30)
    yield from rows(
        "Imputer",
        "f32",
        [TABLE],
        domain=ML,
        imputed_value_floats=[1.0] * 30,
        replaced_value_float=0.0,
    )
    for norm in ("MAX", "L1", "L2"):
        yield from rows("Normalizer", "f32", [TABLE], domain=ML, norm=norm)
    yield from rows("FeatureVectorizer", "f32", [TABLE, TABLE], domain=ML, inputdimensions=[30, 30])
    yield from rows(
        "ArrayFeatureExtractor", "f32", [TABLE, X(8, low=0, high=30, type="i64")], domain=ML
    )
    numbers = X(200000, low=0, high=1000, type="i64")
    yield from rows(
        "LabelEncoder",
        "i64",
        [numbers],
        domain=ML,
        keys_int64s=range(1000),
        values_int64s=range(1000, 0, -1),
    )
    names = [f"word {i}" for i in range(1000)]
    words = dict(domain=ML, keys_strings=names)
    yield from rows("LabelEncoder", "str", [X(100000)], values_int64s=range(1000), **words)
    yield from rows("LabelEncoder", "str", [X(100000)], values_strings=names[::-1], **words)
    back = dict(domain=ML, keys_int64s=range(1000), values_strings=names)
    yield from rows("LabelEncoder", "i64", [numbers], **back)
    yield from rows("OneHotEncoder", "i64", [numbers], domain=ML, cats_int64s=range(50))
    few = X(50000, low=0, high=60)
    yield from rows("OneHotEncoder", "f32", [few], domain=ML, cats_int64s=range(50))
    yield from rows(
        "CategoryMapper", "i64", [numbers], domain=ML, cats_int64s=range(1000), cats_strings=names
    )
    yield from rows("ZipMap", "f32", [X(2000, 10)], domain=ML, classlabels_int64s=range(10))
    linear = dict(coefficients=[0.1 * (i % 7) for i in range(90)], intercepts=[0.1, 0.2, 0.3])
    yield from rows("LinearRegressor", "f32", [TABLE], domain=ML, targets=3, **linear)
    yield from rows(
        "LinearClassifier",
        "f32",
        [TABLE],
        domain=ML,
        outputs=2,
        classlabels_ints=[0, 1, 2],
        **linear,
    )
    yield from rows(
        "LinearClassifier",
        "f32",
        [TABLE],
        domain=ML,
        outputs=2,
        classlabels_ints=[0, 1, 2],
        post_transform="SOFTMAX",
        **linear,
    )
    vectors = dict(
        support_vectors=[0.01 * (i % 91) for i in range(3000)],
        kernel_type="RBF",
        kernel_params=[0.1, 0.0, 3.0],
        coefficients=[0.1 * (i % 5) - 0.2 for i in range(100)],
    )
    yield from rows("SVMRegressor", "f32", [TABLE], domain=ML, n_supports=100, rho=[0.5], **vectors)
    yield from rows(
        "SVMClassifier",
        "f32",
        [TABLE],
        domain=ML,
        outputs=2,
        vectors_per_class=[50, 50],
        rho=[0.5],
        classlabels_ints=[0, 1],
        **vectors,
    )
    trees = forest(50, 6)
    thresholds = onnx.numpy_helper.from_array(np.array(trees["nodes_values"]))
    doubles = trees | {"nodes_values_as_tensor": thresholds}
    del doubles["nodes_values"]
    for count in (1, 8, 100, 20000):
        x = [X(count, 30)]
        yield from rows(
            "TreeEnsembleRegressor",
            "f64",
            x,
            domain=ML,
            version=3,
            n_targets=1,
            **doubles,
            **votes(trees, "target", 1),
        )
        yield from rows(
            "TreeEnsembleRegressor",
            "f32",
            x,
            domain=ML,
            version=3,
            n_targets=1,
            **trees,
            **votes(trees, "target", 1),
        )
        yield from rows(
            "TreeEnsembleClassifier",
            "f32",
            x,
            domain=ML,
            outputs=2,
            exact=False,  # which of two equal votes wins
            version=3,
            classlabels_int64s=[0, 1, 2],
            **trees,
            **votes(trees, "class", 3),
        )
