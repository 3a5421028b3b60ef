"""Networks whose arithmetic is next to nothing: what they take is what the engine itself takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

CHANNELS, STATES = 16, 16  # of the selective state space
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

Declared = tuple[str, int, Sequence[int | str]]


def write_one_add(path: Path) -> None:
    """Write `z = x + y` of one element."""
    nodes = [helper.make_node("Add", ["x", "y"], ["z"])]
    _save(path, nodes, [("x", FLOAT, [1]), ("y", FLOAT, [1])], [("z", FLOAT, [1])])


def write_mamba_loop(path: Path) -> None:
    """Write the recurrence of a selective state space as a Loop, a step an iteration.

    `h = decay[t] * h + drive[t]`, `y[t] = h @ readout[t]`: slices of sequences, a carried state,
    a scan output.
    """
    body = _graph(
        [
            helper.make_node("Identity", ["going"], ["still_going"]),
            *_recurrence(),
        ],
        [("t", INT, []), ("going", BOOL, []), ("h", FLOAT, [CHANNELS, STATES])],
        [
            ("still_going", BOOL, []),
            ("h_next", FLOAT, [CHANNELS, STATES]),
            ("y_t", FLOAT, [CHANNELS, 1]),
        ],
    )
    nodes = [
        *_length(),
        helper.make_node("Loop", ["steps", "", "h_first"], ["h_last", "y"], body=body),
    ]
    _save_recurrence(path, nodes)


def write_mamba_scan(path: Path) -> None:
    """Write the recurrence of `write_mamba_loop` as a Scan."""
    body = _graph(
        _recurrence()[3:],
        [
            ("h", FLOAT, [CHANNELS, STATES]),
            ("decay_t", FLOAT, [CHANNELS, STATES]),
            ("drive_t", FLOAT, [CHANNELS, STATES]),
            ("readout_t", FLOAT, [STATES, 1]),
        ],
        [("h_next", FLOAT, [CHANNELS, STATES]), ("y_t", FLOAT, [CHANNELS, 1])],
    )
    sequences = ["decay", "drive", "readout"]
    nodes = [helper.make_node("Scan", ["h_first", *sequences], ["h_last", "y"], body=body)]
    nodes[0].attribute.append(helper.make_attribute("num_scan_inputs", len(sequences)))
    _save_recurrence(path, nodes)


def write_mamba_unrolled(path: Path, steps: int = 1000) -> None:
    """Write the recurrence of `write_mamba_loop` without a Loop: what its bodies alone take."""
    nodes, parts = [], []
    constants = []
    for t in range(steps):
        constants.append(helper.make_tensor(f"t{t}", INT, [], [t]))
        names = {"t": f"t{t}", "h": f"h{t}" if t else "h_first"}
        names["h_next"] = f"h{t + 1}" if t + 1 < steps else "h_last"
        for node in _recurrence():
            copy = NodeProto()
            copy.CopyFrom(node)
            for field in (copy.input, copy.output):
                for i, name in enumerate(field):
                    if name not in ("decay", "drive", "readout"):
                        field[i] = names.get(name, f"{name}_{t}")
            nodes.append(copy)
        parts.append(f"y_t_{t}")
    nodes.append(helper.make_node("Concat", parts, ["flat"], axis=0))
    constants.append(helper.make_tensor("y_shape", INT, [3], [steps, CHANNELS, 1]))
    nodes.append(helper.make_node("Reshape", ["flat", "y_shape"], ["y"]))
    _save_recurrence(path, nodes, constants)


def write_nested_if(path: Path) -> None:
    """Write a Loop of as many steps as `x` is long; in each, an If within an If picks one of three.

    Even steps add the element, of the odd ones every other adds its half, the rest its negative.
    """

    def branch(name: str, nodes: list[NodeProto]) -> GraphProto:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, [1])])

    def parity(number: str, divisor: str, to: str) -> list[NodeProto]:
        return [
            helper.make_node("Mod", [number, divisor], [f"{to}_rest"]),
            helper.make_node("Less", [f"{to}_rest", "one"], [to]),
        ]

    element = helper.make_node("Gather", ["x", "t1"], ["x_t"], axis=0)
    even = branch("even", [helper.make_node("Add", ["sum", "x_t"], ["even"])])
    half = branch(
        "half",
        [
            helper.make_node("Mul", ["x_t", "factor"], ["scaled"]),
            helper.make_node("Add", ["sum", "scaled"], ["half"]),
        ],
    )
    negative = branch("negative", [helper.make_node("Sub", ["sum", "x_t"], ["negative"])])
    odd = branch(
        "odd",
        [
            helper.make_node("Div", ["t1", "two"], ["t_half"]),
            *parity("t_half", "two", "is_half"),
            helper.make_node("If", ["is_half"], ["odd"], then_branch=half, else_branch=negative),
        ],
    )
    body = _graph(
        [
            helper.make_node("Identity", ["going"], ["still_going"]),
            helper.make_node("Unsqueeze", ["t", "zero"], ["t1"]),
            element,
            *parity("t1", "two", "is_even"),
            helper.make_node("If", ["is_even"], ["sum_next"], then_branch=even, else_branch=odd),
        ],
        [("t", INT, []), ("going", BOOL, []), ("sum", FLOAT, [1])],
        [("still_going", BOOL, []), ("sum_next", FLOAT, [1])],
    )
    constants = [
        helper.make_tensor("zero", INT, [1], [0]),
        helper.make_tensor("one", INT, [1], [1]),
        helper.make_tensor("two", INT, [1], [2]),
        helper.make_tensor("factor", FLOAT, [1], [0.5]),
        helper.make_tensor("sum_first", FLOAT, [1], [0.0]),
    ]
    nodes = [
        helper.make_node("Size", ["x"], ["steps"]),
        helper.make_node("Loop", ["steps", "", "sum_first"], ["sum_last"], body=body),
    ]
    _save(path, nodes, [("x", FLOAT, ["n"])], [("sum_last", FLOAT, [1])], constants)


def _recurrence() -> list[NodeProto]:
    """One step: slices at `t`, then the state, then what is read out of it."""
    return [
        helper.make_node("Gather", ["decay", "t"], ["decay_t"], axis=0),
        helper.make_node("Gather", ["drive", "t"], ["drive_t"], axis=0),
        helper.make_node("Gather", ["readout", "t"], ["readout_t"], axis=0),
        helper.make_node("Mul", ["decay_t", "h"], ["kept"]),
        helper.make_node("Add", ["kept", "drive_t"], ["h_next"]),
        helper.make_node("MatMul", ["h_next", "readout_t"], ["y_t"]),
    ]


def _length() -> list[NodeProto]:
    return [
        helper.make_node("Shape", ["decay"], ["length"], start=0, end=1),
        helper.make_node("Squeeze", ["length"], ["steps"]),
    ]


def _save_recurrence(
    path: Path, nodes: list[NodeProto], constants: Sequence[TensorProto] = ()
) -> None:
    inputs: list[Declared] = [
        ("decay", FLOAT, ["steps_", CHANNELS, STATES]),
        ("drive", FLOAT, ["steps_", CHANNELS, STATES]),
        ("readout", FLOAT, ["steps_", STATES, 1]),
        ("h_first", FLOAT, [CHANNELS, STATES]),
    ]
    outputs: list[Declared] = [
        ("h_last", FLOAT, [CHANNELS, STATES]),
        ("y", FLOAT, ["steps_", CHANNELS, 1]),
    ]
    _save(path, nodes, inputs, outputs, constants)


def _graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Declared],
    outputs: Sequence[Declared],
    constants: Sequence[TensorProto] = (),
) -> GraphProto:
    return helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        constants,
    )


def _save(
    path: Path,
    nodes: Sequence[NodeProto],
    inputs: Sequence[Declared],
    outputs: Sequence[Declared],
    constants: Sequence[TensorProto] = (),
) -> None:
    graph = _graph(nodes, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
