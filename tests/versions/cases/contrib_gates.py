"""Contributed operators of recurrent layers: gates, states, streams, and hashes of ids.

Checked as those in `contrib.py`; ONNX Runtime's CPU kernels know no windows of states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN, NARROW, checked


def by_formula(case: Case, expected: list[Any], dtype: np.dtype) -> Case:
    """Give a case its results, computed in float64."""
    case.expected = expected
    case.rtol = case.atol = NARROW.get(dtype.name, 1e-5)
    return case


@cases("GatedRMSNorm", domain=DOMAIN)
def gated_rms_norm(request: Request) -> list[Case]:
    x, gate = request.random("T", (2, 3, 12)), request.random("T", (2, 3, 12))
    scales = [request.random("T", (size,)) for size in (12, 4, 1)]
    found = [Case([x, scale, gate], name=f"groups of {scale.size}") for scale in scales]
    for name in ("swish", "sigmoid"):
        found.append(Case([x, scales[1], gate], {"activation": name, "epsilon": 0.1}, name=name))
    row = [x[0, 0], scales[1], gate[0, 0]]
    found += [Case(row, name="one row"), Case([x[:0], scales[1], gate[:0]], name="no rows")]
    return checked(request, found)


@cases("GatedAdd", domain=DOMAIN)
def gated_add(request: Request) -> list[Case]:
    x, y, gate = (request.random("T", (2, 3, size)) for size in (5, 5, 1))
    return checked(
        request,
        [
            Case([x, y, gate]),
            Case([x[0, 0], y[0, 0], gate[0, 0]], name="one row"),
            Case([x[:, :0], y[:, :0], gate[:, :0]], name="no rows"),
        ],
    )


@cases("ScaledSiLU", domain=DOMAIN)
def scaled_silu(request: Request) -> list[Case]:
    x, scale = request.random("T", (2, 3, 5)), request.random("M")
    return checked(
        request,
        [
            Case([x]),
            Case([x], {"alpha": 1.702}, name="alpha"),
            Case([x, scale], {"alpha": 3.0}, name="scale"),
            Case([x[0, 0, 0], scale], name="scalars"),
        ],
    )


@cases("BranchwiseRMSNorm", domain=DOMAIN)
def branchwise_rms_norm(request: Request) -> list[Case]:
    x = request.random("T", (2, 2, 3, 4))
    flat, branches = x.reshape(2, 2, 12), {"num_branches": 3}
    found = [
        Case([x], {"epsilon": 0.1}, name="no scale"),
        Case([flat], branches, name="flat, no scale"),
        Case([x[0, 0]], name="rank 2"),
        Case([flat[0, 0]], branches, name="rank 1"),
    ]
    for shape in ((12,), (3, 4), (4,)):
        scale = request.random("M", shape)
        found.append(Case([x, scale], name=f"scale {shape}"))
        found.append(Case([flat, scale], branches, name=f"flat, scale {shape}"))
    return checked(request, found)


@cases("LinearAttentionGate", domain=DOMAIN)
def linear_attention_gate(request: Request) -> list[Case]:
    a, b = request.random("T", (2, 3, 4), -30, 30), request.random("T", (2, 3, 4))
    bias, scale = request.random("TF", (4,)), request.random("TF", (4,), -2, -0.1)
    return checked(
        request,
        [
            Case([a, bias, scale, b]),
            Case([a, bias, scale], outputs=1, name="decay alone"),
            Case([a[0], bias, scale, b[0]], name="rank 2"),
        ],
    )


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, state: np.ndarray, decay: Any, beta: Any
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute linear attention token by token: results, and the states after each.

    Shapes are [batch,tokens,heads,size], of the state [batch,heads,keys,values]; decay and beta
    are None or broadcast to keys and heads.
    """
    rows, states = [], [state]
    for t in range(q.shape[1]):
        key, value = k[:, t, :, :, None], v[:, t, :, None]
        if decay is not None:
            state = state * np.exp(decay[:, t, :, :, None])
        if beta is not None:
            value = beta[:, t, :, None, None] * (value - (key * state).sum(2, keepdims=True))
        state = state + key * value
        rows.append((q[:, t, :, :, None] * state).sum(2) / np.sqrt(q.shape[-1]))
        states.append(state)
    return np.stack(rows, 1), states


def window_of(states: list[np.ndarray], window: int) -> np.ndarray:
    """Stack the last states, behind zeros where there are fewer; the first is from before."""
    found = states[1:][-window:]
    return np.stack([np.zeros_like(states[0])] * (window - len(found)) + found)


@cases("LinearAttention", domain=DOMAIN)
def linear_attention(request: Request) -> list[Case]:
    q, k = request.random("T", (2, 3, 8)), request.random("T", (2, 3, 4), -1, 1)
    v, past = request.random("T", (2, 3, 6)), request.random("S", (2, 2, 2, 3))
    decays = [request.random("T", (2, 3, size), -1, 0) for size in (2, 4)]
    rates = [request.random("T", (2, 3, size), 0, 1) for size in (2, 1)]
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    linear = heads | {"update_rule": "linear"}
    none = {"types": {"S": request.type("T")}}
    found = [
        Case([q, k, v, past], linear, name="linear"),
        Case([q, k, v], linear | {"scale": 0.3}, name="scale, no past", **none),
        Case([q, k, v, past, decays[0], rates[0]], linear, name="gates of no use"),
        Case([q, k[:, :, :2], v, past], linear, name="one head of keys"),
    ]
    for decay in decays:
        given = [q, k, v, past, decay]
        found.append(Case(given, heads | {"update_rule": "gated"}, name=f"decay {decay.shape}"))
    for rate in rates:
        delta, both = [q, k, v, past, None, rate], [q, k, v, past, decays[1], rate]
        found.append(Case(delta, heads | {"update_rule": "delta"}, name=f"rate {rate.shape}"))
        found.append(Case(both, heads | {"chunk_size": 2}, name=f"gated, rate {rate.shape}"))
    few = {"q_num_heads": 1, "kv_num_heads": 2, "update_rule": "linear"}
    found.append(Case([q[:, :, :2], k, v, past], few, name="more heads of keys than of queries"))
    nothing = [value[:, :0] for value in (q, k, v)]
    found.append(Case([*nothing, past], linear, name="no tokens"))
    checked(request, found)

    wide = [value.astype(np.float64) for value in (q, k, v)]
    wide = [x.reshape(2, 3, -1, size) for x, size in zip(wide, (2, 2, 3), strict=True)]
    wide[1:] = [np.repeat(x, 2, 2) for x in wide[1:]]
    decay, beta = (np.repeat(x.astype(np.float64), 2, 2) for x in (decays[0], rates[0]))
    for window in (1, 2, 3, 5, 8):
        held = request.random("S", (window, 2, 2, 2, 3))
        start = np.repeat(held[-1].astype(np.float64), 2, 1)
        y, states = attended(*wide, start, decay[..., None], beta)
        states = [state[:, ::2] for state in states]
        case = Case([q, k, v, held, decays[0], rates[0]], heads | {"state_window": window})
        case.name = f"window of {window}"
        narrowest = max((q.dtype, held.dtype), key=lambda dtype: NARROW.get(dtype.name, 0))
        expected = [y.reshape(2, 3, -1), window_of(states, window)]
        found.append(by_formula(case, expected, narrowest))
    return found


@cases("CausalConvWithState", domain=DOMAIN)
def causal_convolution(request: Request) -> list[Case]:
    x, w = request.random("T", (2, 6, 5)), request.random("T", (6, 1, 4))
    bias, past = request.random("T", (6,)), request.random("T", (2, 6, 3))
    longer, silu = request.random("T", (2, 6, 6)), {"activation": "silu"}
    rows, before = x.transpose(0, 2, 1).copy(), past.transpose(0, 2, 1).copy()
    last, split = {"channels_last": 1}, rows.reshape(2, 5, 2, 3)
    found = [
        Case([x, w], name="plain"),
        Case([x, w, bias], {"activation": "none"}, name="bias"),
        Case([x, w, bias, past], silu, name="silu"),
        Case([x, w, None, past], {"activation": "swish"}, name="swish"),
        Case([x[:, :, :1], w, None, past], name="one position"),
        Case([x, w[:, :, :1]], name="kernel of one"),
        Case([x, w, bias], {"dilation": 2}, name="dilation"),
        Case([x, w, bias, longer], {"dilation": 2, **silu}, name="dilation, past"),
        Case([rows, w, bias], last, name="channels last"),
        Case([rows, w, bias, before], {**last, **silu}, name="channels last, past"),
        Case([split, w, bias], last, name="axes of channels"),
        Case([split, w, None, before.reshape(2, 3, 2, 3)], {**last, **silu}, name="axes, past"),
    ]
    checked(request, found)
    for window, length in ((1, 5), (2, 5), (4, 5), (8, 5), (3, 1)):
        held = request.random("T", (window, 2, 6, 3))
        whole = np.concatenate([held[-1], x[:, :, :length]], 2).astype(np.float64)
        states = [whole[:, :, i : i + 3] for i in range(length + 1)]
        seen = np.stack([whole[:, :, i : i + 4] for i in range(length)], 2)
        y = (seen * w.astype(np.float64)).sum(-1) + bias.astype(np.float64)[:, None]
        given, attributes = [x[:, :, :length], w, bias, held], {"state_window": window}
        case = Case(given, attributes, name=f"window of {window}, {length} positions")
        expected = window_of(states, window)
        found.append(by_formula(case, [y, expected], x.dtype))
        given = [value.swapaxes(-1, -2).copy() for value in (given[0], held)]
        case = Case([given[0], w, bias, given[1]], attributes | last, name=f"{case.name}, last")
        expected = [y.swapaxes(1, 2), expected.swapaxes(2, 3)]
        found.append(by_formula(case, expected, x.dtype))
    return found


@cases("MRotaryEmbedding", domain=DOMAIN)
def multimodal_rotary_embedding(request: Request) -> list[Case]:
    x = request.random("T", (2, 4, 3, 16))
    angles = request.rng.uniform(-3, 3, (10, 8))
    tables = [np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)]
    positions = request.random("M", (3, 2, 3), 0, 9)
    flat = x.transpose(0, 2, 1, 3).reshape(2, 3, 64)
    found = [
        Case(
            [x, positions, *tables],
            {"mrope_section": sections, "mrope_layout": layout, "interleaved": interleaved},
            name=f"{sections} {layout} {interleaved}",
        )
        for sections in ([4, 2, 2], [8, 0, 0], [0, 3, 5], [2, 3, 3])
        for layout in (0, 1)
        for interleaved in (0, 1)
    ]
    sections, heads = {"mrope_section": [2, 1, 1]}, {"num_heads": 4}
    few = [table[:, :4] for table in tables]
    part = {**sections, **heads, "rotary_embedding_dim": 8}
    all_ = {"mrope_section": [4, 2, 2], **heads}
    found += [
        Case([flat, positions, *tables], all_, name="rank 3"),
        Case([flat, positions, *few], part, name="rank 3, part"),
        Case([x, positions, *few], {**part, "scale": 0.5, "mrope_layout": 1}, name="part, scale"),
        Case([x, positions, *tables], {**all_, "is_packed_batching": 1}, name="packed"),
    ]
    return checked(request, found)


@cases("EngramGate", domain=DOMAIN)
def engram_gate(request: Request) -> list[Case]:
    key, query = request.random("T", (2, 3, 4, 5)), request.random("T", (2, 3, 4, 5))
    value = request.random("T", (2, 3, 5))
    scales = [request.random("T", (4, 5)) for _ in range(3)]
    key[0, 0] = 0
    return checked(
        request,
        [
            Case([key, query, value, *scales]),
            Case([key, query, value, *scales[:2]], {"epsilon": 0.1}, outputs=1, name="one output"),
            Case([key, query, value, *scales], outputs=1, name="a scale of no use"),
        ],
    )


@cases("HyperConnectionPreMix", domain=DOMAIN)
def hyper_connection_pre_mix(request: Request) -> list[Case]:
    x = request.random("T", (2, 2, 3, 4))
    flat, branches = x.reshape(2, 2, 12), {"num_branches": 3, "reduction_scale": 0.5}
    found = []
    for shape in ((2, 2, 3), (2, 2, 3, 1), (2, 2, 3, 4)):
        gate = request.random("M", shape)
        found.append(Case([x, gate], name=f"gate {shape}"))
        found.append(Case([flat, gate], branches, name=f"flat, gate {shape}"))
    found.append(Case([flat, gate.reshape(2, 2, 12)], branches, name="flat, flat gate"))
    found.append(Case([x[0, 0], gate[0, 0]], name="rank 2"))
    return checked(request, found)


@cases("HyperConnectionPostMix", domain=DOMAIN)
def hyper_connection_post_mix(request: Request) -> list[Case]:
    x, block = request.random("T", (2, 2, 3, 4)), request.random("T", (2, 2, 4))
    mix = request.random("M", (2, 2, 3, 3))
    flat, branches = x.reshape(2, 2, 12), {"num_branches": 3}
    found = []
    for shape in ((2, 2, 3), (2, 2, 3, 1), (2, 2, 3, 4)):
        gate = request.random("M", shape)
        found.append(Case([x, block, gate, mix], name=f"gate {shape}"))
        found.append(Case([flat, block, gate, mix], branches, name=f"flat, gate {shape}"))
        found.append(Case([x, block, gate], name=f"no mix, gate {shape}"))
    found.append(Case([x[0, 0], block[0, 0], gate[0, 0], mix[0, 0]], name="rank 2"))
    return checked(request, found)


@cases("NGramHashMapping", domain=DOMAIN)
def ngram_hashes(request: Request) -> list[Case]:
    ids, past = request.random("M", (2, 6), 0, 3), request.random("M", (2, 2), 0, 3)
    dtype = ids.dtype
    tables = [np.array([31, 517, 77], dtype), np.array([11, 13, 17, 19], dtype)]
    offsets, eos = np.array([0, 100, 200, 300], dtype), np.array(2, dtype)
    segments = np.sort(request.random(np.int32, (2, 6), 0, 3), 1)
    sizes = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}
    reset = sizes | {"reset_on_eos": 1}
    large = np.array([-(1 << 30) - 7, (1 << 30) + 5, -12345], dtype)
    given = [ids, *tables]
    found = [
        Case(given, sizes),
        Case(given, sizes, outputs=1, name="one output"),
        Case([*given, past, offsets], sizes, name="past, offsets"),
        Case([*given, past, None, eos], sizes, name="ids of ends that reset nothing"),
        Case([*given, None, None, eos], reset, name="ends"),
        Case([*given, past, None, eos], reset, name="ends, past"),
        Case([*given, past, None, None, segments], reset, name="segments"),
        Case([*given, past, offsets, eos, segments], reset, name="segments and ends"),
        Case([ids[:, :1], *tables, past, None, None, segments[:, :1]], sizes, name="one token"),
        Case([ids[:, :0], *tables, past], sizes, name="no tokens"),
        Case([ids * 1000, large, tables[1]], sizes, name="products that wrap"),
    ]
    two = {"max_ngram_size": 2, "n_head_per_ngram": 4, "pad_id": -1}
    found.append(Case([*given, past[:, :1], None, eos, segments], two, name="pairs"))
    return checked(request, found)


@cases("VarlenNGramHashMapping", domain=DOMAIN)
def packed_ngram_hashes(request: Request) -> list[Case]:
    ids, past = request.random("M", (12,), 0, 3), request.random("M", (4, 3), 0, 3)
    dtype = ids.dtype
    numbers = [31, 517, 77, 1001], [11, 13, 17, 19, 23, 29]
    bounds = request.dtype("S").type([0, 1, 6, 8, 12])
    given = [ids, *(np.array(row, dtype) for row in numbers), bounds]
    offsets, eos = np.array([0, 100, 200, 300, 7, 8], dtype), np.array(2, dtype)
    segments = np.array([0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4], np.int32)
    before = np.array([[0, 0, 0], [1, 1, 0], [1, 2, 2], [2, 3, 3]], bounds.dtype)
    counts = np.array([3, -1, 1, 9], bounds.dtype)
    sizes = {"max_ngram_size": 4, "n_head_per_ngram": 2, "pad_id": 1}
    reset, capture = sizes | {"reset_on_eos": 1}, sizes | {"state_update_capacity": 3}
    two, three, captured = [True, True, False, False], [True, True, True, False], [True] * 4
    without = [True, True, False, True]
    full = [past, offsets, eos, segments, before, counts]
    found = [
        Case(given, sizes, outputs=two),
        Case(given, sizes, outputs=1, name="one output"),
        Case([*given, past, offsets], sizes, outputs=two, name="past, offsets"),
        Case([*given, past, None, eos], sizes, outputs=two, name="ends that reset nothing"),
        Case([*given, None, None, eos], reset, outputs=two, name="ends"),
        Case([*given, past, None, eos], reset, outputs=two, name="ends, past"),
        Case([*given, None, None, None, segments], sizes, outputs=three, name="segments"),
        Case([*given, *full[:5]], reset, outputs=three, name="all but states"),
        Case([*given, *[None] * 5, counts], capture, outputs=without, name="states, no past"),
        Case([*given, None, None, eos, None, None, counts], capture, outputs=without, name="pad"),
        Case([*given, *full], capture | reset, outputs=captured, name="all"),
    ]
    one = {"max_ngram_size": 2, "n_head_per_ngram": 6, "pad_id": -1}
    pairs = [past[:, :1], None, eos, segments, before[:, :1]]
    found.append(Case([*given, *pairs], one, outputs=three, name="pairs"))
    whole = [*given[:3], np.array([0, 12], bounds.dtype), past[:1]]
    found.append(Case(whole, sizes, outputs=two, name="one row"))
    return checked(request, found)
