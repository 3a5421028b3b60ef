"""Backend suites of older releases of onnx: their wheels carry models, inputs and outputs."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = Path(__file__).parents[2] / "build" / "older-suites"

RELEASES = {  # release: a Python and a platform that it has a wheel for
    "1.2.2": ("3.6", "manylinux1_x86_64"),
    "1.4.1": ("3.6", "manylinux1_x86_64"),
    "1.6.0": ("3.6", "manylinux1_x86_64"),
    "1.8.1": ("3.6", "manylinux2010_x86_64"),
    "1.10.2": ("3.6", "manylinux_2_12_x86_64"),
    "1.14.1": ("3.11", "manylinux_2_17_x86_64"),
    "1.18.0": ("3.11", "manylinux_2_17_x86_64"),
}

DATA = re.compile(r"onnx/backend/test/data/((?:node|simple|pytorch-\w+)/\w+)/(.+)")


def wheel_of(release: str) -> Path:
    """Download the wheel of a release, if it is not there yet."""
    found = sorted(FOLDER.glob(f"onnx-{release}-*.whl"))
    if not found:
        python, platform = RELEASES[release]
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "-q"]
        command += ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
        command += ["--python-version", python, "--platform", platform]
        command += ["--dest", str(FOLDER), f"onnx=={release}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(FOLDER.glob(f"onnx-{release}-*.whl"))
        if done.returncode or not found:
            raise RuntimeError(
                f"cannot download onnx {release}, whose suite this runs:\n{done.stderr}"
            )
    return found[0]


@dataclass(frozen=True)
class OldCase:
    """A model of a release's suite, with its sets of inputs and outputs in the wheel."""

    release: str
    name: str
    files: tuple[tuple[str, int, int], ...]  # path beneath the case, checksum, size

    def __str__(self):
        return f"{self.release}/{self.name}"

    def model(self, wheel: zipfile.ZipFile) -> bytes:
        return wheel.read(f"onnx/backend/test/data/{self.name}/model.onnx")

    def data_sets(self, wheel: zipfile.ZipFile) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """Inputs by name and outputs of every set of data."""
        graph = onnx.load_from_string(self.model(wheel)).graph
        constants = {tensor.name for tensor in graph.initializer}
        folders = {path.split("/")[0] for path, _, _ in self.files if path.endswith(".pb")}
        for folder in sorted(folders):
            inputs = self._values(wheel, f"{folder}/input", graph.input, constants)
            outputs = self._values(wheel, f"{folder}/output", graph.output, set())
            yield inputs, list(outputs.values())

    def _values(self, wheel: zipfile.ZipFile, prefix: str, infos: Any, constants: set[str]):
        count = sum(path.startswith(f"{prefix}_") for path, _, _ in self.files)
        given = [info for info in infos if info.name not in constants]
        given = given if len(given) >= count else list(infos)
        base = f"onnx/backend/test/data/{self.name}/{prefix}"
        return {
            given[i].name: _value(wheel.read(f"{base}_{i}.pb"), given[i].type) for i in range(count)
        }


def _value(content: bytes, type_: onnx.TypeProto) -> Any:
    """Read a value; releases before 1.19 kept bfloat16 as the bits of uint16."""
    kind = type_.WhichOneof("value")
    proto, convert = {
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "map_type": (onnx.MapProto, numpy_helper.to_dict),
        "optional_type": (onnx.OptionalProto, _optional),
    }.get(kind, (onnx.TensorProto, numpy_helper.to_array))
    value = convert(proto.FromString(content))
    if kind == "tensor_type" and value.dtype == np.uint16:
        return value.view(helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type))
    return value


def _optional(proto: onnx.OptionalProto) -> Any:
    """As numpy_helper does, and without an element whatever type is named."""
    values = (field for field, _ in proto.ListFields() if field.name.endswith("_value"))
    return numpy_helper.to_optional(proto) if any(values) else None


def cases_of(release: str) -> list[OldCase]:
    """Every case of a release's suite."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    with zipfile.ZipFile(wheel_of(release)) as wheel:
        for info in wheel.infolist():
            if match := DATA.fullmatch(info.filename):
                found.setdefault(match[1], []).append((match[2], info.CRC, info.file_size))
    return [OldCase(release, name, tuple(sorted(files))) for name, files in sorted(found.items())]


def new_cases(release: str) -> list[OldCase]:
    """The cases of a release that none before it has with the same bytes."""
    seen: set[Any] = set()
    for older in RELEASES:
        if older == release:
            break
        seen.update((case.name, case.files) for case in cases_of(older))
    return [case for case in cases_of(release) if (case.name, case.files) not in seen]
