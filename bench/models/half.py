"""Models in float16 and bfloat16, made of their float32 twins.

Weights and everything between inputs and outputs take the narrower type; inputs and outputs stay as
they are, with a Cast behind or before them, so that both twins run on the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.models import ensure

# Inputs that keep float32 whatever the type of the others.
KEEPS_FLOAT = {"Resize": (1, 2), "Upsample": (1,)}


def _narrowed(tensor: TensorProto, to: int) -> TensorProto:
    array = numpy_helper.to_array(tensor)
    narrow = helper.tensor_dtype_to_np_dtype(to)
    with np.errstate(over="ignore"):
        return numpy_helper.from_array(array.astype(narrow), tensor.name)


def _narrow_inside(graph: onnx.GraphProto, to: int) -> None:
    """Weights, constants and casts of a graph take the type `to`."""
    kept = {
        node.input[i]
        for node in graph.node
        for i in KEEPS_FLOAT.get(node.op_type, ())
        if i < len(node.input)
    }
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in kept:
            tensor.CopyFrom(_narrowed(tensor, to))
    for node in graph.node:
        for attribute in node.attribute:
            is_tensor = attribute.type == onnx.AttributeProto.TENSOR
            if is_tensor and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(_narrowed(attribute.t, to))
            if (
                node.op_type == "Cast"
                and attribute.name == "to"
                and attribute.i == TensorProto.FLOAT
            ):
                attribute.i = to
    del graph.value_info[:]


def convert(source: Path, path: Path, to: int) -> None:
    """Write the model `source` with every float32 inside as `to`, an element type of ONNX."""
    model = onnx.load(source)
    graph = model.graph
    _narrow_inside(graph, to)
    initialized = {tensor.name for tensor in graph.initializer}
    inputs, outputs = (
        [value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT]
        for values in (graph.input, graph.output)
    )
    inputs = [name for name in inputs if name not in initialized]
    renamed = {name: f"{name}_narrow" for name in (*inputs, *outputs)}
    casts = [helper.make_node("Cast", [name], [renamed[name]], to=to) for name in inputs]
    behind = [
        helper.make_node("Cast", [renamed[name]], [name], to=TensorProto.FLOAT) for name in outputs
    ]
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = renamed.get(name, name)
    nodes = [*casts, *graph.node, *behind]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, path)


def writer(name: str, to: int) -> Callable[[Path], None]:
    """A writer of the twin of the model `name`."""

    def write(path: Path) -> None:
        convert(ensure(name, path.parent), path, to)

    return write


write_resnet50_f16 = writer("resnet50", TensorProto.FLOAT16)
write_mobilenet_v2_f16 = writer("mobilenet_v2", TensorProto.FLOAT16)
write_bert_base_f16 = writer("bert_base", TensorProto.FLOAT16)
write_bert_base_bf16 = writer("bert_base", TensorProto.BFLOAT16)
write_lstm_f16 = writer("lstm", TensorProto.FLOAT16)
