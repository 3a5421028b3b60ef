"""Light models of the onnx package with random weights in the place of constant ones.

The light models make each weight with a ConstantOfShape node, so every channel of a network holds
the same values and its output is flat: mixing up channels would go unnoticed. Here those nodes
become initializers, each filled according to the operator that reads it.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from bench.models.table import packaged

# Range of a parameter by the operator and the input that it feeds.
RANGES = {
    ("BatchNormalization", 1): (0.6, 1.4),
    ("BatchNormalization", 3): (-0.1, 0.1),
    ("BatchNormalization", 4): (0.5, 1.5),
    ("Mul", 1): (0.6, 1.4),
}
SHIFT = (-0.1, 0.1)
SHAPING = ("Unsqueeze", "Reshape")


def write(name: str, gain: float, path: Path) -> None:
    """Write light model `name` with random weights.

    A convolution's weights have a variance of `gain` / inputs. With 2 the magnitude stays through
    any depth if a ReLU follows each (He et al. 2015); without, or in residual branches, less does.
    """
    packaged("onnx", f"backend/test/data/light/light_{name}.onnx")(path)
    model = onnx.load(path)
    graph = model.graph
    rng = np.random.default_rng(3)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = {
        value: (node.op_type, index)
        for node in graph.node
        for index, value in enumerate(node.input)
    }
    passed_on = {n.input[0]: n.output[0] for n in graph.node if n.op_type in SHAPING}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        value = node.output[0]
        shape = tuple(int(size) for size in shapes[node.input[0]])
        reader = readers[passed_on.get(value, value)]
        if reader in (("Conv", 1), ("Gemm", 1)):
            # The classifier gets less, lest the softmax behind it saturates.
            variance = (gain if reader[0] == "Conv" else 0.1) / math.prod(shape[1:])
            spread = math.sqrt(variance)
            array = rng.standard_normal(shape) * spread
        else:
            array = rng.uniform(*RANGES.get(reader, SHIFT), shape)
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), value))
    del graph.node[:]
    graph.node.extend(kept)
    # Until IR version 3 every initializer had to be an input as well; from 4 on that would make it
    # a default that callers may override.
    model.ir_version = max(model.ir_version, 4)
    initialized = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initialized]
    del graph.input[:]
    graph.input.extend(inputs)
    onnx.save(model, path)


write_densenet121 = partial(write, "densenet121", 2.0)
write_inception_v1 = partial(write, "inception_v1", 2.0)
write_shufflenet = partial(write, "shufflenet", 0.5)
write_squeezenet = partial(write, "squeezenet", 2.0)
