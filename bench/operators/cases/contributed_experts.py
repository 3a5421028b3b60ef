"""Contributed products: distances, weights of 4 bits, mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import Case, W, X, rows

MS = "com.microsoft"


def table() -> Iterator[Case]:
    """All rows."""
    for metric in ("sqeuclidean", "euclidean"):
        for columns in (8, 64):
            points = [X(1000, columns), X(1000, columns)]
            yield from rows("CDist", "f32 f64", points, domain=MS, metric=metric)
    yield from four_bits()
    yield from mixtures()
    yield from quantised_mixtures()


def four_bits() -> Iterator[Case]:
    """One token and many, in blocks of FP4 and NF4."""
    k = n = 1024
    for kind in (0, 1):
        weights = [W(n * k // 2, low=0, high=255, type="u8"), W(n * k // 64, low=0.1, high=1)]
        given = dict(domain=MS, K=k, N=n, block_size=64, quant_type=kind)
        yield from rows("MatMulBnb4", "f32", [X(1, k), *weights], [X(64, k), *weights], **given)


def mixtures() -> Iterator[Case]:
    """One token, a few and many."""
    experts, hidden, inter = 8, 512, 1024
    w = dict(low=-0.1, high=0.1)
    first, last = W(experts, inter, hidden, **w), W(experts, hidden, inter, **w)
    layers = [first, W(experts, inter), last, W(experts, hidden)]
    for tokens in (1, 16, 256):
        given = [X(tokens, hidden), X(tokens, experts), *layers]
        yield from rows("MoE", "f32", given, domain=MS, k=2, activation_type="gelu")
    wide = [W(experts, 2 * inter, hidden, **w), W(experts, 2 * inter), *layers[2:]]
    swiglu = dict(domain=MS, k=2, activation_type="swiglu", swiglu_fusion=1)
    for tokens in (1, 256):
        given = [X(tokens, hidden), X(tokens, experts), *wide]
        yield from rows("MoE", "f32", given, **swiglu, normalize_routing_weights=1)


def quantised_mixtures() -> Iterator[Case]:
    """Integers in blocks, and with one scale a row."""
    experts, hidden, inter, block = 8, 512, 1024, 32
    for bits, blocked, tokens, level in (
        (4, True, 1, 0),
        (4, True, 64, 0),
        (4, False, 1, 0),
        (4, False, 64, 0),
        (8, True, 64, 0),
        (8, True, 48, 4),
        (8, False, 64, 0),
    ):

        def layer(n: int, k: int, bits: int = bits, blocked: bool = blocked) -> list:
            codes = W(experts, n, k * bits // 8, low=0, high=255, type="u8")
            shape = (experts, n, k // block) if blocked else (experts, n)
            return [codes, W(*shape, low=0.001, high=0.01), W(experts, n)]

        given = [
            X(tokens, hidden),
            X(tokens, experts),
            *layer(inter, hidden),
            *layer(hidden, inter),
        ]
        made = dict(domain=MS, k=2, activation_type="silu", expert_weight_bits=bits)
        if blocked:
            made |= dict(block_size=block, accuracy_level=level)
        # Theirs rounds activations to bytes where blocks have 8 bits.
        yield from rows("QMoE", "f32", given, exact=bits == 4 or not blocked, **made)
