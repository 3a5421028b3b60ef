"""What ONNX Runtime says about a model, down to any value inside it, and where others differ.

`python -m bench.models.reference [NAME...]` runs models with Sardonyx and tells for each case
whether it agrees, and if not, the first value inside the model that differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime as ort

RTOL, ATOL = 1e-4, 1e-5
QUANTIZED_MEAN, QUANTIZED_LARGEST = 0.02, 0.1  # of the range of the results: see `drift`


def open_session(model: str | bytes) -> ort.InferenceSession:
    """A session of ONNX Runtime that keeps quiet."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_all(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value that the nodes of the main graph compute, in the order of the nodes."""
    model = onnx.load(path)
    names = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = open_session(model.SerializeToString())
    return dict(zip(names, session.run(names, feeds), strict=True))


def drift(actual: np.ndarray, expected: np.ndarray) -> str | None:
    """How far results of a quantised model lie apart, or None if no further than they may.

    Engines scale sums in different orders, so a tie may round either way. That is a step of one
    value (1/255 of its range), which later layers carry to others: a few per cent at worst where
    activations are quantised anew by their own range, far less on the average. A wrong scale, zero
    point, weight or layout leaves results that have nothing in common: tens of per cent.
    """
    span = float(np.ptp(expected)) or 1.0
    deviation = np.abs(actual.astype(np.float64) - expected) / span
    mean, largest = float(deviation.mean()), float(deviation.max())
    if mean <= QUANTIZED_MEAN and largest <= QUANTIZED_LARGEST:
        return None
    return f"differs by {mean:.2%} of its range on the average, by {largest:.2%} at most"


def mismatch(actual: np.ndarray, expected: np.ndarray, *, quantized: bool = False) -> str | None:
    """How two arrays differ, or None if they agree within the tolerances."""
    if actual.dtype != expected.dtype:
        return f"type {actual.dtype} instead of {expected.dtype}"
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if quantized:
        return drift(actual, expected)
    if expected.dtype.kind not in "fc":
        wrong = actual != expected
    else:
        wrong = ~np.isclose(actual, expected, RTOL, ATOL, equal_nan=True)
    if not wrong.any():
        return None
    where = tuple(int(index) for index in np.argwhere(wrong)[0])
    return (
        f"{wrong.sum()} of {wrong.size} elements differ, the first at {list(where)}: "
        f"{actual[where]!s} instead of {expected[where]!s}"
    )


def doubled(path: Path) -> bytes:
    """A float32 model in float64: inputs, outputs, weights, constants and casts.

    Scales of Resize, which the standard has in float32 alone, are cast back.
    """
    model = onnx.load(path)

    def widen(tensor: onnx.TensorProto) -> None:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    def walk(graph: onnx.GraphProto) -> None:
        del graph.value_info[:]
        for tensor in graph.initializer:
            widen(tensor)
        for value in [*graph.input, *graph.output]:
            if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                    attribute.i = onnx.TensorProto.DOUBLE
                widen(attribute.t)
                if attribute.HasField("g"):
                    walk(attribute.g)
        nodes = list(graph.node)
        del graph.node[:]
        for node in nodes:
            if node.op_type == "Resize" and len(node.input) > 2 and node.input[2]:
                scales, single = node.input[2], f"{node.output[0]} scales"
                to = onnx.TensorProto.FLOAT
                graph.node.append(onnx.helper.make_node("Cast", [scales], [single], to=to))
                node.input[2] = single
            graph.node.append(node)

    walk(model.graph)
    return model.SerializeToString()


def excess(actual: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance from exact numbers, in tolerances."""
    return float((np.abs(actual - exact) / (ATOL + RTOL * np.abs(exact))).max(initial=0))


def first_difference(
    path: Path, session: Any, feeds: dict[str, np.ndarray], *, quantized: bool = False
) -> str:
    """Name the first value inside a model whose result differs from ONNX Runtime's.

    `session.run(feeds, outputs=names)` is asked for every value of the main graph by name.
    """
    expected = run_all(path, feeds)
    producers = {
        name: node
        for node in onnx.load(path, load_external_data=False).graph.node
        for name in node.output
    }
    for group in chunks(list(expected), 64):
        actual = session.run(feeds, outputs=group)
        for name in group:
            pair = np.asarray(actual[name]), np.asarray(expected[name])
            problem = mismatch(*pair, quantized=quantized)
            if problem:
                node = producers[name]
                return (
                    f"first differing value: '{name}' of {node.op_type} node '{node.name}' "
                    f"(inputs {list(node.input)}): {problem}"
                )
    return "no value inside differs when it is asked for"


def chunks(names: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield list(names[start : start + size])


def main() -> int:
    """Compare the named models, or all; return how many cases fail."""
    import argparse

    import sardonyx
    from bench.models import cases, collection, ensure

    parser = argparse.ArgumentParser(prog="python -m bench.models.reference")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for name in options.names or collection():
        path, quantized = ensure(name), collection()[name].quantized
        peer = open_session(str(path))
        names = [output.name for output in peer.get_outputs()]
        session = None
        for case, feeds in cases(name).items():
            expected = dict(zip(names, peer.run(names, dict(feeds)), strict=True))
            try:
                session = session or sardonyx.load(path, threads=options.threads)
                actual = session.run(dict(feeds))
                problems = [
                    mismatch(actual[output], expected[output], quantized=quantized)
                    for output in names
                ]
                verdict = "agrees"
                if any(problems):
                    verdict = first_difference(path, session, dict(feeds), quantized=quantized)
            except Exception as error:  # the next model is still worth trying
                verdict = f"{type(error).__name__}: {error}"
            failed += verdict != "agrees"
            print(f"{name} {case}: {verdict}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 99))
