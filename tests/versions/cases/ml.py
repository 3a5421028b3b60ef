"""Operators of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.versions.case import Case, Request, cases
from tests.versions.element_types import data_type

ML = "ai.onnx.ml"
# The reference evaluator gives the type or the values of the input where the schema says float.
ORT = "onnxruntime"


def floats(request: Request, *shape: int) -> list[float]:
    return [float(value) for value in request.rng.normal(size=shape).astype(np.float32).ravel()]


def labels(request: Request, count: int, ints: str, parameter: str = "T2") -> dict[str, list]:
    if request.type(parameter) == "tensor(string)":
        return {"classlabels_strings": ["no", "yes", "perhaps", "never"][:count]}
    return {ints: [3, 5, 8, 13][:count]}


def batches(x: np.ndarray, attributes: dict, **options) -> list[Case]:
    """Many rows and one; none at all crashes ONNX Runtime in some operators."""
    return [
        Case([x], attributes, **options),
        Case([x[:1]], attributes, name="one row", **options),
    ]


@cases("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(request: Request) -> list[Case]:
    x = request.random("T", (3, 5))
    return [
        Case([x, np.array([4, 0, 2])]),
        Case([x[0], np.array([1, 1])], name="vector"),
        Case([x, np.array([[3, 1]])], name="row of indices"),
    ]


@cases("Binarizer", domain=ML)
def binarizer(request: Request) -> list[Case]:
    x = request.random("T", (4, 3))
    return [
        Case([x], {"threshold": threshold}, expected=lambda x, t=threshold: (x > t).astype(x.dtype))
        for threshold in (0.5, -1.0, 1e30)
    ]


@cases("Scaler", domain=ML)
def scaler(request: Request) -> list[Case]:
    x = request.random("T", (4, 3))
    each = {"offset": floats(request, 3), "scale": floats(request, 3)}
    return [
        *batches(x, each, oracle=ORT),
        Case([x], {"offset": [0.5], "scale": [-2.0]}, oracle=ORT, name="one for all"),
        Case([x[0]], each, oracle=ORT, name="vector"),
    ]


@cases("Normalizer", domain=ML)
def normalizer(request: Request) -> list[Case]:
    x = request.random("T", (4, 3))
    x[1] = 0
    x[2] = -np.abs(x[2])
    note = (
        "MAX divides by the largest element, as the text says and ONNX Runtime does; the reference "
        "evaluator divides by the largest magnitude. L1 divides by the sum of magnitudes."
    )
    return [
        Case([x], {"norm": norm}, oracle=ORT, name=norm, note=note) for norm in ("MAX", "L1", "L2")
    ] + [Case([x[0]], {"norm": "L2"}, oracle=ORT, name="vector")]


@cases("Imputer", domain=ML)
def imputer(request: Request) -> list[Case]:
    x = request.random("T", (6, 3))
    x[1, 0] = x[2, 1] = 1
    if x.dtype.kind == "i":
        return [
            Case([x], {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 1}),
            Case([x], {"imputed_value_int64s": [7], "replaced_value_int64": 1}, name="one"),
        ]
    missing = x.copy()
    missing[0, 1] = missing[3] = np.nan
    return [
        Case([x], {"imputed_value_floats": [7.5, 8, 9], "replaced_value_float": 1.0}),
        Case(
            [missing],
            {"imputed_value_floats": [7.5], "replaced_value_float": float("nan")},
            name="NaN",
        ),
    ]


@cases("FeatureVectorizer", domain=ML)
def feature_vectorizer(request: Request) -> list[Case]:
    x, y = request.random("T1", (4, 3)), request.random("T1", (4, 2))
    return [
        Case([x, y], {"inputdimensions": [3, 2]}, oracle=ORT),
        Case([x, y], {"inputdimensions": [2, 4]}, oracle=ORT, name="cut and filled"),
        Case([x[0]], {"inputdimensions": [3]}, oracle=ORT, name="vector"),
    ]


@cases("OneHotEncoder", domain=ML)
def one_hot_encoder(request: Request) -> list[Case]:
    if request.type("T") == "tensor(string)":
        x, kinds = np.array([["a", "c"], ["b", "z"]], object), {"cats_strings": ["c", "b", "a"]}
    else:
        x, kinds = (
            np.array([[1, 2], [-1, 7]]).astype(request.dtype("T")),
            {"cats_int64s": [2, 1, -1]},
        )
    known = [Case([x[0]], {**kinds, "zeros": 0}, name="all known")]
    return [Case([x], kinds), Case([x[1]], kinds, name="vector"), *known]


@cases("CategoryMapper", domain=ML)
def category_mapper(request: Request) -> list[Case]:
    ints, strings = np.array([[1, 5], [2, 1]]), np.array([["a", "b"], ["z", "a"]], object)
    table = {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}
    if _maps_to_ints(request):
        wanted = _mapped(strings, [1, 2, 9])
        return [Case([strings], {**table, "default_int64": 9}, expected=wanted, types=TO_INTS)]
    wanted = _mapped(ints, ["a", "b", "?"])
    return [Case([ints], {**table, "default_string": "?"}, expected=wanted, types=TO_STRINGS)]


TO_INTS = {"T1": "tensor(string)", "T2": "tensor(int64)"}
TO_STRINGS = {"T1": "tensor(int64)", "T2": "tensor(string)"}


def _maps_to_ints(request: Request) -> bool:
    return request.type(request.varied) == TO_INTS[request.varied]


def _mapped(x: np.ndarray, values: list) -> list[np.ndarray]:
    """The keys a and b, or 1 and 2, become the first two values; all else the last."""
    positions = {"a": 0, "b": 1, 1: 0, 2: 1}
    dtype = object if isinstance(values[0], str) else np.int64
    flat = [values[positions.get(key, 2)] for key in x.ravel().tolist()]
    return [np.array(flat, dtype).reshape(x.shape)]


@cases("LabelEncoder", domain=ML)
def label_encoder(request: Request) -> list[Case]:
    keys, values = request.dtype("T1"), request.dtype("T2")
    if request.version == 1:
        return _by_position(request)
    key_list = ["a", "b"] if keys.kind == "O" else [1, 2]
    value_list = ["x", "y", "z"] if values.kind == "O" else [10, 20, 30]
    x = np.array(["b", "z", "a"] if keys.kind == "O" else [2, 7, 1], keys)
    wanted = np.array([value_list[1], value_list[2], value_list[0]], values)
    found = []
    if request.version >= 4:
        attributes = {
            "keys_tensor": _tensor(keys, key_list),
            "values_tensor": _tensor(values, value_list[:2]),
            "default_tensor": _tensor(values, value_list[2:]),
        }
        found.append(Case([x], attributes, expected=[wanted], name="tensors"))
    names = {"O": "string", "i": "int64", "f": "float"}
    listed = ("object", "int64", "float32")
    if keys.name in listed and values.name in listed:
        attributes = {
            f"keys_{names[keys.kind]}s": key_list,
            f"values_{names[values.kind]}s": value_list[:2],
            f"default_{names[values.kind]}": value_list[2],
        }
        found.append(Case([x.reshape(3, 1)], attributes, expected=[wanted.reshape(3, 1)]))
        if keys.kind == "f" and values.kind == "i":
            attributes = {"keys_floats": [float("nan"), 2.0], "values_int64s": [5, 6]}
            x = np.array([np.nan, 2, 3], keys)
            found.append(Case([x], attributes, expected=[np.array([5, 6, -1])], name="NaN"))
    return found


def _tensor(dtype: np.dtype, values: list):
    return helper.make_tensor("", data_type(dtype), [len(values)], values)


def _by_position(request: Request) -> list[Case]:
    names = {"classes_strings": ["a", "b", "c"]}
    if _maps_to_ints(request):
        x = np.array([["c", "z"], ["a", "b"]], object)
        return [Case([x], names, expected=[np.array([[2, -1], [0, 1]])], types=TO_INTS)]
    x = np.array([[2, 9], [0, 1]])
    wanted = np.array([["c", "?"], ["a", "b"]], object)
    return [Case([x], {**names, "default_string": "?"}, expected=[wanted], types=TO_STRINGS)]


@cases("LinearRegressor", domain=ML)
def linear_regressor(request: Request) -> list[Case]:
    x = request.random("T", (5, 3))
    weights, offsets = floats(request, 2, 3), floats(request, 2)

    def scores(x, offsets=offsets):
        return x.astype(np.float64) @ np.reshape(weights, (2, 3)).T + offsets

    def softmax(x):
        power = np.exp(scores(x))
        return power / power.sum(1, keepdims=True)

    # The reference evaluator keeps the type of x, and ONNX Runtime knows float alone.
    two = {"coefficients": weights, "intercepts": offsets, "targets": 2}
    return [
        Case([x], two, expected=scores),
        Case([x[:1]], two, expected=scores, name="one row"),
        Case([x[:0]], two, expected=scores, name="no row"),
        Case(
            [x],
            {"coefficients": weights, "targets": 2},
            expected=lambda x: scores(x, 0),
            name="no intercepts",
        ),
        Case([x], {**two, "post_transform": "SOFTMAX"}, expected=softmax, name="SOFTMAX"),
        Case(
            [x],
            {**two, "post_transform": "LOGISTIC"},
            expected=lambda x: 1 / (1 + np.exp(-scores(x))),
            name="LOGISTIC",
        ),
    ]


TWO_NOTE = (
    "One score of two classes: the text is silent on what becomes of it. As in ONNX Runtime, the "
    "scores are 1 - s and s, or the logistic of -s and s; the reference evaluator has -s and s."
)


@cases("LinearClassifier", domain=ML)
def linear_classifier(request: Request) -> list[Case]:
    x = request.random("T1", (6, 3))
    found = []
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        three = {
            "coefficients": floats(request, 3, 3),
            "intercepts": floats(request, 3),
            "post_transform": transform,
            **labels(request, 3, "classlabels_ints"),
        }
        one = {
            "coefficients": floats(request, 1, 3),
            "intercepts": floats(request, 1),
            "post_transform": transform,
            **labels(request, 2, "classlabels_ints"),
        }
        found += [
            Case([x], three, oracle=ORT, name=transform),
            Case([x], one, oracle=ORT, name=f"{transform} of one score", note=TWO_NOTE),
            Case([x[0]], three, oracle=ORT, name=f"{transform} of a vector"),
        ]
    return found


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def kernel_of(kind: str, x: np.ndarray, vectors: np.ndarray, gamma, offset, degree) -> np.ndarray:
    if kind == "RBF":
        return np.exp(-gamma * np.square(x[:, None] - vectors).sum(-1))
    product = x @ vectors.T
    if kind == "LINEAR":
        return product
    scaled = gamma * product + offset
    return scaled**degree if kind == "POLY" else np.tanh(scaled)


@cases("SVMRegressor", domain=ML)
def svm_regressor(request: Request) -> list[Case]:
    x, vectors = request.random("T", (5, 3)), np.float32(request.rng.normal(size=(4, 3)))
    weights, rho = floats(request, 4), floats(request, 1)
    # ONNX Runtime knows float alone; the reference evaluator computes in the type of x.
    found = []
    for kind in KERNELS:
        attributes = {
            "coefficients": weights,
            "rho": rho,
            "support_vectors": [float(v) for v in vectors.ravel()],
            "n_supports": 4,
            "kernel_type": kind,
            "kernel_params": [0.25, 0.5, 2.0],
        }

        def scores(x, kind=kind):
            kernel = kernel_of(kind, np.float64(x), np.float64(vectors), 0.25, 0.5, 2)
            return (kernel @ weights + rho[0])[:, None]

        found += [
            Case([x], attributes, expected=scores, name=kind),
            Case(
                [x],
                {**attributes, "one_class": 1},
                expected=lambda x, scores=scores: np.where(scores(x) > 0, 1.0, -1.0),
                name=f"{kind}, one class",
            ),
        ]
    linear = {"coefficients": weights[:3], "rho": rho, "n_supports": 0}
    found.append(
        Case(
            [x],
            linear,
            expected=lambda x: (np.float64(x) @ weights[:3] + rho[0])[:, None],
            name="no vectors",
        )
    )
    return found


@cases("SVMClassifier", domain=ML)
def svm_classifier(request: Request) -> list[Case]:
    x = request.random("T1", (6, 3))
    found = []
    for kind, transform in zip(KERNELS, ("NONE", "LOGISTIC", "SOFTMAX", "NONE"), strict=True):
        for classes in (2, 3):
            counts = [2, 1, 3][:classes]
            pairs = classes * (classes - 1) // 2
            votes = {
                "coefficients": floats(request, classes - 1, sum(counts)),
                "support_vectors": floats(request, sum(counts), 3),
                "vectors_per_class": counts,
                "rho": floats(request, pairs),
                "kernel_type": kind,
                "kernel_params": [0.25, 0.5, 2.0],
                "post_transform": transform,
                **labels(request, classes, "classlabels_ints"),
            }
            chances = {
                "prob_a": [-abs(v) for v in floats(request, pairs)],
                "prob_b": [0.25] * pairs,
            }
            name = f"{kind}, {classes} classes"
            options = {"oracle": ORT, "rtol": 1e-4, "atol": 1e-5}
            found += [
                Case([x], votes, name=name, **options),
                Case([x], {**votes, **chances}, name=f"{name}, probabilities", **options),
            ]
    for classes in (2, 3):
        linear = {
            "coefficients": floats(request, classes, 3),
            "rho": floats(request, 1),
            "kernel_type": "LINEAR",
            "kernel_params": [0.0, 0.0, 0.0],
            **labels(request, classes, "classlabels_ints"),
        }
        found.append(Case([x], linear, oracle=ORT, name=f"linear, {classes} classes"))
    return found


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
            found[f"{name}_as_tensor"] = _tensor(np.dtype(np.float64), value)
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
        "nodes_splits": _tensor(dtype, [0, 2, 0]),
        "nodes_featureids": [0, 1, 1],
        "nodes_modes": _tensor(np.dtype(np.uint8), [6, 0, 3]),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 4],
        "nodes_falseleafs": [0, 1, 1],
        "nodes_missing_value_tracks_true": [0, 0, 1],
        "membership_values": _tensor(dtype, [2, 4, float("nan")]),
        "leaf_targetids": [0, 1, 0, 0, 1],
        "leaf_weights": _tensor(dtype, [1.5, -2, 0.5, 4, -0.25]),
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


MAP_NOTE = "The text speaks of a 1-D tensor; ONNX Runtime, for which models are made, gives a row."


@cases("DictVectorizer", domain=ML)
def dict_vectorizer(request: Request) -> list[Case]:
    key, value = [part.strip() for part in request.type("T1")[4:-1].split(",")]
    if request.varied == "T2":
        key = "int64" if "string" in request.type("T2") else "string"
        value = request.type("T2")[7:-1]
    keys = ["b", "a", "d"] if key == "string" else [3, 1, 9]
    vocabulary = ["a", "b", "c"] if key == "string" else [1, 3, 4]
    numbers = {"string": ["x", "y", "z"], "int64": [5, 6, 7]}.get(value, [0.5, -1.5, 2])
    dtype = {"string": object, "int64": np.int64, "float": np.float32, "double": np.float64}[value]
    items = {k: np.asarray(v, dtype)[()] for k, v in zip(keys, numbers, strict=True)}
    wanted = np.array([[numbers[1], numbers[0], "" if value == "string" else 0]], dtype)
    name = f"{key}_vocabulary"
    attributes, types = {name: vocabulary}, {"T2": f"tensor({value})"}
    return [Case([items], attributes, expected=lambda _: [wanted], note=MAP_NOTE, types=types)]


@cases("CastMap", domain=ML)
def cast_map(request: Request) -> list[Case]:
    texts = "string" in request.type("T1")
    to = request.type("T2")[7:-1]
    items = {4: "1", 1: "7"} if texts else {4: np.float32(1.5), 1: np.float32(-7)}
    pad = {"string": "0.f", "float": 0, "int64": 0}[to]
    shown = {
        "string": ["7", "1"] if texts else ["-7.000000", "1.500000"],
        "float": [7, 1] if texts else [-7, 1.5],
        "int64": [7, 1] if texts else [-7, 1],
    }[to]
    dtype = {"string": object, "int64": np.int64, "float": np.float32}[to]
    cast = {"cast_to": f"TO_{to.upper()}"}
    sparse = np.array([[pad, shown[0], pad, pad, shown[1], pad]], dtype)
    return [
        Case([items], cast, expected=[np.array([shown], dtype)]),
        Case(
            [items], {**cast, "map_form": "SPARSE", "max_map": 6}, expected=[sparse], name="sparse"
        ),
    ]


@cases("ZipMap", domain=ML)
def zip_map(request: Request) -> list[Case]:
    x = np.array([[0.5, 0.25], [-1, 2]], np.float32)
    texts = "string" in request.type("T")
    keys = ["b", "a"] if texts else [7, 3]
    name = "classlabels_strings" if texts else "classlabels_int64s"

    def maps(x):
        return [[{keys[1]: row[1], keys[0]: row[0]} for row in np.reshape(x, (-1, 2))]]

    return [Case([x], {name: keys}, expected=maps), Case([x[0]], {name: keys}, expected=maps)]
