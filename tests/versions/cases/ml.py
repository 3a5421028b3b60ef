"""Operators of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
import onnx
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
            "keys_tensor": tensor_of(keys, key_list),
            "values_tensor": tensor_of(values, value_list[:2]),
            "default_tensor": tensor_of(values, value_list[2:]),
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


def tensor_of(dtype: np.dtype, values: list) -> onnx.TensorProto:
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
