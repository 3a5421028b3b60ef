"""The least time that a machine's arithmetic and memory leave for a model in float32 or int8."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from bench.peers.work import Work

RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}  # gates by operator
# Operators on bytes: which they are of float32, and where their operands stand.
BYTES = {
    "QLinearConv": ("Conv", (0, 3)),
    "ConvInteger": ("Conv", (0, 1)),
    "QLinearMatMul": ("MatMul", (0, 3)),
    "MatMulInteger": ("MatMul", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
}
NARROW = 2  # operations a byte: machines do more in the time in which memory gives one
CACHED = 64 << 20  # bytes that caches may still hold from the run before
KINDS = {"Conv", "ConvTranspose", "MatMul", "Gemm", *RECURRENT, *BYTES}


def operations(node: onnx.NodeProto, shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> int:
    """Multiplications and additions of one node by the direct algorithm."""
    size = math.prod(out)
    kind, _ = BYTES.get(node.op_type, (node.op_type, ()))
    if kind == "Conv":
        return 2 * size * math.prod(shapes[1][1:])
    if kind == "ConvTranspose":
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if kind == "MatMul":
        return 2 * size * shapes[0][-1]
    if kind == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * size * shapes[0][0 if transposed else 1]
    if node.op_type in RECURRENT:
        steps, batch, width = shapes[0]
        directions, _, hidden = shapes[2]
        gates = RECURRENT[node.op_type] * hidden
        return 2 * steps * batch * directions * gates * (width + hidden)
    return 0


def winograd_saves(node: onnx.NodeProto, shapes: list[tuple[int, ...]]) -> int:
    """How many times less Winograd's algorithm multiplies: 4 (tiles of 4x4 pixels), 2 (lines) or 1.

    Of 3x3 taps, and of any kernel with three or more taps along its last axis of several.
    """
    if BYTES.get(node.op_type, (node.op_type,))[0] != "Conv":
        return 1
    values = {a.name: list(a.ints) or [a.i] for a in node.attribute}
    kernel = shapes[1][2:]
    if any(value != 1 for name in ("group", "strides") for value in values.get(name, [1])):
        return 1
    if kernel[-2:] == (3, 3) and all(value == 1 for value in values.get("dilations", [1])):
        return 4
    along = next((taps for taps in reversed(kernel) if taps > 1), 1)
    return 2 if along >= 3 else 1


def steps(node: onnx.NodeProto, shapes: list[tuple[int, ...]]) -> tuple[int, int, int]:
    """Operations of a recurrent cell's steps; weights that these read again: small, large ones.

    Weights of a direction count as small up to 1 MiB, which second-level caches hold.
    """
    if node.op_type not in RECURRENT:
        return 0, 0, 0
    count, batch, _ = shapes[0]
    weights = math.prod(shapes[2])
    size = 4 * count * weights
    is_small = 4 * math.prod(shapes[2][1:]) <= 1 << 20
    return 2 * count * batch * weights, size * is_small, size * (not is_small)


def unchanging(graph: onnx.GraphProto) -> set[str]:
    """The values that depend on no input of the graph."""
    names = {constant.name for constant in graph.initializer}
    for node in graph.node:
        has_body = any(attribute.HasField("g") for attribute in node.attribute)  # which may capture
        if not has_body and all(name in names for name in node.input if name):
            names.update(node.output)
    return names


def work(path: Path, feeds: Mapping[str, np.ndarray]) -> Work | None:
    """What a run on these inputs takes at least; None if it is all inside branches and loops."""
    model = onnx.load(path)
    nodes = [node for node in model.graph.node if node.op_type in KINDS]
    if not nodes:
        return None
    dequantised = {
        node.output[0]: node.input[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
    }
    given = [
        [node.input[i] for i in BYTES[node.op_type][1]]
        if node.op_type in BYTES
        else [name for name in node.input[:3] if name]
        for node in nodes
    ]
    operands = [[dequantised.get(name, name) for name in names] for names in given]
    on_bytes = [
        node.op_type in BYTES or all(name in dequantised for name in names[:2])
        for node, names in zip(nodes, given, strict=True)
    ]
    wanted = {n for names in operands for n in names} | {node.output[0] for node in nodes}
    constants = {c.name: c for c in model.graph.initializer}
    values = wanted - constants.keys() - feeds.keys()
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in sorted(values - outputs))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # not what it thinks of the model
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "model.onnx"
        onnx.save(model, changed, save_as_external_data=True)
        session = onnxruntime.InferenceSession(changed, options)
        names = sorted(values)
        arrays = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    sizes = {name: array.nbytes for name, array in arrays.items()}
    for name, c in constants.items():
        width = onnx.helper.tensor_dtype_to_np_dtype(c.data_type).itemsize
        sizes[name] = math.prod(c.dims) * width
    shapes = {name: array.shape for name, array in (arrays | dict(feeds)).items()}
    shapes |= {name: tuple(c.dims) for name, c in constants.items()}
    shapes_of = [[shapes[name] for name in names] for names in operands]
    counts = [
        operations(node, known, shapes[node.output[0]])
        for node, known in zip(nodes, shapes_of, strict=True)
    ]
    # Winograd's algorithm makes bytes int16, of which a processor multiplies half as many.
    saves = [
        max(winograd_saves(node, known) // (2 if is_byte else 1), 1)
        for node, known, is_byte in zip(nodes, shapes_of, on_bytes, strict=True)
    ]
    fewest_each = [count // times for count, times in zip(counts, saves, strict=True)]
    constant = unchanging(model.graph)
    read = sum(sizes[name] for name in wanted & constant)
    narrow_count = narrow_size = 0
    for node, names, count, is_byte in zip(nodes, operands, counts, on_bytes, strict=True):
        size = sum(sizes[name] for name in names if name in constant)
        if node.op_type not in RECURRENT and not is_byte and count < NARROW * size:
            narrow_count, narrow_size = narrow_count + count, narrow_size + size
    if read <= CACHED:
        narrow_count = narrow_size = 0
    stepping = [steps(node, known) for node, known in zip(nodes, shapes_of, strict=True)]
    of_steps = [sum(column) for column in zip(*stepping, strict=True)]
    byte_count, fewest_on_bytes = (
        sum(count for count, is_byte in zip(each, on_bytes, strict=True) if is_byte)
        for each in (counts, fewest_each)
    )
    return Work(
        sum(counts),
        sum(fewest_each),
        read,
        *of_steps,
        byte_count,
        narrow_count,
        narrow_size,
        fewest_on_bytes,
    )
