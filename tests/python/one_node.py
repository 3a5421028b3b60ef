"""Models of one operator, contributed unless a domain is given, and what they are fed."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, helper

DOMAIN = "com.microsoft"


def one_node(
    op: str,
    inputs: list[Any],
    attributes: dict[str, Any],
    *,
    outputs: int = 1,
    named: bool = False,
    dtype: Any = np.float32,
    domain: str = DOMAIN,
    opset: int = 21,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Make a model of one node 'wrong', and its inputs by name; None is an absent one.

    The first of `outputs` is that of the graph, of `dtype`. `named`: sizes of inputs are names.
    """
    infos, names, values = [], [], {}
    for position, value in enumerate(inputs):
        name = f"x{position}" if value is not None else ""
        names.append(name)
        if value is None:
            continue
        shape = [f"{name}_{axis}" for axis in range(value.ndim)] if named else value.shape
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        infos.append(helper.make_tensor_value_info(name, kind, shape))
        values[name] = value
    results = [f"y{position}" for position in range(outputs)]
    node = helper.make_node(op, names, results, "wrong", domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    y = helper.make_tensor_value_info("y0", kind, None)
    graph = helper.make_graph([node], "graph", infos, [y])
    imports = {"": opset, domain: 1 if domain else opset}
    opsets = [helper.make_opsetid(*each) for each in imports.items()]
    return helper.make_model(graph, opset_imports=opsets), values
