"""Contributed attention operators, checked as those in `contrib.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN, NARROW, checked
from tests.versions.cases.contrib_quantized import codes, weight_codes, zero


@cases("Attention", domain=DOMAIN)
def attention(request: Request) -> list[Case]:
    batch, tokens, heads, size, features, past = 2, 3, 2, 4, 6, 2
    hidden = heads * size
    x = request.random("T", (batch, tokens, features))
    w, b = (
        request.random("T", (features, 3 * hidden), -0.5, 0.5),
        request.random("T", (3 * hidden,)),
    )
    plain, causal = {"num_heads": heads}, {"num_heads": heads, "unidirectional": 1}
    ints = lambda *values: np.array(values, np.int32)  # noqa: E731
    raw = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    cube = np.array(request.rng.integers(0, 2, (batch, tokens, tokens)), np.int32)
    cube[:, :, 0] = 1
    before = request.random("T", (2, batch, heads, past, size))
    longer = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]], np.int32)
    found = [
        Case([x, w, b], plain),
        Case([x, w, b], causal, name="causal"),
        Case([x, w, b], {**plain, "scale": 0.25}, name="scale"),
        Case([x, w, b, raw], plain, name="mask"),
        Case([x, w, b, raw], {**causal, "mask_filter_value": -2.0}, name="filter value"),
        Case([x, w, b, cube], plain, name="mask of each query"),
        Case([x, w, b, ints(2, 3)], plain, name="lengths"),
        Case([x, w, b, ints(2, 3, 1, 2)], plain, name="ends and starts"),
        Case([x, w, b, ints(2, 3, 0, 3, 6, 0, 3, 6)], plain, name="lengths and offsets"),
        Case([x, w, b, None, before], plain, name="past"),
        Case([x, w, b, longer, before], causal, name="past, mask and causal"),
        Case([x, w, b, ints(3, 4), before], plain, name="past and lengths"),
    ]
    for shape in ((2, 2), (1, 2), (2, 1), (1, 1)):
        bias = request.random("T", (*shape, tokens, tokens))
        found.append(Case([x, w, b, raw, None, bias], plain, outputs=1, name=f"bias {shape}"))
    sizes = [hidden, hidden, 12]
    w2, b2 = request.random("T", (features, 28), -0.5, 0.5), request.random("T", (28,))
    other = {**plain, "qkv_hidden_sizes": sizes}
    found.append(Case([x, w2, b2], other, outputs=1, name="another size of values"))
    equals: list[Case | None] = [None] * len(found)
    # ONNX Runtime's CPU kernel wants a bias, and no mask for all positions.
    found.append(Case([x, w], plain, name="no bias"))
    equals.append(Case([x, w, np.zeros_like(b)], plain))
    most = np.zeros((batch, 1, 6, 6), np.int32)
    most[:, 0, :tokens, :tokens] = cube
    found.append(Case([x, w, b, most], plain, name="mask of all positions"))
    equals.append(Case([x, w, b, cube], plain))
    return checked(request, found, equals)


@cases("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(request: Request) -> list[Case]:
    if request.varied == "QK":
        request.having({"T": request.type("QK")})
    request.having({"QK": request.type("T")})
    batch, tokens, keys, heads, size, past = 2, 3, 4, 2, 4, 2
    hidden = heads * size
    attributes = {"num_heads": heads}
    random = lambda *shape: request.random("T", shape)  # noqa: E731
    q, k, v = (
        random(batch, tokens, hidden),
        random(batch, keys, hidden),
        random(batch, keys, hidden),
    )
    wide, b = random(batch, keys, 12), random(3 * hidden)
    mask = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], np.int32)
    cube = np.array(request.rng.integers(0, 2, (batch, tokens, keys)), np.int32)
    cube[:, :, 0] = 1
    heads_k, heads_v = random(batch, heads, keys, size), random(batch, heads, keys, size)
    past_k, past_v = random(batch, heads, past, size), random(batch, heads, past, size)
    longer = np.array([[1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 1, 1]], np.int32)
    before = [None, None, past_k, past_v]
    bias = random(1, heads, tokens, keys + past)
    same_k, same_v = random(batch, tokens, hidden), random(batch, tokens, hidden)
    token = [random(batch, 1, hidden) for _ in range(3)]
    buffers = [random(batch, heads, 6, size) for _ in range(2)]
    filled = np.array([2], np.int32)
    beams = np.array([[[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]], np.int32)
    seen, near = np.array([[1, 0, 1], [1, 1, 1]], np.int32), random(1, heads, 1, 3)
    causal = {**attributes, "unidirectional": 1}
    lengths = np.array([2, 4], np.int32)
    rows = [
        ("", [q, k, wide], attributes, 3),
        ("bias", [q, k, v, b], attributes, 3),
        ("scores", [q, k, v, b], attributes, 4),
        ("one output", [q, k, v, b], attributes, 1),
        ("scale", [q, k, v], {**attributes, "scale": 0.25}, 1),
        ("causal", [q, same_k, same_v], causal, 3),
        ("mask", [q, k, v, None, mask], attributes, 1),
        ("filter value", [q, k, v, None, mask], {**attributes, "mask_filter_value": -2.0}, 1),
        ("lengths", [q, k, v, None, lengths], attributes, 1),
        ("mask of each query", [q, k, v, None, cube], attributes, 1),
        ("keys in heads", [q, heads_k, heads_v], attributes, 1),
        ("keys in heads, bias", [q, heads_k, heads_v, b], attributes, 1),
        ("past", [q, k, v, b, *before], attributes, 3),
        ("past, mask and bias", [q, k, v, b, longer, bias, *before[2:]], attributes, 3),
        ("past and causal", [q, same_k, same_v, None, *before], causal, 3),
        ("buffers", [*token, None, None, None, *buffers, filled], attributes, 3),
        ("beams", [*token, b, None, None, *buffers, filled, beams], attributes, 3),
        ("beams, mask and bias", [*token, b, seen, near, *buffers, filled, beams], attributes, 3),
    ]
    for shape in ((2, 2), (1, 2), (2, 1), (1, 1)):
        added = random(*shape, tokens, keys)
        rows.append((f"attention bias {shape}", [q, k, v, b, mask, added], attributes, 1))
    types = {name: request.type(name) for name in ("T", "QK")}
    found = [
        Case(inputs, given, outputs=outputs, name=name, types=types)
        for name, inputs, given, outputs in rows
    ]
    equals: list[Case | None] = [None] * len(found)
    # Packed inputs are not for ONNX Runtime's CPU kernel.
    packed = random(batch, keys, heads, 3, size)
    parts = [packed[:, :, :, i].reshape(batch, keys, hidden) for i in range(3)]
    found.append(Case([packed, None, None, b], attributes, outputs=3, name="packed", types=types))
    equals.append(Case([*parts, b], attributes, outputs=3))
    packed = random(batch, keys, heads, 2, size)
    parts = [packed[:, :, :, i].reshape(batch, keys, hidden) for i in range(2)]
    found.append(Case([q, packed], attributes, outputs=3, name="packed keys", types=types))
    equals.append(Case([q, *parts], attributes, outputs=3))
    return checked(request, found, equals)


class Grouped:
    """Inputs of GroupQueryAttention: what it takes of tokens, a cache and lengths."""

    heads, shared, size = 4, 2, 16

    def __init__(self, request: Request):
        self.request = request
        self.types = {name: request.type(name) for name in ("T", "T_CACHE")}

    def random(self, *shape: int) -> np.ndarray:
        return self.request.random("T", shape)

    def case(
        self,
        name: str,
        tokens: int,
        last: list[int],
        *,
        cache: int | None = None,
        held: int = 0,
        packed: bool = False,
        rotary: bool = False,
        extra: dict[int, np.ndarray] | None = None,
        outputs: int = 3,
        **attributes: Any,
    ) -> Case:
        """Make a case; `cache` is the length of the past, of which `held` rows are not zero."""
        batch, request = len(last), self.request
        parts = [
            self.random(batch, tokens, heads * self.size)
            for heads in (self.heads, self.shared, self.shared)
        ]
        inputs: list[Any] = [None] * 14
        inputs[:3] = [np.concatenate(parts, 2), None, None] if packed else parts
        if cache is not None:
            for i in (3, 4):
                inputs[i] = self.random(batch, self.shared, cache, self.size)
                inputs[i][:, :, held:] = 0
        inputs[5] = np.array(last, np.int32)
        inputs[6] = np.array(max(last) + 1, np.int32)
        if rotary:
            angles = request.rng.uniform(-3, 3, (16, self.size // 2))
            inputs[7], inputs[8] = (
                turn(angles).astype(parts[0].dtype) for turn in (np.cos, np.sin)
            )
            attributes["do_rotary"] = 1
        for position, value in (extra or {}).items():
            inputs[position] = value
        given = {"num_heads": self.heads, "kv_num_heads": self.shared, **attributes}
        return Case(inputs, given, outputs=outputs, name=name, types=self.types)


QUANTISED = {"tensor(int8)": 8, "tensor(uint8)": 4, "tensor(float8e4m3fn)": 8}


@cases("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(request: Request) -> list[Case]:
    cached = request.type("T_CACHE")
    if request.varied == "T_CACHE" and cached in QUANTISED:
        return _quantised_cache(request, cached)
    if request.varied == "T_CACHE":
        request.having({"T": cached})
    request.having({"T_CACHE": request.type("T")})
    make = Grouped(request)
    case, random = make.case, make.random
    ids = lambda *rows: {9: np.array(rows, np.int64)}  # noqa: E731
    found = [
        case("prompt", 3, [2, 2]),
        case("ragged prompt", 3, [1, 2]),
        case("packed", 3, [2, 2], packed=True),
        case("rotary", 3, [2, 2], rotary=True),
        case("packed, neighbours turn", 3, [2, 2], packed=True, rotary=True, rotary_interleaved=1),
        case("prompt into a buffer", 3, [2, 2], cache=8),
        case("token", 1, [4, 4], cache=4, held=4),
        case("ragged tokens", 1, [3, 4], cache=4, held=3, rotary=True),
        case("tokens in a buffer", 1, [3, 3], cache=8, held=3, rotary=True),
        case("several tokens", 3, [6], cache=4, held=4, rotary=True),
        case("several tokens in a buffer", 3, [6], cache=9, held=4, rotary=True),
        case("window", 6, [5, 5], local_window_size=2),
        case("window of a token", 1, [6, 6], cache=6, held=6, local_window_size=3),
        case("soft cap", 4, [3, 3], softcap=1.5),
        case("scale", 4, [3, 3], scale=0.125),
        case("smooth softmax", 4, [3, 3], smooth_softmax=1),
        case("not causal", 4, [3, 2], causal=0),
        case("sink", 4, [3, 3], extra={11: random(4)}, local_window_size=2, softcap=2.0),
        case(
            "positions of a prompt", 4, [3, 3], rotary=True, extra=ids([3, 1, 2, 0], [4, 5, 6, 7])
        ),
        case("positions of tokens", 1, [4, 4], cache=4, held=4, rotary=True, extra=ids([9], [8])),
    ]
    for shape in ((2, 4), (1, 4), (2, 1), (1, 1)):
        found.append(case(f"bias {shape}", 4, [3, 2], extra={10: random(*shape, 4, 4)}))
    for mode in (1, 2):
        found.append(case(f"scores {mode}", 4, [3, 3], outputs=4, qk_output=mode, softcap=1.5))
    # Such that the cache is full afterwards: rows that it has no use for hold anything.
    sliding = {"sliding_window_cache": 1, "local_window_size": 3}
    for last, room in ((3, 4), (5, 4), (9, 6)):
        given = {"cache": room, "held": room, "rotary": True, **sliding}
        found.append(case(f"window in a cache of {room}, {last}", 1, [last, last], **given))
    found.append(case("long step in a window", 8, [9], cache=6, held=2, **sliding))
    found.append(case("long prompt in a window", 10, [9, 9], cache=6, **sliding))
    columns = {10: random(1, 4, 1, 10)}
    found.append(case("bias in a window", 1, [9], cache=6, held=6, extra=columns, **sliding))
    # q_norm_weight is not for ONNX Runtime's CPU kernel: the same with normalised heads.
    weights = random(make.size), random(make.size)
    normal = case("normalised heads", 3, [2, 2])
    equal = Case(list(normal.inputs), normal.attributes, outputs=3)
    normal.inputs = [*normal.inputs, *weights]
    for i, weight in enumerate(weights):
        x = normal.inputs[i].astype(np.float64)
        heads = x.reshape(*x.shape[:2], -1, make.size)
        heads = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * weight.astype(float)
        equal.inputs[i] = heads.reshape(x.shape).astype(np.float32)
    equals: list[Case | None] = [None] * len(found)
    return checked(request, [*found, normal], [*equals, equal])


def _quantised_cache(request: Request, cached: str) -> list[Case]:
    make = Grouped(request)
    bits, dtype = QUANTISED[cached], request.dtype("T_CACHE")
    width = make.size * bits // 8
    found, equals = [], []
    channels = [(1, make.shared, 1, make.size), (make.shared * make.size,)]
    channels.append((make.shared, make.size))
    of_channels = [("PER_CHANNEL", shape) for shape in channels]
    for kind, shape in (("PER_TENSOR", (1,)), *of_channels):
        factor = {"tensor(int8)": 0.02, "tensor(uint8)": 0.25, "tensor(float8e4m3fn)": 0.01}[cached]
        scales = [request.random(np.float32, shape, factor, 2 * factor) for _ in range(2)]
        for tokens, last, cache in ((3, 2, 0), (1, 4, 4), (1, 4, 8), (2, 5, 4)):
            attributes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
            name = f"{kind} {len(shape)} {tokens} {cache}"
            case = make.case(name, tokens, [last], **attributes)
            for i, scale in enumerate(scales):
                low, high = (0, 255) if cached == "tensor(uint8)" else (-100, 100)
                past = request.random(dtype, (1, make.shared, cache, width), low, high)
                past[:, :, last + 1 - tokens :] = 0
                case.inputs[3 + i] = past
                case.inputs[12 + i] = scale
            found.append(case)
            equals.append(_unquantised(case, scales) if "float8" in cached else None)
    for case, expected in zip(found, equals, strict=True):
        case.rtol, case.atol = 1e-4, 1e-4
        if expected is None:
            case.oracle = "onnxruntime"
        else:
            case.expected = expected
    return found


def _unquantised(case: Case, scales: list[np.ndarray]) -> list[np.ndarray]:
    """Attend to one float8 cache, for ONNX Runtime's CPU kernel takes integers alone."""
    q, k, v = (x.reshape(*x.shape[:2], -1, 16).transpose(0, 2, 1, 3) for x in case.inputs[:3])
    tokens, total = q.shape[2], int(case.inputs[6])
    start = total - tokens
    caches, values = [], []
    for new, past, scale in zip((k, v), case.inputs[3:5], scales, strict=True):
        scale = scale if scale.size == 1 else scale.reshape(1, past.shape[1], 1, -1)
        rows = max(past.shape[2], total)
        cache = np.zeros((*past.shape[:2], rows, 16), past.dtype)
        cache[:, :, : past.shape[2]] = past
        cache[:, :, start:total] = np.clip(new / scale, -448, 448).astype(past.dtype)
        caches.append(cache)
        values.append((cache.astype(np.float64) * scale)[:, :, :total].repeat(2, 1))
    scores = q.astype(np.float64) @ values[0].swapaxes(2, 3) / 4
    hidden = np.arange(total) > start + np.arange(tokens)[:, None]
    weights = np.exp(np.where(hidden, -np.inf, scores))
    y = weights / weights.sum(-1, keepdims=True) @ values[1]
    return [y.transpose(0, 2, 1, 3).reshape(1, tokens, -1), *caches]


@cases("QAttention", domain=DOMAIN)
def q_attention(request: Request) -> list[Case]:
    batch, tokens, heads, size, features, past = 2, 3, 2, 4, 6, 2
    hidden = heads * size
    left, right, real = (request.dtype(name) for name in ("T1", "T2", "T3"))
    x = codes(request, left, (batch, tokens, features))
    w = weight_codes(request, right, (features, 24))
    b = request.random("T3", (3 * hidden,))
    factor, factors = np.full((), 0.02, real), np.full((), 0.01, real)
    columns = request.rng.uniform(0.005, 0.02, 3 * hidden).astype(real)
    x_zero, w_zero = zero(request, left), zero(request, right)
    w_zeros = zero(request, right, (3 * hidden,))
    mask = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    before = request.random("T3", (2, batch, heads, past, size))
    longer = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]], np.int32)
    plain, causal = {"num_heads": heads}, {"num_heads": heads, "unidirectional": 1}
    start, zeros = [x, w, b, factor, factors], [x_zero, w_zero]
    rows = [
        ("no zero points", start, plain),
        ("zero points", [*start, None, *zeros], plain),
        ("columns", [x, w, b, factor, columns, None, x_zero, w_zeros], plain),
        ("vectors of one", [x, w, b, factor[None], factors[None], None, x_zero[None]], plain),
        ("causal", [*start, None, *zeros], causal),
        ("scale", [*start, None, *zeros], {**plain, "scale": 0.25}),
        ("mask", [*start, mask, *zeros], plain),
        ("filter value", [*start, mask, *zeros], {**causal, "mask_filter_value": -2.0}),
        ("lengths", [*start, np.array([2, 3], np.int32), *zeros], plain),
        ("past", [*start, None, *zeros, before], plain),
        ("past, mask and causal", [*start, longer, *zeros, before], causal),
    ]
    types = {name: request.type(name) for name in ("T1", "T2", "T3")}
    found, equals = [], []
    for name, inputs, attributes in rows:
        outputs = 2 if len(inputs) > 8 else 1
        found.append(Case(inputs, attributes, outputs=outputs, name=name, types=types))
        equals.append(None)
        if left == np.int8:  # ONNX Runtime takes unsigned inputs alone
            inputs = [*inputs, *[None] * (7 - len(inputs))]
            inputs[0] = (inputs[0].astype(np.int16) + 128).astype(np.uint8)
            inputs[6] = np.uint8(128) if inputs[6] is None else inputs[6].astype(np.int16) + 128
            inputs[6] = np.asarray(inputs[6]).astype(np.uint8)
            equals[-1] = Case(inputs, attributes, outputs=outputs)
    return checked(request, found, equals)


@cases("QEmbedLayerNormalization", domain=DOMAIN)
def q_embed_layer_normalization(request: Request) -> list[Case]:
    dtype = request.dtype("T2")
    ids, segments = request.random("T1", (2, 3), 0, 6), request.random("T1", (2, 3), 0, 1)
    words, positions, kinds = (codes(request, dtype, (n, 8)) for n in (7, 5, 2))
    tables = [words, positions, kinds, codes(request, dtype, (8,)), codes(request, dtype, (8,))]
    mask = np.array([[1, 0, 1], [1, 1, 0]], np.int32)
    scales = [np.full((), value, np.float32) for value in (0.02, 0.03, 0.04, 0.01, 0.05)]
    zeros = [zero(request, dtype) for _ in range(5)]
    bare = list(tables), list(scales), list(zeros)
    for values in bare:
        values[2] = None
    vectors = [[value[None] for value in values] for values in (scales, zeros)]
    return checked(
        request,
        [
            Case([ids, segments, *tables, None, *scales, *zeros], name="segments"),
            Case([ids, segments, *tables, mask, *scales, *zeros], {"epsilon": 0.5}, name="mask"),
            Case([ids, None, *bare[0], mask, *bare[1], *bare[2]], name="no segments"),
            Case([ids, segments, *tables, mask, *vectors[0], *vectors[1]], name="vectors of one"),
        ],
    )


def decoded(q, k, v, keys, values, held, *, bias=None, mask=None, beams=None):
    """Attend with one token, [batch, heads, 1, size], and the first `held` rows of caches."""
    keys, values = (
        np.concatenate([old[:, :, :held], new], 2).astype(np.float64)
        for old, new in ((keys, k), (values, v))
    )
    if beams is not None:
        for x in (keys, values):
            whole = x.copy()
            for i in range(len(x)):
                width = beams.shape[1]
                group = i // width
                for t in range(held):
                    x[i, :, t] = whole[group * width + beams[group, i % width, t], :, t]
    scores = q.astype(np.float64) @ keys.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = scores + (0 if bias is None else bias)
    if mask is not None:
        scores = scores + np.where(mask, 0, -10000)[:, None, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ values
    return y.transpose(0, 2, 1, 3).reshape(len(y), 1, -1), scores


@cases("DecoderMaskedMultiHeadAttention", domain=DOMAIN)
def decoder_attention(request: Request) -> list[Case]:
    if request.varied == "QK":
        request.having({"T": request.type("QK")})
    request.having({"QK": request.type("T")})
    batch, heads, size, room, held = 4, 2, 8, 6, 3
    hidden = heads * size
    random = lambda *shape: request.random("T", shape)  # noqa: E731
    token = [random(batch, 1, hidden) for _ in range(3)]
    caches = [random(batch, heads, room, size) for _ in range(2)]
    filled, width = np.array([held], np.int32), np.array([2], np.int32)
    b, near = random(3 * hidden), random(1, heads, 1, held + 1)
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 0]], np.int32)
    wide = np.array(request.rng.integers(0, 2, (batch, room)), np.int32)
    wide[:, 0] = 1
    beams = np.array(request.rng.integers(0, 2, (batch // 2, 2, room)), np.int32)
    plain, shared = {"num_heads": heads}, {"num_heads": heads, "past_present_share_buffer": 1}
    past = [*caches, filled]
    rows = [
        ("", [*token, None, None, *past], shared, 3),
        ("bias", [*token, None, None, *past, None, None, b], shared, 3),
        ("scale", [*token, None, None, *past], {**shared, "scale": 0.25}, 3),
        ("mask", [*token, mask, None, *past], shared, 3),
        ("filter value", [*token, mask, None, *past], {**shared, "mask_filter_value": -2.0}, 3),
        ("scores", [*token, mask, near, *past], {**shared, "output_qk": 1}, 4),
        ("nothing held", [*token, None, None, *caches, filled * 0], shared, 3),
        ("cross", [token[0], *caches], plain, 1),
        ("cross, mask and bias", [token[0], *caches, wide, *[None] * 6, b], plain, 1),
        ("beams", [*token, None, None, *past, width, beams], shared, 3),
        ("beams, mask and biases", [*token, mask, near, *past, width, beams, b], shared, 3),
        ("a beam of one", [*token, None, None, *past, width // 2], shared, 3),
    ]
    for shape in ((batch, heads), (batch, 1), (1, 1)):
        bias = random(*shape, 1, held + 1)
        rows.append((f"attention bias {shape}", [*token, mask, bias, *past], shared, 3))
    types = {name: request.type(name) for name in ("T", "QK")}
    found = [
        Case(inputs, given, outputs=outputs, name=name, types=types)
        for name, inputs, given, outputs in rows
    ]
    equals: list[Case | None] = [None] * len(found)
    packed = [np.concatenate(token, 2), None, None, None, None, *past]
    found.append(Case(packed, shared, outputs=3, name="packed", types=types))
    equals.append(Case(rows[0][1], shared, outputs=3))
    found = checked(request, found, equals)
    # Where ONNX Runtime has no kernel, or reads the bias of other sequences.
    q, k, v = (x.reshape(batch, 1, heads, size).transpose(0, 2, 1, 3) for x in token)
    short = [x[:, :, :held] for x in caches]
    present = [np.concatenate([x, new], 2) for x, new in zip(short, (k, v), strict=True)]
    own = random(batch, heads, 1, held + 1)
    broad, memory = random(batch, 1, heads * 12), random(batch, heads, held, 12)
    heads_v = broad.reshape(batch, 1, heads, 12).transpose(0, 2, 1, 3)
    narrow = NARROW.get(request.dtype("T").name, 1e-5)
    tolerance = {"types": types, "rtol": narrow, "atol": narrow}
    grown = [decoded(q, k, v, *short, held)[0], *present]
    both = decoded(q, k, v, *short, held, bias=own, mask=mask, beams=beams)
    other = [decoded(q, k, heads_v, short[0], memory, held)[0], present[0]]
    other.append(np.concatenate([memory, heads_v], 2))
    joined = np.concatenate([*token[:2], broad], 2)
    for name, inputs, expected in (
        ("growing", [*token, None, None, *short], grown),
        ("growing beams", [*token, mask, own, *short, None, width, beams], [both[0], *present]),
        ("values of another size", [*token[:2], broad, None, None, short[0], memory], other),
        ("packed, another size", [joined, *[None] * 4, short[0], memory], other),
        ("no past", token, [token[2], k, v]),
    ):
        found.append(Case(inputs, plain, outputs=3, name=name, expected=expected, **tolerance))
    first = Case([*token, None, None, *past], shared, outputs=1, name="one output", **tolerance)
    first.expected = grown[:1]  # which ONNX Runtime does not survive
    return [*found, first]


class Sparse:
    """Inputs of SparseAttention and, by a formula, its results."""

    heads, shared, size, block = 4, 2, 16, 16

    def __init__(self, request: Request):
        self.request = request

    def layouts(self, count: int, blocks: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Matrices of blocks, and their indices, which have paddings of -1."""
        matrices = np.tril(self.request.rng.integers(0, 2, (count, blocks, blocks)))
        matrices[:, range(blocks), range(blocks)] = 1
        rows = np.zeros((count, blocks + 1), np.int32)
        rows[:, 1:] = matrices.sum(2).cumsum(1)
        columns = np.full((count, rows.max()), -1, np.int32)
        for i, matrix in enumerate(matrices):
            columns[i, : rows[i, -1]] = np.nonzero(matrix)[1]
        return matrices, [rows, columns]

    def case(
        self,
        name: str,
        tokens: int,
        lengths: list[int],
        *,
        layouts: int = 1,
        packed: bool = False,
        rotary: bool = False,
        **attributes: Any,
    ) -> Case:
        """A case of so many tokens at the ends of sequences."""
        random = lambda *shape: self.request.random("T", shape)  # noqa: E731
        batch, room = len(lengths), 70
        parts = [
            random(batch, tokens, count * self.size)
            for count in (self.heads, self.shared, self.shared)
        ]
        inputs = [np.concatenate(parts, 2), None, None] if packed else list(parts)
        caches = [random(batch, self.shared, room, self.size) for _ in range(2)]
        matrices, indices = self.layouts(layouts, 4)
        inputs += [*caches, *indices, np.array([max(lengths)], np.int32)]
        inputs.append(np.array(lengths, np.int32))
        angles = self.request.rng.uniform(-3, 3, (room, self.size // 2))
        if rotary:
            inputs += [turn(angles).astype(parts[0].dtype) for turn in (np.cos, np.sin)]
            attributes["do_rotary"] = 1
        given = {
            "num_heads": self.heads, "kv_num_heads": self.shared, "sparse_block_size": self.block
        }  # fmt: skip
        case = Case(inputs, given | attributes, name=name)
        prompt = tokens == max(lengths)
        starts = [0 if prompt else length - tokens for length in lengths]
        q, k, v = (x.reshape(batch, tokens, -1, self.size).transpose(0, 2, 1, 3) for x in parts)
        if rotary:
            at = np.array(starts)[:, None] + np.arange(tokens)
            tables = [table.astype(np.float64)[at][:, None] for table in inputs[9:]]
            q, k = (_turned(x, *tables, attributes.get("rotary_interleaved", 0)) for x in (q, k))
        case.expected = self.results(
            (q, k, v), caches, matrices, starts, attributes.get("scale", 0.25)
        )
        narrow = NARROW.get(parts[0].dtype.name, 1e-5)
        case.rtol = case.atol = narrow
        return case

    def results(self, parts, caches, matrices, starts, factor: float) -> list[np.ndarray]:
        """Softmax over what is seen, and the caches with the new rows."""
        q, k, v = (x.astype(np.float64) for x in parts)
        keys, values = (cache.astype(np.float64) for cache in caches)
        tokens = q.shape[2]
        y = np.zeros((len(q), tokens, self.heads, self.size))
        for n, start in enumerate(starts):
            for cache, new in ((keys, k), (values, v)):
                cache[n, :, start : start + tokens] = new[n]
            for head, i in np.ndindex(self.heads, tokens):
                at, group = start + i, head * self.shared // self.heads
                row = matrices[head % len(matrices)][at // self.block]
                seen = row[np.arange(at + 1) // self.block] == 1
                scores = keys[n, group, : at + 1] @ q[n, head, i] * factor
                weights = np.exp(scores) * seen
                y[n, i, head] = weights @ values[n, group, : at + 1] / weights.sum()
        return [y.reshape(len(q), tokens, -1), keys, values]


def _turned(x, cosine, sine, interleaved):
    x = x.astype(np.float64)
    half = x.shape[3] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = a * cosine - b * sine, a * sine + b * cosine
    return np.stack(parts, 4).reshape(x.shape) if interleaved else np.concatenate(parts, 3)


# ONNX Runtime runs it only where caches are written in place, which its Python has no arrays for.
@cases("SparseAttention", domain=DOMAIN)
def sparse_attention(request: Request) -> list[Case]:
    case = Sparse(request).case
    return [
        case("prompt", 40, [40, 40]),
        case("a layout for each head", 40, [40], layouts=4),
        case("layouts in turn", 35, [35, 35], layouts=2, packed=True),
        case("rotary", 20, [20, 20], layouts=2, rotary=True),
        case("neighbours turn", 20, [20], rotary=True, packed=True, rotary_interleaved=1),
        case("token", 1, [50, 50], layouts=2),
        case("ragged tokens", 1, [33, 60], layouts=4, rotary=True),
        case("several tokens", 5, [36, 50], layouts=2, rotary=True, packed=True),
        case("scale", 17, [17], scale=0.125),
        case("full cache", 1, [64]),
    ]


@cases("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(request: Request) -> list[Case]:
    angles = request.rng.uniform(-3, 3, (10, 4))
    tables = [turn(angles).astype(request.dtype("T")) for turn in (np.cos, np.sin)]
    at, first = np.array([[1, 3, 5], [0, 2, 9]], np.int64), np.array([4], np.int64)
    flat, split = request.random("T", (2, 3, 16)), request.random("T", (2, 2, 3, 8))
    wide, wide_split = request.random("T", (2, 3, 24)), request.random("T", (2, 2, 3, 12))
    part = {"num_heads": 2, "rotary_embedding_dim": 8}
    return checked(
        request,
        [
            Case([flat, at, *tables]),
            Case([flat, first, *tables], name="first position"),
            Case([flat, at, *tables], {"interleaved": 1}, name="neighbours"),
            Case([flat, at, *tables], {"scale": 2.0}, name="scale"),
            Case([flat, at, *tables], {"is_packed_batching": 1}, name="packed"),
            Case([split, at, *tables], name="heads"),
            Case([split, first, *tables], {"interleaved": 1}, name="heads, first position"),
            Case([wide, at, *tables], part, name="part"),
            Case([wide_split, at, *tables], {**part, "interleaved": 1}, name="part of heads"),
        ],
    )
