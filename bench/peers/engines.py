"""The engines under comparison, each reduced to: open a model, get a function that runs it.

Every engine computes in float32 with the given number of threads, and may prepare what it can
before it is asked to run. Engines that gain from knowing the input shapes are told them.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Feeds = Mapping[str, np.ndarray]
Run = Callable[[], list[np.ndarray]]
Open = Callable[[Path, Feeds, int], Run]


def any_model(feeds: Feeds) -> bool:
    """All models."""
    return True


def pictures(feeds: Feeds) -> bool:
    """Networks of one batch of pictures."""
    (array, *others) = feeds.values()
    return not others and array.ndim == 4 and array.dtype == np.float32


@dataclass(frozen=True)
class Engine:
    """An engine under comparison.

    Parameters
    ----------
    title
        Its name in tables.
    packages
        What to install of it, by exact requirement and without what the packages depend on
        beyond this list; empty for Sardonyx, which is there.
    start
        Imports it; gives its version, and a function that opens a model.
    takes
        Whether a model of such inputs is its trade: others are not asked of it, nor counted.
    convert
        Writes a model in the engine's own format into a folder, unless it is there, and gives the
        path; done ahead.
    is_timed
        Whether its runs are timed; else only its loading and its memory are of interest.
    remark
        What a reader of the tables has to know.
    """

    title: str
    packages: tuple[str, ...]
    start: Callable[[], tuple[str, Open]]
    takes: Callable[[Feeds], bool] = any_model
    convert: Callable[[Path, Feeds, Path], Path] | None = None
    is_timed: bool = True
    remark: str = ""


def start_sardonyx() -> tuple[str, Open]:
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


def compile_engine(path: Path, feeds: Feeds, folder: Path) -> Path:
    """The model as an engine file of Sardonyx, for the shapes of the feeds."""
    target = folder / f"{path.stem}.sdx"
    if not target.exists():
        import sardonyx

        shapes = {name: array.shape for name, array in feeds.items()}
        sardonyx.compile(path, target, shapes=shapes)
    return target


def start_onnxruntime() -> tuple[str, Open]:
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


def start_openvino() -> tuple[str, Open]:
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


def start_tract() -> tuple[str, Open]:
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


def convert_for_ncnn(path: Path, feeds: Feeds, folder: Path) -> Path:
    """The model as PNNX writes it for ncnn, weights in float32."""
    target = folder / f"{path.stem}.ncnn.param"
    if not target.exists():
        spec = importlib.util.find_spec("pnnx")  # importing it would ask for torch
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("package pnnx is not installed", name="pnnx")
        copy = folder / path.name  # it writes beside its input
        copy.symlink_to(path.resolve())
        shapes = ",".join(str(list(array.shape)).replace(" ", "") for array in feeds.values())
        command = [Path(spec.origin).parent / "pnnx", copy, f"inputshape={shapes}", "fp16=0"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode or not target.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"PNNX fails (exit code {done.returncode}): {last}")
    return target


def start_ncnn() -> tuple[str, Open]:
    """Version and opener of ncnn."""
    import ncnn

    def open_model(path: Path, feeds: Feeds, threads: int) -> Run:
        net = ncnn.Net()
        options = net.opt
        options.num_threads = threads
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.use_bf16_storage = False
        if net.load_param(str(path)) or net.load_model(str(path.with_suffix(".bin"))):
            raise RuntimeError("the converted model does not load")
        (array,) = feeds.values()
        if len(array) != 1:
            raise ValueError("a batch of one picture only")
        (name,) = net.input_names()
        outputs = net.output_names()
        picture = ncnn.Mat(np.ascontiguousarray(array[0]))

        def run() -> list[np.ndarray]:
            extractor = net.create_extractor()
            extractor.input(name, picture)
            results = []
            for output in outputs:
                status, matrix = extractor.extract(output)
                if status:
                    raise RuntimeError(f"extracting {output} fails ({status})")
                results.append(np.array(matrix)[None])
            return results

        return run

    return ncnn.__version__, open_model


ENGINES = {
    "sardonyx": Engine("Sardonyx", (), start_sardonyx),
    "engine_file": Engine(
        "Sardonyx's engine file",
        (),
        start_sardonyx,
        convert=compile_engine,
        is_timed=False,
        remark="written ahead by `sardonyx compile`; it runs as Sardonyx does, so only its loading "
        "and memory are measured",
    ),
    "onnxruntime": Engine(
        "ONNX Runtime",
        ("onnxruntime==1.31.1", "flatbuffers", "packaging", "protobuf"),
        start_onnxruntime,
    ),
    "openvino": Engine(
        "OpenVINO", ("openvino==2026.4.*", "openvino-telemetry", "packaging"), start_openvino
    ),
    "tract": Engine(
        "tract",
        ("tract==0.23.*",),
        start_tract,
        remark="its Python package runs on one thread always",
    ),
    "ncnn": Engine(
        "ncnn",
        ("ncnn==1.0.20261020", "pnnx==20261020"),
        start_ncnn,
        takes=pictures,
        convert=convert_for_ncnn,
        remark="convolutional networks alone, converted ahead by PNNX; Winograd on, float32 "
        "storage and arithmetic",
    ),
}
REFERENCE = "onnxruntime"
