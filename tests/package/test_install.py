"""The installed CMake package: `examples/cpp` is built against it and runs a model."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SARDONYX_BUILD_DIR", ROOT / "build/release"))


def command(*words: object) -> str:
    """Run a command and return its output; a failure shows it."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sardonyx installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("prefix")
    command("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def example(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of `examples/cpp`, built outside the checkout as a user would."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(ROOT / "examples/cpp", folder / "source")
    command(
        *("cmake", "-G", "Ninja", "-S", folder / "source", "-B", folder / "build"),
        f"-DCMAKE_PREFIX_PATH={prefix}",
    )
    command("cmake", "--build", folder / "build")
    return folder / "build" / "example"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x @ w) for x of [N, 3]."""
    weights = np.array([[1, 2], [-4, 3], [1, -1]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Relu", ["product"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return path


def test_program_of_installed_package_runs_a_model(example: Path, model: Path) -> None:
    assert command(example, model) == "y [1,2]: 0 1\n"


def test_program_reports_a_missing_model(example: Path, tmp_path: Path) -> None:
    missing = tmp_path / "absent.onnx"
    done = subprocess.run([example, missing], capture_output=True, text=True)
    assert done.returncode == 1
    assert str(missing) in done.stderr


def test_installed_tool_runs(prefix: Path) -> None:
    assert command(prefix / "bin/sardonyx", "--version").strip().endswith("0.1.0")


def test_images_are_decoded_by_an_installed_library(prefix: Path, tmp_path: Path) -> None:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], name="camera")
    graph = helper.make_graph(
        [node],
        "picture",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [None])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]),
        tmp_path / "picture.onnx",
    )
    np.save(tmp_path / "x.npy", np.frombuffer(b"P5 2 1 255 \x07\x09", np.uint8))
    run = [prefix / "bin/sardonyx", "run", tmp_path / "picture.onnx"]
    run += ["--input", f"x={tmp_path / 'x.npy'}"]
    assert "[1,2,3]" in command(*run)

    (library,) = prefix.rglob("libsardonyx_images.so")
    library.rename(tmp_path / "elsewhere.so")
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1
    assert "camera" in done.stderr and "libsardonyx_images.so" in done.stderr
