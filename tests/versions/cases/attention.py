"""Attention in its forms, and what stands beside it in language models."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.versions.case import Case, Request, cases


@cases("Attention")
def attention(request: Request) -> list[Case]:
    heads, few = (2, 4, 3, 8), (2, 2, 5, 8)
    q, k = request.random("T1", heads), request.random("T1", few)
    v = request.random("T2" if request.varied == "T2" else "T1", (2, 2, 5, 6))
    mask = request.random("U" if request.varied == "U" else np.bool_, (3, 5))
    if mask.dtype == bool:
        mask[:, 0] = True
    equal = k[:, :, :3]
    past, past_v = k[:, :, :2], v[:, :, :2]
    found = [
        Case([q, k, v], name="grouped heads"),
        Case([q, k, v, mask], {"scale": 0.25}, name="mask"),
        Case([q, k, v], {"is_causal": 1}, name="causal"),
        Case([q, k, v], {"softcap": 1.5}, outputs=1, name="soft cap"),
        Case([q, equal, v[:, :, :3], None, past, past_v], {"is_causal": 1}, outputs=3, name="past"),
        Case([q, k, v], {"softmax_precision": TensorProto.DOUBLE}, name="precision"),
    ]
    for mode in range(4):
        # The reference evaluator gives capped values for mode 0, against the text.
        cap = 2.0 if mode else 0.0
        attributes = {"qk_matmul_output_mode": mode, "softcap": cap}
        if mask.dtype.kind not in "iu":  # whose -inf the reference evaluator fails on
            attributes["is_causal"] = 1
        asked = [True, False, False, True]
        found.append(Case([q, k, v, mask], attributes, outputs=asked, name=f"mode {mode}"))
    flat_q = request.random("T1", (2, 3, 32))
    flat_k, flat_v = request.random("T1", (2, 5, 16)), v.reshape(2, 5, 12)
    flat = {"q_num_heads": 4, "kv_num_heads": 2}
    found.append(Case([flat_q, flat_k, flat_v], flat, name="rank 3"))
    if request.version >= 24:
        lengths = np.array([3, 5], np.int64)
        inputs = [q, k, v, None, None, None, lengths]
        short = [q, k, v, mask[:, :5], None, None, lengths]
        found.append(Case(inputs, name="lengths"))
        found.append(Case(inputs, {"is_causal": 1}, name="lengths, causal"))
        found.append(Case(short, name="lengths and mask"))
    if request.version >= 25:
        for left, right in ((1, -1), (-1, 1), (1, 1), (2, 0), (0, 0)):
            windows = {"left_window_size": left, "right_window_size": right}
            found.append(Case([q, k, v], windows, name=f"window {left} {right}"))
        found.append(Case([q, k, v, mask], windows | {"is_causal": 1}, name="window, causal, mask"))
        found.append(Case(inputs, windows | {"left_window_size": 2}, name="window, lengths"))
    return [_rounded(case, q.dtype) for case in found]


def _rounded(case: Case, dtype: np.dtype) -> Case:
    """Several roundings of a 16-bit type follow each other, in NumPy in another order."""
    if dtype.itemsize == 2:
        case.rtol = case.atol = 0.004 if dtype == np.float16 else 0.04
    return case


@cases("LinearAttention")
def linear_attention(request: Request) -> list[Case]:
    q, k = request.random("T", (2, 3, 8)), request.random("T", (2, 3, 4), -1, 1)
    v, past = request.random("T", (2, 3, 6)), request.random("S", (2, 2, 2, 3))
    if request.varied == "T":
        past = past.astype(q.dtype)
    decays = {
        "a head": request.random("T", (2, 3, 2), -1, 0),
        "a key": request.random("T", (2, 3, 4), -1, 0),
    }
    rates = {
        "a head": request.random("T", (2, 3, 2), 0, 1),
        "one": request.random("T", (2, 3, 1), 0, 1),
    }
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    found = [
        Case([q, k, v, past], heads | {"update_rule": "linear"}, name="linear"),
        Case([q, k, v], heads | {"update_rule": "linear", "scale": 0.3}, name="scale, no past"),
    ]
    for name, decay in decays.items():
        found.append(
            Case([q, k, v, past, decay], heads | {"update_rule": "gated"}, name=f"decay {name}")
        )
    for name, rate in rates.items():
        delta = [q, k, v, past, None, rate]
        both = [q, k, v, past, decays["a key"], rate]
        found.append(Case(delta, heads | {"update_rule": "delta"}, name=f"rate {name}"))
        found.append(Case(both, heads, name=f"gated, rate {name}"))
    multi = {"q_num_heads": 4, "kv_num_heads": 1, "update_rule": "linear"}
    found.append(Case([q, k[:, :, :2], v[:, :, :3]], multi, name="one head of keys"))
    return found


def _body(name: str, dtype: int, make) -> object:
    """Make a modifier: a graph of one input and one output of rank 4."""
    shape = ["b", "h", "l", "s"]
    nodes = make(name, f"{name}_out")
    return helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(name, dtype, shape)],
        [helper.make_tensor_value_info(f"{name}_out", dtype, shape)],
    )


@cases("FlexAttention", domain="ai.onnx.preview")
def flex_attention(request: Request) -> list[Case]:
    q, k = request.random("T1", (2, 4, 3, 8)), request.random("T1", (2, 2, 5, 8))
    v = request.random("T1", (2, 2, 5, 6))
    wide = TensorProto.DOUBLE if q.dtype == np.float64 else TensorProto.FLOAT
    tanh = _body("scores", wide, lambda x, y: [helper.make_node("Tanh", [x], [y])])
    double = _body("probs", wide, lambda x, y: [helper.make_node("Add", [x, x], [y])])
    half = {"softmax_precision": TensorProto.DOUBLE}
    found = [
        Case([q, k, v], name="plain"),
        Case([q, k, v], {"scale": 0.25}, name="scale"),
        Case([q, k, v], half, name="precision"),
        Case([q, k, v], {"score_mod": tanh}, name="scores"),
        Case([q, k, v], {"prob_mod": double}, name="probabilities"),
        Case([q, k, v], {"score_mod": tanh, "prob_mod": double}, name="both"),
    ]
    return [_rounded(case, q.dtype) for case in found]


@cases("CausalConvWithState")
def causal_convolution(request: Request) -> list[Case]:
    x, w = request.random("T", (2, 3, 5)), request.random("T", (3, 1, 4))
    bias, past = request.random("T", (3,)), request.random("T", (2, 3, 3))
    return [
        Case([x, w], name="plain"),
        Case([x, w, bias], {"activation": "none"}, name="bias"),
        Case([x, w, bias, past], {"activation": "silu"}, name="silu"),
        Case([x, w, None, past], {"activation": "swish"}, name="swish"),
        Case([x[:, :, :1], w, None, past], name="one position"),
        Case([x, w[:, :, :1]], name="kernel of one"),
    ]


@cases("RotaryEmbedding")
def rotary_embedding(request: Request) -> list[Case]:
    x = request.random("T", (2, 4, 3, 8))
    angles = request.rng.uniform(-3, 3, (10, 4))
    cosine, sine = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    positions = np.array([[0, 1, 2], [5, 4, 9]], np.int64)
    own = (cosine[positions], sine[positions])
    flat = x.transpose(0, 2, 1, 3).reshape(2, 3, 32)
    part = (cosine[:, :2], sine[:, :2], positions)
    return [
        Case([x, cosine, sine, positions], name="positions"),
        Case([x, *own], name="no positions"),
        Case([x, *own], {"interleaved": 1}, name="interleaved"),
        Case([x, *part], {"rotary_embedding_dim": 4}, name="part"),
        Case([x, *part], {"rotary_embedding_dim": 4, "interleaved": 1}, name="part, interleaved"),
        Case([flat, cosine, sine, positions], {"num_heads": 4}, name="rank 3"),
    ]


@cases("RMSNormalization")
def rms_normalization(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    scale = request.random("V", (4,))
    both = request.random("V", (3, 4))

    # The reference evaluator returns the type of X; Y has that of the scale, says the schema.
    def over(axes, epsilon=1e-5):
        def formula(x, scale):
            x, scale = x.astype(np.float64), scale.astype(np.float64)
            return x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon) * scale

        return formula

    found = [
        Case([x, scale], expected=over(-1), name="last axis"),
        Case([x, both], {"axis": 1, "epsilon": 0.125}, expected=over((1, 2), 0.125), name="two"),
        Case([x, scale], {"axis": -2}, expected=over((1, 2)), name="broadcast scale"),
    ]
    for case in found:
        case.rtol = case.atol = 1e-2 if 2 in (x.dtype.itemsize, scale.dtype.itemsize) else 1e-6
    return found


@cases("TensorScatter")
def tensor_scatter(request: Request) -> list[Case]:
    cache, update = request.random("T", (2, 3, 6, 2)), request.random("T", (2, 3, 2, 2))
    start = np.array([1, 4], np.int64)
    late = np.array([5, 4], np.int64)
    return [
        Case([cache, update], name="from the start"),
        Case([cache, update, start], {"mode": "linear"}, name="linear"),
        Case([cache, update, late], {"mode": "circular"}, name="circular"),
        Case([cache[0], update[0], start[[0, 0, 1]]], {"axis": 1}, name="axis 1"),
    ]


@cases("SwiGLU")
def swiglu(request: Request) -> list[Case]:
    a, b = request.random("T", (2, 3)), request.random("T", (2, 3))
    return [Case([a, b]), Case([a, b], {"alpha": 1.7}, name="alpha")]
