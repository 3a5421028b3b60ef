"""Convolutions of bytes by Winograd's algorithm: chosen where it is exact, and the same bits."""

import ctypes
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx

SIDE, CHANNELS = 24, 96


def has_tiles():
    """Whether the processor has matrix tiles (AMX) and the system gives them when asked."""
    if os.environ.get("SARDONYX_TARGET") or "amx_int8" not in Path("/proc/cpuinfo").read_text():
        return False
    arch_prctl, ask, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, ask, tile_data) == 0


# Tiles multiply bytes so fast that the direct sum always is the faster one.
TILES = has_tiles()
FASTER = "gemm" if TILES else "winograd4"
X = np.random.default_rng(1).integers(0, 256, (2, CHANNELS, SIDE, SIDE), dtype=np.uint8)


def model(weights, zero=None, w_zero=None, **constants):
    """ConvInteger with the weights as a constant, unless `changing`."""
    changing = constants.pop("changing", False)
    tensors = {"w": weights} | constants
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", CHANNELS, "h", "w"])]
    if changing:
        kind = helper.np_dtype_to_tensor_dtype(tensors.pop("w").dtype)
        inputs.append(helper.make_tensor_value_info("w", kind, weights.shape))
    names = ["x", "w"]
    if zero is not None or w_zero is not None:
        tensors["x_zero"] = np.uint8(zero or 0)
        names.append("x_zero")
    if w_zero is not None:
        tensors["w_zero"] = np.asarray(w_zero, weights.dtype)
        names.append("w_zero")
    node = helper.make_node("ConvInteger", names, ["y"], name="conv", pads=[1, 1, 1, 1])
    output = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    initializers = [onnx.numpy_helper.from_array(np.array(t), n) for n, t in tensors.items()]
    graph = helper.make_graph([node], "model", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def weights(kind=np.int8, low=-127, high=128):
    return np.random.default_rng(2).integers(low, high, (CHANNELS, CHANNELS, 3, 3)).astype(kind)


def check(proto, implementation, reason=None, threads=2, same=None, **given):
    """Runs it as it is and by the direct sum, beside ONNX Runtime (on `same`, if given)."""
    data = proto.SerializeToString()
    session = sardonyx.load(data, threads=threads)
    feeds = {"x": X} | given
    explained = session.explain({name: value.shape for name, value in feeds.items()})
    row = next(row for row in explained.splitlines() if " integer_conv " in row)
    assert f" {implementation} " in f"{row} ", explained
    if reason is not None:
        assert reason in explained
    got = session.run(feeds)["y"]
    direct = sardonyx.load(data, threads=threads, winograd=False).run(feeds)["y"]
    np.testing.assert_array_equal(got, direct)
    providers = ["CPUExecutionProvider"]
    data = data if same is None else same.SerializeToString()
    reference = onnxruntime.InferenceSession(data, providers=providers).run(None, feeds)[0]
    np.testing.assert_array_equal(got, reference)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("zero", [None, 0, 131])
def test_signed_weights(threads, zero):
    check(model(weights(), zero), FASTER, threads=threads)


@pytest.mark.parametrize("w_zero", [128, [128] * CHANNELS])
def test_unsigned_weights_with_a_zero_point(w_zero):
    # ONNX Runtime knows one zero point of the weights alone.
    given = weights(np.uint8, 0, 256)
    check(model(given, 7, w_zero), FASTER, same=model(given, 7, 128))


def test_sums_that_may_be_too_large():
    check(model(weights(low=120)), FASTER)
    unsigned = np.full((CHANNELS, CHANNELS, 3, 3), 255, np.uint8)
    slower = "the direct sum is expected to be faster"
    reason = slower if TILES else "sums may be too large to be exact"
    check(model(unsigned), "gemm", f"winograd4: {reason}")


def test_zero_points_that_differ():
    zeros = np.arange(CHANNELS, dtype=np.int8)
    proto = model(weights(), 7, zeros)
    session = sardonyx.load(proto.SerializeToString())
    explained = session.explain({"x": X.shape})
    assert "winograd4: weights have several zero points" in explained
    with_one = sardonyx.load(model(weights(), 7, 0).SerializeToString())
    ones = sardonyx.load(model(np.ones_like(weights()), 7).SerializeToString())
    difference = with_one.run({"x": X})["y"] - zeros[:, None, None] * ones.run({"x": X})["y"]
    np.testing.assert_array_equal(session.run({"x": X})["y"], difference)


def test_weights_that_change():
    proto = model(weights(), changing=True)
    check(proto, "gemm", "winograd4: weights are not constant", w=weights())


def test_in_an_engine_file(tmp_path):
    proto = model(weights(), 3)
    path, engine = tmp_path / "model.onnx", tmp_path / "model.sdx"
    onnx.save(proto, path)
    shapes = {"x": X.shape}
    sardonyx.compile(path, engine, shapes=shapes)
    path.unlink()
    loaded = sardonyx.load(engine)
    assert f" {FASTER} " in loaded.explain(shapes)
    expected = sardonyx.load(proto.SerializeToString(), winograd=False).run({"x": X})["y"]
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], expected)
    other = X[:, :, :9, :7].copy()  # a plan that the file does not have
    direct = sardonyx.load(proto.SerializeToString(), winograd=False).run({"x": other})["y"]
    np.testing.assert_array_equal(loaded.run({"x": other})["y"], direct)


def test_measured():
    lines = []
    proto = model(weights(), 3)
    session = sardonyx.load(proto.SerializeToString(), tuning="measure", progress=lines.append)
    expected = sardonyx.load(proto.SerializeToString(), winograd=False).run({"x": X})["y"]
    np.testing.assert_array_equal(session.run({"x": X})["y"], expected)
    assert any("winograd4" in line and "gemm" in line for line in lines)
