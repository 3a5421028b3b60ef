"""The models that tests and benchmarks run, and the inputs they run on.

Half of them are exported here from classes of `transformers` and `torch` with random weights and a
fixed seed; the other half come ready made inside packages. Nothing is downloaded at run time.

`python -m bench.models` writes all of them into `build/models`. A test or benchmark calls
`ensure(name)` for the path of one model and `cases(name)` for its inputs.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "build" / "models"

Case = Mapping[str, np.ndarray]
Inputs = Callable[..., dict[str, np.ndarray]]


@dataclass(frozen=True)
class Model:
    """One model of the collection.

    Parameters
    ----------
    name
        Short name, also the stem of its file.
    write
        Writes the model to the given path (and external data beside it, if any). What only writing
        needs, `torch` above all, is imported by the call: whoever asks for inputs does not pay.
    inputs
        Makes one set of inputs from a random generator and the values of one entry of `sizes`.
    sizes
        The arguments of `inputs` for each case. The first case is the one that is benchmarked.
    benchmarked
        False for variants that only tests need.
    quantized
        Results differ by steps of the quantisation: where engines round a tie apart, one value
        moves by a step, and later layers carry that on. `reference.mismatch` allows for it.
    twin
        The float32 model that this one is a narrower form of, or nothing.
    """

    name: str
    write: Callable[[Path], None]
    inputs: Inputs
    sizes: tuple[tuple[int, ...], ...] = ((1,), (3,))
    benchmarked: bool = True
    quantized: bool = False
    twin: str = ""


def collection() -> dict[str, Model]:
    """All models by name, in the order in which tables list them."""
    from bench.models.table import MODELS

    return {model.name: model for model in MODELS}


def survey() -> dict[str, Model]:
    """Architectures beyond the collection by name, in the order in which tables list them."""
    from bench.models.surveyed import SURVEY

    return {model.name: model for model in SURVEY}


def _model(name: str) -> Model:
    known = collection()
    return known[name] if name in known else survey()[name]


def ensure(name: str, folder: Path = DEFAULT_FOLDER) -> Path:
    """Path of model `name`; it is written first if it is not there yet.

    Raises
    ------
    KeyError
        If there is no model of that name.
    """
    path = folder / f"{name}.onnx"
    if not path.exists():
        model = _model(name)
        folder.mkdir(parents=True, exist_ok=True)
        # External data is named after the file, so the whole is written elsewhere under its final
        # name, then moved, the graph last. Two processes may do so at once: both write the same.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            model.write(Path(scratch) / path.name)
            for part in sorted(Path(scratch).iterdir(), key=lambda part: part.suffix == ".onnx"):
                part.replace(folder / part.name)
    return path


def cases(name: str) -> dict[str, Case]:
    """Inputs of model `name` by case, for example `{"1x224": {"x": array}, ...}`.

    The values depend on the names of model and case alone, so that separate processes agree.
    """
    model = _model(name)
    result: dict[str, Case] = {}
    for sizes in model.sizes:
        case = "x".join(str(size) for size in sizes)
        rng = np.random.default_rng(zlib.crc32(f"{name}/{case}".encode()))
        result[case] = model.inputs(rng, *sizes)
    return result
