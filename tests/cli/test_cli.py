"""The command line, as a user calls it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper, numpy_helper

BUILT = Path(__file__).parents[2] / "build/release"
TOOL = Path(os.environ.get("SARDONYX_BUILD_DIR", BUILT)) / "bin" / "sardonyx"

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 10, 100], np.float32)


def start(*words: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(TOOL), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


def sardonyx(*words: object) -> str:
    done = start(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(*words: object) -> str:
    """The message of a command that fails, which is all it says."""
    done = start(*words)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "terminate" not in done.stderr
    return done.stderr


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path):
    return saved(small.add(), tmp_path / "add.onnx")


def identity_of(dtype: int, tmp_path: Path) -> Path:
    return saved(small.identity(dtype, [None, None]), tmp_path / "identity.onnx")


def test_version_and_help():
    assert re.fullmatch(r"sardonyx \d+\.\d+\.\d+\n", sardonyx("--version"))
    overview = sardonyx("--help")
    assert "sardonyx COMMAND --help" in overview
    for command in ("run", "bench", "inspect", "explain", "compile"):
        assert command in overview
        text = sardonyx(command, "--help")
        assert "FILE" in text
        assert "COMMAND" not in text
        assert ("--recompile" in text) == (command in ("run", "bench", "explain"))


def test_wrong_words_are_refused():
    assert "subcommand" in fails()
    assert "nonsense" in fails("nonsense")
    assert "model" in fails("run")
    assert "--nonsense" in fails("run", "model.onnx", "--nonsense")
    assert "--threads" in fails("run", "model.onnx", "--threads", "-3")


def test_run_shows_the_outputs(model, tmp_path):
    np.save(tmp_path / "a.npy", A)
    np.save(tmp_path / "b.npy", B)
    output = sardonyx(
        "run", model, "--input", f"a={tmp_path}/a.npy", "--input", f"b={tmp_path}/b.npy"
    )
    row = next(line.split() for line in output.splitlines() if line.split()[:1] == ["y"])
    assert row[1:7] == ["float", "[2,3]", "1", "39.5", "105", "1"]


def test_run_writes_npy_and_npz(model, tmp_path):
    np.savez(tmp_path / "inputs.npz", a=A, b=B)
    np.savez_compressed(tmp_path / "packed.npz", a=A, b=B)
    for name in ("inputs.npz", "packed.npz"):
        sardonyx("run", model, "--input", tmp_path / name, "--output", tmp_path / "out" / name[:3])
        np.testing.assert_array_equal(np.load(tmp_path / "out" / name[:3] / "y.npy"), A + B)
    sardonyx("run", model, "-i", tmp_path / "inputs.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as archive:
        assert archive.files == ["y"]
        np.testing.assert_array_equal(archive["y"], A + B)


def test_run_reads_protobuf(model, tmp_path):
    (tmp_path / "a.pb").write_bytes(numpy_helper.from_array(A).SerializeToString())
    sardonyx("run", model, "-i", f"a={tmp_path}/a.pb", "-i", "b=2", "-o", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out/y.npy"), A + 2)


def test_random_inputs_depend_on_the_seed_alone(model, tmp_path):
    results = []
    for number, seed in enumerate((0, 0, 5)):
        out = tmp_path / str(number)
        sardonyx("run", model, "--shape", "a=4x3", "--seed", seed, "-i", "b=0", "-o", out)
        results.append(np.load(out / "y.npy"))
    assert results[0].shape == (4, 3)
    assert 0 <= results[0].min() < results[0].max() < 1
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_random_integers_are_zero_or_one(tmp_path):
    path = identity_of(TensorProto.INT64, tmp_path)
    sardonyx("run", path, "--shape", "x=10x10", "-o", tmp_path / "out")
    assert set(np.load(tmp_path / "out/y.npy").flat) == {0, 1}


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [
        (TensorProto.COMPLEX64, "2.5+0j"),
        (TensorProto.BFLOAT16, "2.5"),
        (TensorProto.FLOAT4E2M1, "2"),  # of 2 and 3 the even one
        (TensorProto.INT4, "2"),
        (TensorProto.UINT8, "2"),
        (TensorProto.BOOL, "1"),
    ],
)
def test_a_number_fills_inputs_of_every_type(dtype, shown, tmp_path):
    line = sardonyx("run", identity_of(dtype, tmp_path), "-i", "x=2.5").splitlines()[1]
    assert line.split()[-1] == shown


def test_nothing_but_nan_has_no_minimum(tmp_path):
    path = identity_of(onnx.TensorProto.FLOAT, tmp_path)
    line = sardonyx("run", path, "-i", "x=nan").splitlines()[1]
    assert line.split() == ["y", "float", "[1,1]", "nan", "nan", "nan", "nan"]


def test_sizes_that_are_not_given_are_one(model, tmp_path):
    done = start("run", model, "-o", tmp_path / "out")
    assert "dimension 'batch' is taken as 1" in done.stderr
    assert np.load(tmp_path / "out/y.npy").shape == (1, 3)
    done = start("run", model, "--shape", "batch=5", "-o", tmp_path / "out")
    assert done.stderr == ""
    assert np.load(tmp_path / "out/y.npy").shape == (5, 3)


@pytest.mark.parametrize(
    "name",
    "float64 float16 int8 int16 int32 uint8 uint16 uint32 uint64 bool complex64 complex128".split(),
)
def test_npy_of_every_type(name, tmp_path):
    x = np.array([[0, 1, 1], [1, 0, 1]], name)
    path = identity_of(helper.np_dtype_to_tensor_dtype(x.dtype), tmp_path)
    for order in ("C", "F"):
        np.save(tmp_path / "x.npy", np.asarray(x, order=order))
        sardonyx("run", path, "-i", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
        y = np.load(tmp_path / "out/y.npy")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("name", "stored"),
    [("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("int4", "int8"), ("uint2", "uint8")],
)
def test_npy_of_types_that_numpy_lacks(name, stored, tmp_path):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    path = identity_of(helper.np_dtype_to_tensor_dtype(dtype), tmp_path)
    np.save(tmp_path / "x.npy", x)
    sardonyx("run", path, "-i", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    y = np.load(tmp_path / "out/y.npy")
    assert y.dtype == stored
    np.testing.assert_array_equal(y, x.astype(stored))


def test_npy_of_text(tmp_path):
    path = identity_of(TensorProto.STRING, tmp_path)
    np.save(tmp_path / "x.npy", np.array([["a", "größe", "日本", "😀"]]))
    output = sardonyx("run", path, "-i", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert '"größe"' in output
    y = np.load(tmp_path / "out/y.npy")
    assert [text.decode() for text in y[0]] == ["a", "größe", "日本", "😀"]


def test_values_inside_the_graph(tmp_path):
    nodes = [
        helper.make_node("Neg", ["x"], ["inner/value"]),
        helper.make_node("Abs", ["inner/value"], ["y"]),
    ]
    path = saved(small.of_nodes(*nodes), tmp_path / "chain.onnx")
    arguments = ("run", path, "--shape", "x=3", "-i", "x=2", "--outputs", "inner/value,y")
    assert "inner/value" in sardonyx(*arguments, "-o", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out/inner_value.npy"), [-2, -2, -2])


def test_profile(model, tmp_path):
    output = sardonyx("run", model, "--shape", "a=2x3", "--profile", tmp_path / "trace.json")
    assert "Add" in output
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_bench(model):
    output = sardonyx("bench", model, "--shape", "a=2x3", "--threads", 1, "--seconds", 0.2)
    for word in ("load", "first run", "p50", "p90", "p99", "min", "max", "runs/s", "peak memory"):
        assert word in output
    assert re.search(r"threads +1 ", output)


def test_bench_profiles(model, tmp_path):
    trace = tmp_path / "trace.json"
    output = sardonyx("bench", model, "--shape", "a=2x3", "--seconds", 0, "--profile", trace)
    assert "Add" in output
    assert len(json.loads(trace.read_text())["traceEvents"]) == 20


def test_inspect(model, tmp_path):
    output = sardonyx("inspect", model)
    for word in ("tensor(float)", "[batch,3]", f"ai.onnx {small.OPSET}", "Add", "every operator"):
        assert word in output
    nodes = [helper.make_node(name, ["x"], [name]) for name in ("Fancy", "Plain")]
    nodes.append(helper.make_node("Add", ["Fancy", "Plain"], ["y"]))
    path = saved(small.of_nodes(*nodes), tmp_path / "unknown.onnx")
    output = sardonyx("inspect", path)
    assert "cannot run" in output
    assert "Fancy" in output.split("cannot run")[1]
    assert "Plain" in output.split("cannot run")[1]


def test_explain(model):
    output = sardonyx("explain", model, "--shape", "batch=4", "--graph")
    assert "[4,3]" in output
    assert "pass fold_constants" in output
    sardonyx("explain", model, "--shape", "batch=4", "--disable-pass", "fold_constants")
    assert "explain' lists them" in fails("explain", model, "--disable-pass", "nonsense")
    sardonyx("explain", model, "--shape", "batch=4", "--no-winograd")


def test_errors_name_what_is_wrong(model, tmp_path):
    assert "absent.onnx" in fails("run", tmp_path / "absent.onnx")
    assert "absent.npy" in fails("run", model, "-i", f"a={tmp_path}/absent.npy")
    assert "its inputs are a, b" in fails("run", model, "-i", "c=random")
    assert "its inputs are a, b" in fails("run", model, "--shape", "c=1")
    assert "--shape a=1xq" in fails("run", model, "--shape", "a=1xq")
    assert "NAME=" in fails("run", model, "-i", "a")
    assert "a.txt" in fails("run", model, "-i", "a=a.txt")
    np.save(tmp_path / "a.npy", A.astype(np.int64))
    message = fails("run", model, "-i", f"a={tmp_path}/a.npy")
    assert "tensor(float)" in message and "int64" in message
    np.save(tmp_path / "a.npy", A[:, :2])
    assert "[2,2]" in fails("run", model, "-i", f"a={tmp_path}/a.npy")
    assert "cannot" in fails("run", model, "-o", model / "below-a-file")
    np.savez(tmp_path / "other.npz", c=A, d=B)
    assert "only c, d" in fails("run", model, "-i", f"a={tmp_path}/other.npz")
    twice = fails("run", model, "--shape", "batch=2", "--shape", "batch=3")
    assert "--shape batch=3: another was given before" in twice
    large = fails("run", model, "--shape", "a=99999999999x3")
    assert "input 'a' of shape [99999999999,3]" in large
    assert "would replace" in fails("compile", model, "--output", model)


def test_damaged_arrays(model, tmp_path):
    np.save(tmp_path / "a.npy", A)
    np.savez_compressed(tmp_path / "a.npz", a=A, b=B)
    for name in ("a.npy", "a.npz"):
        path = tmp_path / name
        content = path.read_bytes()
        for length in range(0, len(content), 7):
            path.write_bytes(content[:length])
            assert name in fails("run", model, "-i", f"a={path}")
    (tmp_path / "a.pb").write_bytes(b"\xff" * 20)
    assert "a.pb" in fails("run", model, "-i", f"a={tmp_path}/a.pb")


def test_a_changed_byte_in_an_archive_is_refused(model, tmp_path):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", a=A)
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[content.index(A.tobytes()) if save is np.savez else 60] ^= 1
        (tmp_path / "a.npz").write_bytes(content)
        assert "an entry is damaged" in fails("run", model, "-i", f"a={tmp_path}/a.npz")


def test_arrays_of_nothing_end(tmp_path):
    path = identity_of(onnx.TensorProto.STRING, tmp_path)
    header = "{'descr': '<U0', 'fortran_order': True, 'shape': (0, 1), }\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "x.npy").write_bytes(content)
    assert "[0,1]" in sardonyx("run", path, "-i", f"x={tmp_path}/x.npy")


def test_is_on_the_path_of_the_environment():
    tool = Path(sys.executable).parent / "sardonyx"
    if not tool.exists():
        pytest.skip("the environment was not set up by ./dev build")
    assert subprocess.run([tool, "--version"], capture_output=True).returncode == 0


def test_compile_inspect_and_run_an_engine(model, tmp_path):
    engine = tmp_path / "add.sdx"
    output = sardonyx("compile", model, "--shape", "a=2x3", "--output", engine)
    assert re.search(r"wrote .*add\.sdx in ", output)
    output = sardonyx("inspect", engine)
    for word in ("engine file", "machine", "add.onnx", "a=2x3", "1 nodes", "as they were written"):
        assert word in output
    np.save(tmp_path / "a.npy", A)
    sardonyx("run", engine, "-i", f"a={tmp_path}/a.npy", "-i", "b=2", "-o", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out/y.npy"), A + 2)
    assert "y" in sardonyx("explain", engine, "--shape", "a=2x3")
    sardonyx("compile", model, "--no-winograd", "--output", engine)
    assert "compiled without Winograd" in sardonyx("inspect", engine)
    content = bytearray(engine.read_bytes())
    content[-1] ^= 1
    engine.write_bytes(content)
    assert "the engine file was changed" in fails("run", engine)
    assert "--output" in fails("compile", model)
