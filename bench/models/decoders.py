"""Small decoders of random weights, which searches for texts have as bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT32
PADDING = 0


def info(name: str, dtype: int, shape: Any):
    return helper.make_tensor_value_info(name, dtype, shape)


@dataclass
class Body:
    """Nodes and initializers of a graph in the making."""

    seed: int = 0
    nodes: list = field(default_factory=list)
    initializers: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def add(self, op: str, *inputs: Any, outputs: int = 1, name: str = "", **attributes: Any):
        """Make a node of values and arrays; give the name of its output, or their names."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        made = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        if name:
            made[0] = name
        self.nodes.append(helper.make_node(op, names, made, **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.rng.normal(0, scale, shape).astype(np.float32))

    def graph(self, name: str, inputs: list, outputs: list):
        return helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)


@dataclass(frozen=True)
class Sizes:
    vocab: int = 23
    layers: int = 2
    heads: int = 2
    head: int = 4
    positions: int = 64
    scale: float = 1.0  # of weights

    @property
    def hidden(self) -> int:
        return self.heads * self.head


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def split_heads(b: Body, x: str, sizes: Sizes) -> str:
    return b.add(
        "Transpose", b.add("Reshape", x, ints(0, -1, sizes.heads, sizes.head)), perm=[0, 2, 1, 3]
    )


def attend(
    b: Body, x: str, q: str, k: str, v: str, mask: str | None, sizes: Sizes, weight: str = ""
) -> str:
    """x plus the attention of q to k and v; the mask is added to the scores."""
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.add("Div", scores, np.float32(np.sqrt(sizes.head)))
    if mask is not None:
        scores = b.add("Add", scores, mask)
    found = b.add("MatMul", b.add("Softmax", scores, axis=-1), v)
    found = b.add("Reshape", b.add("Transpose", found, perm=[0, 2, 1, 3]), ints(0, 0, sizes.hidden))
    weight = weight or b.weight(sizes.hidden, sizes.hidden, scale=sizes.scale)
    return b.add("Add", x, b.add("MatMul", found, weight))


def hidden_where(b: Body, condition: str) -> str:
    """What is added to scores: much less than nothing where the condition does not hold."""
    return b.add("Where", condition, np.float32(0), np.float32(-10000))


def unlikely_padding(sizes: Sizes) -> np.ndarray:
    """Added to logits, so that PADDING stands where a text has ended and nowhere else."""
    bias = np.zeros(sizes.vocab, np.float32)
    bias[PADDING] = -1000
    return bias


def gpt(sizes: Sizes = Sizes(), seed: int = 0, dtype: int = FLOAT, sharp: float = 0.5):
    """A decoder as GPT-2 has it: attention to all that is before, one tensor of past a layer."""
    b = Body(seed)
    ids, positions = "input_ids", "position_ids"
    x = b.add(
        "Add",
        b.add("Gather", b.weight(sizes.vocab, sizes.hidden), ids),
        b.add("Gather", b.weight(sizes.positions, sizes.hidden), positions),
    )
    length = b.add("Shape", ids, start=1, end=2)
    total = b.add("Shape", "attention_mask", start=1, end=2)
    steps = b.add("Range", np.int64(0), b.add("Squeeze", total), np.int64(1))
    own = b.add("Slice", steps, b.add("Sub", total, length), total)
    causal = b.add("LessOrEqual", steps, b.add("Unsqueeze", own, ints(1)))
    present = b.add("Unsqueeze", b.add("Cast", "attention_mask", to=TensorProto.BOOL), ints(1, 2))
    mask = hidden_where(b, b.add("And", causal, present))
    outputs = []
    for layer in range(sizes.layers):
        past = f"past_{layer}"
        if dtype != FLOAT:
            past = b.add("Cast", past, to=FLOAT)
        q, k, v = (
            split_heads(b, b.add("MatMul", x, weight), sizes)
            for weight in (
                b.weight(sizes.hidden, sizes.hidden, scale=sizes.scale) for _ in range(3)
            )
        )
        old = b.add("Split", past, outputs=2, axis=0, num_outputs=2)
        k, v = (
            b.add("Concat", b.add("Squeeze", a, ints(0)), n, axis=2)
            for a, n in zip(old, (k, v), strict=True)
        )
        both = [b.add("Unsqueeze", a, ints(0)) for a in (k, v)]
        if dtype == FLOAT:
            b.add("Concat", *both, name=f"present_{layer}", axis=0)
        else:
            b.add("Cast", b.add("Concat", *both, axis=0), name=f"present_{layer}", to=dtype)
        x = b.add("Tanh", attend(b, x, q, k, v, mask, sizes))
        outputs.append(
            info(f"present_{layer}", dtype, [2, "batch", sizes.heads, "total", sizes.head])
        )
    logits = b.add("MatMul", x, b.weight(sizes.hidden, sizes.vocab, scale=sharp))
    logits = b.add("Add", logits, unlikely_padding(sizes))
    if dtype == FLOAT:
        b.add("Identity", logits, name="logits")
    else:
        b.add("Cast", logits, name="logits", to=dtype)
    inputs = [
        info("input_ids", INT, ["batch", "length"]),
        info("position_ids", INT, ["batch", "length"]),
        info("attention_mask", INT, ["batch", "total"]),
        *(
            info(f"past_{layer}", dtype, [2, "batch", sizes.heads, "past", sizes.head])
            for layer in range(sizes.layers)
        ),
    ]
    outputs.insert(0, info("logits", dtype, ["batch", "length", sizes.vocab]))
    return b.graph("decoder", inputs, outputs)


def named(b: Body, seed: int, name: str, *shape: int, scale: float = 1.0) -> str:
    """The same random weight wherever it is asked for by that name."""
    rng = np.random.default_rng([seed, *name.encode()])
    return b.constant(rng.normal(0, scale, shape).astype(np.float32))


def hide_padding(b: Body, mask: str) -> str:
    condition = b.add("Unsqueeze", b.add("Cast", mask, to=TensorProto.BOOL), ints(1, 2))
    return hidden_where(b, condition)


def encode(b: Body, x: str, mask: str | None, sizes: Sizes, seed: int) -> list[str]:
    """Hidden states, then keys and values of them for each layer of a decoder."""

    def heads(name: str) -> str:
        weight = named(b, seed, name, sizes.hidden, sizes.hidden, scale=sizes.scale)
        return split_heads(b, b.add("MatMul", x, weight), sizes)

    hidden = hide_padding(b, mask) if mask is not None else None
    x = b.add("Tanh", attend(b, x, heads("eq"), heads("ek"), heads("ev"), hidden, sizes))
    return [x, *(heads(f"cross {k} {i}") for i in range(sizes.layers) for k in "kv")]


def decode(
    b: Body,
    ids: str,
    past: list[str],
    cross: list[str],
    mask: str | None,
    sizes: Sizes,
    seed: int,
) -> list[str]:
    """Logits, then keys and values of the decoder's own attention."""
    length = b.add("Shape", ids, start=1, end=2)
    total = length
    if past:
        total = b.add("Add", length, b.add("Shape", past[0], start=2, end=3))
    steps = b.add("Range", np.int64(0), b.add("Squeeze", total), np.int64(1))
    own = b.add("Slice", steps, b.add("Sub", total, length), total)
    causal = hidden_where(b, b.add("LessOrEqual", steps, b.add("Unsqueeze", own, ints(1))))
    hidden = hide_padding(b, mask) if mask is not None else None
    x = b.add(
        "Add",
        b.add("Gather", named(b, seed, "words", sizes.vocab, sizes.hidden), ids),
        b.add("Gather", named(b, seed, "places", sizes.positions, sizes.hidden), own),
    )
    presents = []

    def heads(name: str) -> str:
        weight = named(b, seed, name, sizes.hidden, sizes.hidden, scale=sizes.scale)
        return split_heads(b, b.add("MatMul", x, weight), sizes)

    for i in range(sizes.layers):
        q, k, v = (heads(f"{letter} {i}") for letter in "qkv")
        if past:
            k = b.add("Concat", past[2 * i], k, axis=2)
            v = b.add("Concat", past[2 * i + 1], v, axis=2)
        presents += [k, v]
        weight = named(b, seed, f"o {i}", sizes.hidden, sizes.hidden, scale=sizes.scale)
        x = b.add("Tanh", attend(b, x, q, k, v, causal, sizes, weight))
        q, (k, v) = heads(f"cross q {i}"), cross[2 * i : 2 * i + 2]
        weight = named(b, seed, f"cross o {i}", sizes.hidden, sizes.hidden, scale=sizes.scale)
        x = b.add("Tanh", attend(b, x, q, k, v, hidden, sizes, weight))
    logits = b.add("MatMul", x, named(b, seed, "logits", sizes.hidden, sizes.vocab, scale=0.5))
    return [b.add("Add", logits, unlikely_padding(sizes)), *presents]


def states(prefix: str, kind: str, length: str, sizes: Sizes) -> list:
    shape = ["batch", sizes.heads, length, sizes.head]
    names = [f"{prefix}_{k}_{kind}_{i}" for i in range(sizes.layers) for k in ("key", "value")]
    return [info(name, FLOAT, shape) for name in names]


def give(b: Body, values: list[str], infos: list) -> list:
    for value, output in zip(values, infos, strict=True):
        b.add("Identity", value, name=output.name)
    return infos


def encoder_decoder(
    sizes: Sizes = Sizes(),
    seed: int = 0,
    speech: bool = False,
    apart: bool = False,
    hidden: bool = False,
    all_texts: bool = False,
    features: int = 6,
    reads: int = FLOAT,
) -> dict[str, Any]:
    """The bodies `encoder` and `decoder` of a search as with T5, or with Whisper of `speech`.

    apart: the encoder does not make the first token. hidden: the decoder takes hidden states.
    all_texts: it takes texts so far rather than their last tokens. reads: type of the features.
    """
    b = Body(seed)
    mask = None if speech else "encoder_attention_mask"
    if speech:
        inputs = [info("encoder_input_ids", reads, ["batch", features, "frames"])]
        x = "encoder_input_ids" if reads == FLOAT else b.add("Cast", "encoder_input_ids", to=FLOAT)
        x = b.add("Transpose", x, perm=[0, 2, 1])
        x = b.add("MatMul", x, named(b, seed, "features", features, sizes.hidden))
    else:
        inputs = [
            info("encoder_input_ids", INT, ["batch", "read"]),
            info("encoder_attention_mask", INT, ["batch", "read"]),
        ]
        words = named(b, seed, "read words", sizes.vocab, sizes.hidden)
        length = b.add("Squeeze", b.add("Shape", "encoder_input_ids", start=1, end=2))
        places = b.add("Range", np.int64(0), length, np.int64(1))
        places = b.add("Gather", named(b, seed, "read places", 64, sizes.hidden), places)
        x = b.add("Add", b.add("Gather", words, "encoder_input_ids"), places)
    found = encode(b, x, mask, sizes, seed)
    outputs = states("present", "cross", "read", sizes)
    if apart:
        found = found[1:]
    else:
        inputs.append(info("decoder_input_ids", INT, ["batch", "begin"]))
        first = decode(b, "decoder_input_ids", [], found[1:], mask, sizes, seed)
        found = [first[0], found[0], *first[1:], *found[1:]]
        outputs = [
            info("logits", FLOAT, ["batch", "begin", sizes.vocab]),
            info("encoder_hidden_states", FLOAT, ["batch", "read", sizes.hidden]),
            *states("present", "self", "begin", sizes),
            *outputs,
        ]
    encoder = b.graph("encoder", inputs, give(b, found, outputs))

    b = Body(seed)
    inputs = [info("input_ids", INT, ["batch", "length" if all_texts else 1])]
    if not speech:
        inputs.append(info("encoder_attention_mask", INT, ["batch", "read"]))
    if hidden:
        inputs.append(info("encoder_hidden_states", FLOAT, ["batch", "read", sizes.hidden]))
    past, cross = (states("past", kind, kind, sizes) for kind in ("self", "cross"))
    ids = "input_ids"
    if all_texts:
        ids = b.add("Slice", ids, ints(-1), ints(1 << 40), ints(1))
    names = [[value.name for value in values] for values in (past, cross)]
    found = decode(b, ids, *names, mask, sizes, seed)
    outputs = [
        info("logits", FLOAT, ["batch", "last", sizes.vocab]),
        *states("present", "self", "total", sizes),
    ]
    decoder = b.graph("decoder", [*inputs, *past, *cross], give(b, found, outputs))
    return {"encoder": encoder, "decoder": decoder}


def search(
    op: str,
    inputs: dict[str, np.ndarray | None],
    outputs: list[tuple[str, int, list]],
    constants: tuple[str, ...] = (),
    sizes: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; inputs that are None are absent, those in `constants` initializers."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(
        op, names, [o[0] for o in outputs], domain="com.microsoft", name="search", **attributes
    )
    given = {name: value for name, value in inputs.items() if value is not None}
    infos = [
        info(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            value.shape if sizes else [f"{name}_{axis}" for axis in range(value.ndim)],
        )
        for name, value in given.items()
        if name not in constants
    ]
    graph = helper.make_graph(
        [node],
        "model",
        infos,
        [info(*o) for o in outputs],
        [numpy_helper.from_array(given[name], name) for name in constants],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
