"""The engines under comparison, each reduced to: open a model, get a function that runs it.

Every engine computes in float32 with the given number of threads, and may prepare what it can
before it is asked to run. Engines that gain from knowing the input shapes are told them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Feeds = Mapping[str, np.ndarray]
Run = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Engine:
    """An engine: how it is called in tables, what to install, how to open a model with it."""

    title: str
    requirement: str | None
    start: Callable[[], tuple[str, Callable[[Path, Feeds, int], Run]]]
    remark: str = ""


def start_sardonyx() -> tuple[str, Callable[[Path, Feeds, int], Run]]:
    """Version and opener of Sardonyx."""
    import sardonyx

    def open_model(path: Path, feeds: Feeds, threads: int) -> Run:
        session = sardonyx.load(path, threads=threads)
        names = [output.name for output in session.outputs]
        feeds = dict(feeds)

        def run() -> list[np.ndarray]:
            results = session.run(feeds)
            return [results[name] for name in names]

        return run

    return sardonyx.__version__, open_model


def start_onnxruntime() -> tuple[str, Callable[[Path, Feeds, int], Run]]:
    """Version and opener of ONNX Runtime."""
    import onnxruntime

    def open_model(path: Path, feeds: Feeds, threads: int) -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = dict(feeds)
        return lambda: session.run(None, feeds)

    return onnxruntime.__version__, open_model


def start_openvino() -> tuple[str, Callable[[Path, Feeds, int], Run]]:
    """Version and opener of OpenVINO."""
    import openvino

    core = openvino.Core()

    def open_model(path: Path, feeds: Feeds, threads: int) -> Run:
        model = core.read_model(path)
        model.reshape({name: list(array.shape) for name, array in feeds.items()})
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        }
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        feeds = dict(feeds)

        def run() -> list[np.ndarray]:
            return list(request.infer(feeds, share_inputs=True, share_outputs=True).values())

        return run

    return openvino.__version__.split("-")[0], open_model


def start_tract() -> tuple[str, Callable[[Path, Feeds, int], Run]]:
    """Version and opener of tract."""
    import tract

    mnemonics = {"float32": "f32", "int64": "i64"}

    def open_model(path: Path, feeds: Feeds, threads: int) -> Run:
        model = tract.onnx().load(path)
        tensors = []
        for index in range(model.input_count()):
            array = feeds[model.input_name(index)]
            fact = [str(size) for size in array.shape] + [mnemonics[str(array.dtype)]]
            model.set_input_fact(index, ",".join(fact))
            tensors.append(tract.Tensor.from_numpy(np.ascontiguousarray(array)))
        for index in range(model.output_count()):
            model.set_output_fact(index, None)
        runnable = model.into_model().into_runnable()
        return lambda: [result.to_numpy() for result in runnable.run(tensors)]

    return tract.version(), open_model


ENGINES = {
    "sardonyx": Engine("Sardonyx", None, start_sardonyx),
    "onnxruntime": Engine("ONNX Runtime", "onnxruntime==1.31.1", start_onnxruntime),
    "openvino": Engine("OpenVINO", "openvino==2026.4.*", start_openvino),
    "tract": Engine(
        "tract", "tract==0.23.*", start_tract, "its Python package runs on one thread always"
    ),
}
REFERENCE = "onnxruntime"
