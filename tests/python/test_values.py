"""Values in and out: types, memory, conversions."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
import small_models as small
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import sardonyx

NUMERIC = [
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
]
_sessions = {}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def identity(name: str) -> sardonyx.Session:
    if name not in _sessions:
        element = helper.np_dtype_to_tensor_dtype(dtype_of(name))
        _sessions[name] = sardonyx.load(small.identity(element))
    return _sessions[name]


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 5), (3, 0, 2)])
def test_every_type_passes_unchanged(name, shape):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, shape).astype(np.float32).astype(dtype_of(name))
    x = np.asarray(x)
    session = identity(name)
    assert session.inputs[0].dtype == name
    y = session.run({"x": x})["y"]
    assert isinstance(y, np.ndarray)
    assert y.dtype == x.dtype
    assert y.shape == shape
    assert bits(y) == bits(x)


@pytest.mark.parametrize(("name", "width"), [("int4", 4), ("uint4", 4), ("int2", 2), ("uint2", 2)])
def test_every_value_of_the_packed_integers(name, width):
    low = -(2 ** (width - 1)) if name.startswith("int") else 0
    x = np.arange(low, low + 2**width).astype(dtype_of(name))
    y = identity(name).run({"x": x})["y"]
    np.testing.assert_array_equal(y.astype(np.int32), x.astype(np.int32))
    wide = sardonyx.load(
        small.model(
            [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)],
            [small.value("x", None, helper.np_dtype_to_tensor_dtype(x.dtype))],
            [small.value("y", None, TensorProto.INT32)],
            opset=25,
        )
    ).run({"x": x})["y"]
    np.testing.assert_array_equal(wide, x.astype(np.int32))


@settings(max_examples=60)
@given(
    hnp.arrays(
        st.sampled_from(["float32", "int64", "uint8", "complex64"]).map(np.dtype),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    st.data(),
)
def test_any_layout_of_memory(array, data):
    axes = data.draw(st.permutations(range(array.ndim)))
    view = array.transpose(axes)
    if view.ndim:
        view = view[:: data.draw(st.sampled_from([1, 2, -1]))]
    y = identity(array.dtype.name).run({"x": view})["y"]
    assert y.shape == view.shape
    assert bits(y) == bits(view)


def test_unaligned_swapped_and_read_only_memory():
    x = np.arange(5, dtype=np.float32)
    unaligned = np.zeros(21, np.uint8)[1:].view(np.float32)
    unaligned[:] = x
    assert not unaligned.flags.aligned
    read_only = x.copy()
    read_only.flags.writeable = False
    for given_array in (unaligned, x.astype(">f4"), read_only, x.view(np.recarray)):
        np.testing.assert_array_equal(identity("float32").run([given_array])["y"], x)


def test_inputs_are_used_where_they_lie_and_let_go():
    class Traced(np.ndarray):
        pass

    x = np.ones(1000, np.float32).view(Traced)
    gone = weakref.ref(x)
    identity("float32").run({"x": x})
    assert gone() is x
    del x
    gc.collect()
    assert gone() is None


def test_outputs_are_the_callers_own():
    session = sardonyx.load(small.relu())
    x = np.array([-1, 2], np.float32)
    first = session.run([x])["y"]
    second = session.run([x + 1])["y"]
    np.testing.assert_array_equal(first, [0, 2])
    first[:] = 7
    np.testing.assert_array_equal(second, [0, 3])
    np.testing.assert_array_equal(session.run([x])["y"], [0, 2])
    del session
    gc.collect()
    np.testing.assert_array_equal(second, [0, 3])


def test_writing_to_an_output_does_not_change_input_or_weights():
    y = identity("float32").run([x := np.ones(3, np.float32)])["y"]
    y[:] = 5
    np.testing.assert_array_equal(x, [1, 1, 1])
    constant = helper.make_node(
        "Constant", [], ["y"], value=helper.make_tensor("v", TensorProto.FLOAT, [2], [1, 2])
    )
    session = sardonyx.load(small.model([constant], [], [small.value("y", [2])]))
    session.run([])["y"][:] = 9
    np.testing.assert_array_equal(session.run([])["y"], [1, 2])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("float32", 2, 2.0),
        ("float32", [1, 2.5], [1, 2.5]),
        ("float32", np.float64(1.5), 1.5),
        ("float32", np.int64(3), 3),
        ("float64", [[1], [2]], [[1], [2]]),
        ("int64", [1, 2, 3], [1, 2, 3]),
        ("uint8", 255, 255),
        ("int32", np.int64(-4), -4),
        ("int32", True, 1),
        ("bool", [True, False], [True, False]),
        ("float16", [], []),
        ("bfloat16", 1.5, 1.5),
        ("int4", [-8, 7], [-8, 7]),
        ("complex64", 1 + 2j, 1 + 2j),
        ("uint64", 2**64 - 1, 2**64 - 1),
    ],
)
def test_numbers_take_the_declared_type(name, value, expected):
    y = identity(name).run({"x": value})["y"]
    assert y.dtype == dtype_of(name)
    np.testing.assert_array_equal(y, np.asarray(expected).astype(dtype_of(name)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int64", 1.5),
        ("uint8", 256),
        ("uint8", -1),
        ("uint64", -1),
        ("int64", 2**63),
        ("int4", 8),
        ("bool", 1),
        ("float32", "text"),
        ("float32", 1j),
        ("float32", [[1], [2, 3]]),
        ("float32", {"a": 1}),
        ("float32", object()),
        ("float32", np.array(["2024-01-01"], "datetime64[D]")),
        ("int64", 10**30),
        ("float32", None),
    ],
)
def test_numbers_that_do_not_fit_are_refused(name, value):
    with pytest.raises(sardonyx.InvalidArgumentError, match="'x'"):
        identity(name).run({"x": value})


def test_an_array_keeps_its_type():
    with pytest.raises(sardonyx.InvalidArgumentError, match=r"tensor\(float\)"):
        identity("float32").run({"x": np.ones(2)})


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "", "größe", "日本"]),
        np.array(["a", "", "größe", "日本"], object),
        ["a", "", "größe", "日本"],
        np.array([b"a", b"", "größe".encode(), "日本".encode()], object),
    ],
)
def test_strings(value):
    session = sardonyx.load(small.identity(TensorProto.STRING))
    y = session.run({"x": value})["y"]
    assert y.dtype == object
    assert y.tolist() == ["a", "", "größe", "日本"]


def test_strings_without_dimensions_and_bytes_that_are_no_text():
    session = sardonyx.load(small.identity(TensorProto.STRING))
    assert session.run({"x": "one"})["y"].tolist() == "one"
    odd = np.array([b"\xff\x00"], object)
    text = session.run({"x": odd})["y"]
    assert text[0].encode("utf-8", "surrogateescape") == b"\xff\x00"
    assert session.run({"x": text})["y"][0] == text[0]
    with pytest.raises(sardonyx.InvalidArgumentError, match="int"):
        session.run({"x": np.array(["a", 3], object)})


def sequence_model():
    info = helper.make_tensor_sequence_value_info
    return small.model(
        [
            helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
            helper.make_node("SequenceLength", ["t"], ["n"]),
        ],
        [info("s", TensorProto.FLOAT, None), small.value("x", None)],
        [info("t", TensorProto.FLOAT, None), small.value("n", [], TensorProto.INT64)],
    )


def test_sequences_are_lists():
    session = sardonyx.load(sequence_model())
    assert session.inputs[0].type == "seq(tensor(float))"
    assert session.inputs[0].dtype is None
    items = [np.ones(2, np.float32), np.zeros((1, 3), np.float32)]
    result = session.run({"s": items, "x": 5})
    assert [item.shape for item in result["t"]] == [(2,), (1, 3), ()]
    assert result["n"] == 3
    assert len(session.run({"s": [], "x": 1.0})["t"]) == 1
    with pytest.raises(sardonyx.InvalidArgumentError, match="seq"):
        session.run({"s": items[0], "x": 1.0})


def test_an_empty_optional_is_none():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [None])
    optional = helper.make_optional_type_proto(tensor)
    model = small.model(
        [helper.make_node("OptionalHasElement", ["o"], ["y"])],
        [helper.make_value_info("o", optional)],
        [small.value("y", [], TensorProto.BOOL)],
    )
    session = sardonyx.load(model)
    assert not session.run({"o": None})["y"]
    assert session.run({"o": np.ones(2, np.float32)})["y"]
    assert session.run({"o": [1.0, 2.0]})["y"]


def test_things_with_an_array_interface():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return np.ones(2, np.float32)

    np.testing.assert_array_equal(identity("float32").run({"x": Holder()})["y"], [1, 1])
