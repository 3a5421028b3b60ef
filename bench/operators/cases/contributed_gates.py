"""Contributed operators of recurrent layers: gates, states, streams, and hashes of ids."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import NONE, C, Case, W, X, rows

MS = "com.microsoft"


def table() -> Iterator[Case]:
    """All rows."""
    tokens = X(1, 256, 1024)
    gated = [tokens, W(128, low=0.5, high=2), tokens]
    yield from rows("GatedRMSNorm", "f32", gated, domain=MS)
    yield from rows("GatedRMSNorm", "f32", gated, domain=MS, activation="sigmoid")
    yield from rows("GatedAdd", "f32", [tokens, tokens, X(1, 256, 1)], domain=MS)
    streams = X(1, 128, 4, 1024)
    scales = [[W(4, 1024)], [W(1024)], []]
    yield from rows("BranchwiseRMSNorm", "f32", *([streams, *scale] for scale in scales), domain=MS)
    yield from rows("ScaledSiLU", "f32", [tokens], domain=MS, alpha=1.702)
    heads = X(1, 8192, 32)
    yield from rows("LinearAttentionGate", "f32", [heads, W(32), W(32)], domain=MS)
    both = [heads, W(32), W(32), heads]
    yield from rows("LinearAttentionGate", "f32", both, domain=MS, outputs=2)
    yield from linear_attention()
    yield from causal_convolution()
    yield from rotary_embedding()
    wide = X(1, 64, 4, 1024)
    engram = [wide, wide, X(1, 64, 1024), W(4, 1024), W(4, 1024), W(4, 1024)]
    yield from rows("EngramGate", "f32", engram[:5], domain=MS)
    yield from rows("EngramGate", "f32", engram, domain=MS, outputs=2)
    gates = [X(1, 128, 4), X(1, 128, 4, 1024)]
    yield from rows("HyperConnectionPreMix", "f32", *([streams, gate] for gate in gates), domain=MS)
    flat = X(1, 128, 4096)
    yield from rows("HyperConnectionPreMix", "f32", [flat, gates[0]], domain=MS, num_branches=4)
    mixed = [streams, X(1, 128, 1024), X(1, 128, 4), X(1, 128, 4, 4)]
    yield from rows("HyperConnectionPostMix", "f32", mixed, mixed[:3], domain=MS)
    yield from n_gram_hashes()


def linear_attention() -> Iterator[Case]:
    """A prompt, and one token."""
    for length in (256, 1):
        q, k, v = X(1, length, 1024), X(1, length, 512, low=-0.1, high=0.1), X(1, length, 1024)
        decay, beta = X(1, length, 8, low=-1, high=0), X(1, length, 8, low=0, high=1)
        past = X(1, 8, 64, 128)
        heads = dict(domain=MS, outputs=2, q_num_heads=16, kv_num_heads=8)
        yield from rows("LinearAttention", "f32", [q, k, v, past, decay, beta], **heads)
        rule = dict(update_rule="linear")
        yield from rows("LinearAttention", "f32", [q, k, v, past], **heads, **rule)


def causal_convolution() -> Iterator[Case]:
    """Both layouts; with and without what came before."""
    w, bias = W(1024, 1, 4), W(1024)
    made = dict(domain=MS, outputs=2)
    first = [[X(1, 1024, 512), w, bias], [X(1, 1024, 512), w, bias, X(1, 1024, 3)]]
    yield from rows("CausalConvWithState", "f32", *first, activation="silu", **made)
    yield from rows("CausalConvWithState", "f32", first[1], dilation=1, **made)
    last = [[X(1, 512, 1024), w, bias], [X(1, 512, 1024), w, bias, X(1, 3, 1024)]]
    yield from rows("CausalConvWithState", "f32", *last, channels_last=1, activation="silu", **made)
    one = [X(1, 1024, 1), w, bias, X(1, 1024, 3)]
    yield from rows("CausalConvWithState", "f32", one, activation="silu", **made)


def rotary_embedding() -> Iterator[Case]:
    """Both layouts of sections and of the input."""
    positions = X(3, 1, 256, low=0, high=256, type="i64")
    tables = [W(256, 64), W(256, 64)]
    turned = dict(domain=MS, mrope_section=[16, 24, 24], num_heads=16)
    flat, heads = [X(1, 256, 2048), positions, *tables], [X(1, 16, 256, 128), positions, *tables]
    yield from rows("MRotaryEmbedding", "f32", flat, heads, **turned)
    yield from rows("MRotaryEmbedding", "f32", flat, mrope_layout=1, interleaved=1, **turned)


def n_gram_hashes() -> Iterator[Case]:
    """Rows of ids, and packed ones."""
    made = dict(domain=MS, pad_id=0, max_ngram_size=3, n_head_per_ngram=8)
    multipliers, sizes = W(3, low=1, high=1 << 30), W(16, low=10000, high=100000)
    ids = X(4, 2048, low=0, high=100000)
    plain = [ids, multipliers, sizes]
    full = [*plain, X(4, 2, low=0, high=100000), W(16, low=0, high=1000000), C(7, "T")]
    yield from rows("NGramHashMapping", "i64 i32", plain, outputs=2, **made)
    yield from rows("NGramHashMapping", "i64", full, outputs=2, reset_on_eos=1, **made)
    packed = [X(8192, low=0, high=100000), multipliers, sizes, C([0, 1000, 3000, 8192], "i32")]
    past = [X(3, 2, low=0, high=100000), W(16, low=0, high=1000000), C(7, "T")]
    yield from rows("VarlenNGramHashMapping", "i64 i32", packed, outputs=2, **made)
    yield from rows(
        "VarlenNGramHashMapping", "i64", [*packed, *past], outputs=2, reset_on_eos=1, **made
    )
    segments = [*packed, NONE, NONE, NONE, X(8192, low=0, high=2, type="i32")]
    yield from rows("VarlenNGramHashMapping", "i64", segments, outputs=3, **made)
