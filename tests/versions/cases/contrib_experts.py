"""Contributed products: distances, weights of 4 bits, mixtures of experts.

Checked as those in `contrib.py`; what ONNX Runtime's CPU kernels refuse, by formulas in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN, checked
from tests.versions.cases.contrib_gates import by_formula


def wide(value: Any) -> np.ndarray:
    """Floats of any type in float64."""
    return np.asarray(value).astype(np.float32).astype(np.float64)


@cases("TransposeMatMul", domain=DOMAIN)
def transpose_matmul(request: Request) -> list[Case]:
    random = lambda *shape: request.random("T", shape)  # noqa: E731
    both = {"transA": 1, "transB": 1}
    found = [
        Case([random(2, 3, 4), random(2, 4, 5)]),
        Case([random(2, 3, 4), random(5, 4)], {"transB": 1, "alpha": 0.5}, name="B and alpha"),
        Case([random(4, 3), random(2, 4, 5)], {"transA": 1}, name="A"),
        Case([random(4, 3), random(5, 4)], {**both, "alpha": -2.0}, name="both"),
        Case([random(4), random(4)], name="vectors"),
    ]
    return checked(request, found)


def distances(metric: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """SciPy's definitions, of all pairs."""
    n = a.shape[1]
    x, y = a[:, None], b[None]
    gap, truths = np.abs(x - y), (x != 0, y != 0)
    both = np.sum(truths[0] & truths[1], -1)
    first = np.sum(truths[0] & ~truths[1], -1)
    second = np.sum(~truths[0] & truths[1], -1)
    one, none = first + second, n - both - first - second
    unit = lambda p: p / np.linalg.norm(p, axis=1, keepdims=True)  # noqa: E731
    cosine = lambda p, q: 1 - unit(p) @ unit(q).T  # noqa: E731
    centred = lambda p: p - p.mean(1, keepdims=True)  # noqa: E731
    p, q = x / x.sum(-1, keepdims=True), y / y.sum(-1, keepdims=True)
    logs = lambda p, q: np.sum(p * np.log(2 * p / (p + q)), -1)  # noqa: E731
    with np.errstate(all="ignore"):
        found = {
            "sqeuclidean": lambda: np.sum(gap**2, -1),
            "euclidean": lambda: np.sqrt(np.sum(gap**2, -1)),
            "minkowski": lambda: np.sqrt(np.sum(gap**2, -1)),
            "cityblock": lambda: np.sum(gap, -1),
            "chebyshev": lambda: np.max(gap, -1),
            "canberra": lambda: np.sum(gap / np.where(gap == 0, 1, np.abs(x) + np.abs(y)), -1),
            "braycurtis": lambda: np.sum(gap, -1) / np.sum(np.abs(x + y), -1),
            "cosine": lambda: cosine(a, b),
            "correlation": lambda: cosine(centred(a), centred(b)),
            "hamming": lambda: np.mean(x != y, -1),
            "matching": lambda: np.mean(x != y, -1),
            "jaccard": lambda: np.sum(x != y, -1) / np.sum(truths[0] | truths[1], -1),
            "dice": lambda: one / (2 * both + one),
            "russellrao": lambda: (n - both) / n,
            "rogerstanimoto": lambda: 2 * one / (both + none + 2 * one),
            "sokalmichener": lambda: 2 * one / (both + none + 2 * one),
            "sokalsneath": lambda: 2 * one / (both + 2 * one),
            "kulsinski": lambda: (one - both + n) / (one + n),
            "yule": lambda: 2 * first * second / np.maximum(both * none + first * second, 1),
            "jensenshannon": lambda: np.sqrt((logs(p, q) + logs(q, p)) / 2),
        }
        return found[metric]()


TRUTHS = ("dice", "russellrao", "rogerstanimoto", "sokalmichener", "sokalsneath", "kulsinski")
OTHERS = ("cityblock", "chebyshev", "canberra", "braycurtis", "cosine", "correlation", "minkowski")


@cases("CDist", domain=DOMAIN)
def cdist(request: Request) -> list[Case]:
    a, b = request.random("T", (5, 7)), request.random("T", (3, 7))
    found = checked(
        request,
        [
            Case([a, b]),
            Case([a, b], {"metric": "euclidean"}, name="euclidean"),
            Case([a[:1], b[:, :1].repeat(7, 1)], {"metric": "euclidean"}, name="one row"),
        ],
    )
    dtype = a.dtype
    ints = [request.rng.integers(0, 3, (size, 7)).astype(dtype) for size in (5, 3)]
    for each in ints:
        each[:, 0] = 1
    rows = [(name, a, b) for name in OTHERS]
    rows += [(name, *ints) for name in (*TRUTHS, "hamming", "matching", "jaccard", "yule")]
    rows.append(("jensenshannon", np.abs(a) + dtype.type(0.1), np.abs(b) + dtype.type(0.1)))
    # Near each other, and far from zero: nothing cancels.
    near = (np.float64(1000) + request.rng.uniform(-1, 1, (6, 7))).astype(dtype)
    rows += [("sqeuclidean", near[:4], near[3:]), ("euclidean", near[:3], near[3:])]
    for name, left, right in rows:
        expected = distances(name, left.astype(np.float64), right.astype(np.float64))
        case = Case([left, right], {"metric": name}, name=f"{name} of {left[0, 0]:.3g}")
        found.append(by_formula(case, [expected.astype(dtype)], dtype))
    return found


THIRDS = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3]) / 12
CODES = {
    0: np.concatenate([THIRDS, -THIRDS]),
    1: np.array(
        """-1 -0.69619280 -0.52507305 -0.39491749 -0.28444138 -0.18477343 -0.09105004 0
        0.07958030 0.16093020 0.24611230 0.33791524 0.44070983 0.56261700 0.72295684 1""".split(),
        np.float64,
    ),
}


@cases("MatMulBnb4", domain=DOMAIN)
def matmul_bnb4(request: Request) -> list[Case]:
    rng, found = request.rng, []
    for name, n, k, block, rows, transposed in (
        ("blocks of rows", 5, 32, 16, (3,), 1),
        ("one row", 70, 64, 32, (1,), 1),
        ("many rows", 37, 128, 64, (2, 9), 1),
        ("blocks across rows", 3, 20, 16, (2, 3), 1),
        ("an odd number", 3, 5, 16, (2,), 1),
        ("not transposed", 6, 32, 16, (4,), 0),  # theirs reads beyond the weights
        ("a vector", 6, 32, 16, (), 1),
    ):
        for kind in (0, 1):
            count = n * k
            x = request.random("T1", (*rows, k if transposed else n))
            b = rng.integers(0, 256, (count + 1) // 2).astype(np.uint8)
            scales = request.random("T1", ((count + block - 1) // block,), 0.25, 1)
            attributes = {"K": k, "N": n, "block_size": block, "quant_type": kind}
            if not transposed:
                attributes["transB"] = 0
            found.append(
                Case(
                    [x, b, scales],
                    attributes,
                    initializers=(1, 2),
                    name=f"{name}, {('FP4', 'NF4')[kind]}",
                )
            )
    found.append(Case(found[0].inputs, found[0].attributes, name="weights that are no constants"))
    others = [case for case in found if "transB" in case.attributes]
    found = checked(request, [case for case in found if "transB" not in case.attributes])
    for case in others:
        x, b, scales = case.inputs
        n, block = case.attributes["N"], case.attributes["block_size"]
        values = CODES[case.attributes["quant_type"]][np.stack([b >> 4, b & 15], 1).reshape(-1)]
        weights = (values * np.repeat(wide(scales), block)).reshape(n, -1)
        found.append(by_formula(case, [(wide(x) @ weights).astype(x.dtype)], x.dtype))
    return found


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@dataclass
class Experts:
    """A mixture of experts in float64."""

    layers: list[tuple[np.ndarray, np.ndarray | None] | None]
    k: int = 1
    activation: str = "relu"
    fusion: int = 0
    alpha: float = 1.0
    beta: float = 0.0
    limit: float = np.inf
    over_chosen: bool = False
    sparse_mixer: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def attributes(self) -> dict[str, Any]:
        """Those that make the operator this."""
        found = {"k": self.k, "activation_type": self.activation, "swiglu_fusion": self.fusion}
        if self.activation == "swiglu":
            found |= {"activation_alpha": self.alpha, "activation_beta": self.beta}
            if self.limit != np.inf:
                found["swiglu_limit"] = self.limit
        if self.over_chosen:
            found["normalize_routing_weights"] = 1
        if self.sparse_mixer:
            found["use_sparse_mixer"] = 1
        return found | self.extra

    def mixed(self, logits: np.ndarray) -> tuple[list[int], list[float]]:
        """What SparseMixer chooses for a token, with the shares."""
        chosen, shares, left = [], [], logits.copy()
        for _ in range(self.k):
            best = int(np.argmax(left))
            gap = (left[best] - logits) / np.maximum(np.abs(logits), left[best])
            shares.append(softmax(np.where(gap > 0.02, -np.inf, left))[best])
            chosen.append(best)
            left[best] = -np.inf
        return chosen, shares

    def layer(self, index: int, expert: int, x: np.ndarray) -> np.ndarray | None:
        if index >= len(self.layers) or self.layers[index] is None:
            return None
        w, bias = self.layers[index]
        return w[expert] @ x + (0 if bias is None else bias[expert])

    def between(self, first: np.ndarray, third: np.ndarray | None) -> np.ndarray:
        if self.activation == "swiglu":
            gate, line = first, third
            if self.fusion == 1:
                gate, line = first[::2], first[1::2]
            if self.fusion == 2:
                gate, line = np.split(first, 2)
            gate, line = np.minimum(gate, self.limit), np.clip(line, -self.limit, self.limit)
            return gate / (1 + np.exp(-self.alpha * gate)) * (line + self.beta)
        inner = {
            "relu": lambda x: np.maximum(x, 0),
            "silu": lambda x: x / (1 + np.exp(-x)),
            "identity": lambda x: x,
            "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        }[self.activation](first)
        return inner if third is None else inner * third

    def run(self, x: np.ndarray, logits: np.ndarray, weights: np.ndarray | None = None):
        rows, logits = wide(x).reshape(-1, x.shape[-1]), wide(logits)
        y = np.zeros_like(rows)
        for t, row in enumerate(rows):
            chosen = np.argsort(-logits[t], kind="stable")[: self.k]
            if weights is not None:
                shares = wide(weights)[t][chosen]
                shares = shares / shares.sum() if self.over_chosen else shares
            else:
                one = softmax(logits[t][chosen])
                shares = one if self.over_chosen else softmax(logits[t])[chosen]
            if self.sparse_mixer:
                chosen, shares = self.mixed(logits[t])
            for expert, share in zip(chosen, shares, strict=True):
                inner = self.between(self.layer(0, expert, row), self.layer(2, expert, row))
                y[t] += share * self.layer(1, expert, inner)
        return y.reshape(x.shape)


SWIGLU = {"activation": "swiglu", "alpha": 1.702, "beta": 1.0, "limit": 0.75}


@cases("MoE", domain=DOMAIN)
def moe(request: Request) -> list[Case]:
    experts, hidden, inter = 5, 12, 20
    random = lambda *shape: request.random("T", shape, -0.75, 0.75)  # noqa: E731
    ran, refused = [], []
    for name, tokens, constant, bias, has_third, given in (
        ("", (6,), True, True, False, {}),
        ("two experts", (6,), True, True, False, {"k": 2}),
        ("normalised", (2, 3), True, True, False, {"k": 2, "over_chosen": True}),
        ("one token", (1,), True, False, False, {"k": 3, "activation": "silu"}),
        ("no constants", (9,), False, True, False, {"k": 2, "activation": "gelu"}),
        ("no constants, one token", (1,), False, True, False, {"k": 5}),
        ("identity", (40,), True, True, False, {"k": 2, "activation": "identity"}),
        ("swiglu", (6,), True, True, False, {"k": 2, "fusion": 1, **SWIGLU}),
        ("swiglu of halves", (6,), True, True, False, {"k": 2, "fusion": 2, **SWIGLU}),
        ("swiglu of two", (6,), True, True, True, {"k": 2, **SWIGLU}),
        ("no limit", (6,), True, False, True, {"activation": "swiglu"}),
        ("gated", (6,), True, True, True, {"k": 2, "activation": "silu"}),
        ("sparse mixer", (40,), True, True, False, {"k": 2, "sparse_mixer": True}),
    ):
        x, logits = request.random("T", (*tokens, hidden)), None
        count = int(np.prod(tokens))
        # Apart, so that rounding chooses nobody else.
        order = np.stack([request.rng.permutation(experts) for _ in range(count)])
        logits = (order * 0.5 - 1).astype(x.dtype)
        if given.get("sparse_mixer"):  # some of which come near each other
            logits = (4 + order * 0.0625).astype(x.dtype)
        width = inter * 2 if given.get("fusion") else inter
        shapes = [(width, hidden), (hidden, inter)] + [(inter, hidden)] * has_third
        layers = [
            (random(experts, *shape), random(experts, shape[0]) if bias else None)
            for shape in shapes
        ]
        inputs = [x, logits, *(value for layer in layers for value in layer)]
        mixture = Experts([(wide(w), None if b is None else wide(b)) for w, b in layers], **given)
        initializers = [i for i in range(2, len(inputs)) if inputs[i] is not None]
        case = Case(
            inputs,
            mixture.attributes(),
            initializers=initializers if constant else (),
            name=name,
        )
        if has_third or given.get("fusion") == 2 or given.get("sparse_mixer"):
            refused.append(by_formula(case, [mixture.run(x, logits).astype(x.dtype)], x.dtype))
        else:
            ran.append(case)
    return checked(request, ran) + refused


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of some bits in bytes, along the last axis."""
    each = 8 // bits
    padding = [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % each)]
    codes = np.pad(codes, padding).reshape(*codes.shape[:-1], -1, each).astype(np.uint32)
    return (codes << (np.arange(each) * bits)).sum(-1).astype(np.uint8)


@dataclass
class Stored:
    """The matrices of a layer as the operator has them, and in float64."""

    codes: np.ndarray
    scales: np.ndarray | None
    zeros: np.ndarray | None
    matrices: np.ndarray
    global_scale: np.ndarray | None = None


def integers(request: Request, e: int, n: int, k: int, bits: int, block: int, zeros: bool):
    """Weights in blocks of rows, or (0) with one scale for a row."""
    blocks = k // block if block else 1
    codes = request.rng.integers(0, 1 << bits, (e, n, k))
    scales = (request.rng.uniform(0.125, 0.25, (e, n, blocks)) * 2.0**-bits).astype(np.float32)
    scales = scales.astype(request.dtype("T2"))
    zero = np.full((e, n, blocks), 1 << (bits - 1))
    if zeros:
        zero = request.rng.integers(0, 1 << bits, (e, n, blocks))
    spread = lambda value: np.repeat(value, k // blocks, 2)  # noqa: E731
    matrices = (codes - spread(zero)) * spread(wide(scales))
    if not block:
        scales, zero = scales[..., 0], zero[..., 0]
    return Stored(packed(codes, bits), scales, packed(zero, bits) if zeros else None, matrices)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def small_floats(request: Request, e: int, n: int, k: int, kind: str, block: int) -> Stored:
    """Weights in float8e4m3fn or E2M1."""
    rng = request.rng
    shared = rng.uniform(0.5, 1, e).astype(np.float32)
    each = lambda value: value.astype(np.float64)[:, None, None]  # noqa: E731
    if kind == "fp8":
        codes = rng.uniform(-1, 1, (e, n, k)).astype(ml_dtypes.float8_e4m3fn)
        if not block:
            return Stored(codes, None, None, wide(codes) * each(shared), shared)
        scales = rng.uniform(0.5, 1, (e, -(-n // block), -(-k // block)))
        scales = scales.astype(np.float32).astype(request.dtype("T2"))
        spread = np.repeat(np.repeat(wide(scales), block, 1), block, 2)[:, :n, :k]
        return Stored(codes, scales, None, wide(codes) * spread)
    codes = rng.integers(0, 16, (e, n, k))
    values = np.where(codes > 7, -1, 1) * FP4[codes & 7]
    block, type_ = (32, ml_dtypes.float8_e8m0fnu) if kind == "fp4" else (16, None)
    scales = 2.0 ** rng.integers(-3, 1, (e, n, k // block))
    scales = scales.astype(np.float32).astype(type_ or ml_dtypes.float8_e4m3fn)
    matrices = values * np.repeat(wide(scales), block, 2) * each(shared)
    return Stored(packed(codes, 4), scales, None, matrices, shared)


def quantised(
    request: Request, name: str, layers: list[Stored], tokens: tuple[int, ...], own, **given
) -> Case:
    """Make a case; `own`: with router_weights."""
    experts, hidden = layers[0].matrices.shape[0], layers[0].matrices.shape[2]
    x = request.random("T", (*tokens, hidden))
    count = int(np.prod(tokens))
    order = np.stack([request.rng.permutation(experts) for _ in range(count)])
    logits = (order * 0.5 - 1).astype(x.dtype)
    weights = request.random("T", (count, experts), 0.25, 1) if own else None
    bias = [request.random("T", layer.matrices.shape[:2], -0.5, 0.5) for layer in layers]
    inputs: list[Any] = [None] * 17
    inputs[:2], inputs[14] = [x, logits], weights
    for i, layer in enumerate(layers):
        inputs[2 + 3 * i : 5 + 3 * i] = layer.codes, layer.scales, bias[i]
        inputs[11 + i] = layer.zeros
        if i < 2:
            inputs[15 + i] = layer.global_scale
    initializers = [i for i in range(2, 17) if inputs[i] is not None and i != 14]
    mixture = Experts(
        [(layer.matrices, wide(b)) for layer, b in zip(layers, bias, strict=True)], **given
    )
    while inputs[-1] is None:
        inputs.pop()
    types = {parameter: request.type(parameter) for parameter in ("T", "T1", "T2")}
    case = Case(inputs, mixture.attributes(), initializers=initializers, name=name, types=types)
    if not own:
        mixture.over_chosen = True  # which the kernel of ONNX Runtime takes for granted
    return by_formula(case, [mixture.run(x, logits, weights).astype(x.dtype)], x.dtype)


@cases("QMoE", domain=DOMAIN)
def qmoe(request: Request) -> list[Case]:
    kind = request.type("T2")
    if request.varied == "T1" and "float8" in request.type("T1"):
        return small(request, "fp8")
    request.having({"T1": "tensor(uint8)"})
    if request.varied == "T2" and "float8" in kind:
        return small(request, "fp4" if "e8m0" in kind else "nvfp4")
    found = []
    for name, bits, block, zeros, tokens, own, has_third, given in (
        ("", 4, 0, False, (5,), False, False, {}),
        ("zero points", 4, 0, True, (5,), False, False, {"k": 2}),
        ("8 bits", 8, 0, True, (2, 3), False, False, {"k": 2, "activation": "silu"}),
        ("2 bits", 2, 0, True, (5,), False, False, {"k": 2, "activation": "gelu"}),
        ("blocks", 4, 32, False, (1,), False, False, {"k": 2, "fusion": 1, **SWIGLU}),
        ("blocks and zero points", 4, 16, True, (30,), True, False, {"k": 2, "over_chosen": True}),
        ("blocks of 8 bits", 8, 32, True, (5,), True, False, {"k": 2, "activation": "identity"}),
        ("blocks of 2 bits", 2, 16, True, (5,), False, False, {"k": 3}),
        ("halves", 4, 32, True, (5,), False, False, {"k": 2, "fusion": 2, **SWIGLU}),
        ("third layer", 4, 0, True, (5,), False, True, {"k": 2, **SWIGLU}),
        ("gated", 8, 16, True, (5,), False, True, {"k": 2, "activation": "silu"}),
    ):
        experts, hidden, inter = 4, 32, 64
        width = inter * (2 if given.get("fusion") else 1)
        shapes = [(width, hidden), (hidden, inter)] + [(inter, hidden)] * has_third
        layers = [integers(request, experts, *shape, bits, block, zeros) for shape in shapes]
        extra = {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
        case = quantised(request, name, layers, tokens, own, extra=extra, **given)
        found.append(case)
    mixed = [
        integers(request, 4, 64, 32, 2, 16, True),
        integers(request, 4, 32, 64, 8, 16, True),
    ]
    extra = {"fc1_expert_weight_bits": 2, "fc2_expert_weight_bits": 8, "block_size": 16}
    found.append(quantised(request, "bits of each layer", mixed, (5,), False, k=2, extra=extra))
    odd = [integers(request, 3, 18, 20, 4, 0, True), integers(request, 3, 20, 18, 4, 0, True)]
    found.append(quantised(request, "odd sizes", odd, (6,), False, k=2))
    last = found[1]
    found.append(
        Case(
            last.inputs,
            last.attributes,
            name="no constants",
            expected=last.expected,
            rtol=last.rtol,
            atol=last.atol,
            types=last.types,
        )
    )
    return found


def small(request: Request, kind: str) -> list[Case]:
    """Small floats, of one size a block or an expert."""
    found = []
    if kind == "fp8":
        request.having({"T1": "tensor(float8e4m3fn)"})
    for block in (0, 16) if kind == "fp8" else (0,):
        shapes = ((32, 72), (72, 32)) if kind == "fp8" else ((32, 64), (64, 32))
        layers = [small_floats(request, 3, *shape, kind, block) for shape in shapes]
        extra = {"quant_type": kind} | ({"block_size": block} if block else {})
        given = {"k": 2, "extra": extra}
        found.append(quantised(request, f"{kind} {block}", layers, (5,), False, **given))
    return found
