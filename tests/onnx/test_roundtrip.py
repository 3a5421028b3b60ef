"""A model read and written again is equal, and its tensors are read right."""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test import loader

sys.path.insert(0, str(Path(__file__).parent))
from onnx_tool import rewrite, run_tool


@pytest.fixture(scope="module")
def suite_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All models of the backend test suite: those in files, and the node cases' made in memory."""
    folder = tmp_path_factory.mktemp("suite")
    models = sorted(Path(loader.DATA_DIR).rglob("*.onnx"))
    for case in loader.load_model_tests(kind="node"):
        models.append(folder / f"{case.name}.onnx")
        models[-1].write_bytes(case.model.SerializeToString())
    assert len(models) > 2000
    return models


def load(path: Path) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(path.read_bytes())


def test_suite_models_are_equal_when_written_again(
    suite_models: list[Path], tmp_path: Path
) -> None:
    written = rewrite("rewrite", suite_models, tmp_path)
    different = [
        source.name
        for source, target in zip(suite_models, written, strict=True)
        if load(source) != load(target)
    ]
    assert not different


def test_suite_models_are_byte_equal_when_protobuf_wrote_them(
    suite_models: list[Path], tmp_path: Path
) -> None:
    sources = []
    for index, path in enumerate(suite_models[::10]):
        sources.append(tmp_path / f"source{index}.onnx")
        sources[-1].write_bytes(load(path).SerializeToString())
    for source, target in zip(sources, rewrite("rewrite", sources, tmp_path), strict=True):
        assert source.read_bytes() == target.read_bytes()


def test_suite_models_are_valid(suite_models: list[Path]) -> None:
    output = []
    for begin in range(0, len(suite_models), 200):
        output += run_tool("check", *suite_models[begin : begin + 200]).splitlines()
    assert len(output) == len(suite_models)
    assert not [line for line in output if line != "ok"]


def scalar_value(field: object) -> object:
    """Return a value that the protobuf field can hold, and that its default is not."""
    if field.type == field.TYPE_STRING:
        return "text"
    return {
        field.CPPTYPE_STRING: b"\0\xff",
        field.CPPTYPE_FLOAT: 1.5,
        field.CPPTYPE_DOUBLE: -2.25,
        field.CPPTYPE_UINT64: 2**64 - 1,
        field.CPPTYPE_INT64: -(2**63),
        field.CPPTYPE_INT32: -7,
        field.CPPTYPE_ENUM: 1,
    }[field.cpp_type]


def fill(message: object) -> set[str]:
    """Set every field of the message and of those within; return the types of all messages.

    The types nest in themselves, so only the first few messages of each are filled.
    """
    filled = collections.Counter()
    queue = [message]
    for current in queue:
        name = current.DESCRIPTOR.full_name
        filled[name] += 1
        if filled[name] > 3:
            continue
        for field in current.DESCRIPTOR.fields:
            repeated = field.is_repeated
            if field.message_type is not None:
                for _ in range(1 + repeated):
                    child = getattr(current, field.name)
                    queue.append(child.add() if repeated else child)
                    queue[-1].SetInParent()
            elif repeated:
                getattr(current, field.name).extend([scalar_value(field)] * 2)
            else:
                setattr(current, field.name, scalar_value(field))
    return set(filled)


def test_every_field_of_every_message_survives(tmp_path: Path) -> None:
    model = onnx.ModelProto()
    names = {name.removeprefix("onnx.") for name in fill(model)}
    assert set(onnx.onnx_ml_pb2.DESCRIPTOR.message_types_by_name) <= names
    source = tmp_path / "source.onnx"
    source.write_bytes(model.SerializeToString())
    (target,) = rewrite("rewrite", [source], tmp_path)
    assert load(target) == model
    assert target.read_bytes() == source.read_bytes()


def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    model = helper.make_model(helper.make_graph([], "g", [], []))
    # Field 1000 of the model as a varint, field 999 of the graph as bytes, both unknown.
    graph = model.graph.SerializeToString() + b"\xba\x3e\x03abc"
    model.ClearField("graph")
    data = model.SerializeToString() + b"\x3a" + bytes([len(graph)]) + graph + b"\xc0\x3e\x2a"
    source = tmp_path / "source.onnx"
    source.write_bytes(data)
    (target,) = rewrite("rewrite", [source], tmp_path)
    assert load(target) == load(source)
    assert b"\xba\x3e\x03abc" in target.read_bytes()
    assert target.read_bytes().endswith(b"\xc0\x3e\x2a")


def test_negative_and_unpacked_numbers(tmp_path: Path) -> None:
    packed = b"\x42\x03\x01\x02\x03"  # AttributeProto.ints as packed
    attribute = b"\x0a\x01a" + packed + b"\x40\x04" + b"\xa0\x01\x07"  # and one unpacked
    node = b"\x2a" + bytes([len(attribute)]) + attribute
    graph = b"\x0a" + bytes([len(node)]) + node
    source = tmp_path / "source.onnx"
    source.write_bytes(b"\x08\x0a\x3a" + bytes([len(graph)]) + graph)
    (target,) = rewrite("rewrite", [source], tmp_path)
    assert list(load(target).graph.node[0].attribute[0].ints) == [1, 2, 3, 4]
    assert load(target) == load(source)


NUMERIC_TYPES = sorted(
    set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}
)


@pytest.mark.parametrize("dims", [[], [0], [7], [3, 5], [4, 1, 6]])
@pytest.mark.parametrize("raw", [False, True])
def test_every_element_type_from_every_field(raw: bool, dims: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = []
    for data_type in NUMERIC_TYPES:
        dtype = helper.tensor_dtype_to_np_dtype(data_type)
        values = rng.integers(0, 2, dims) if data_type == TensorProto.BOOL else None
        if values is None:
            values = rng.integers(-2 if "uint" not in str(dtype) else 0, 2, dims)
        array = np.asarray(values, dtype=np.float32).astype(dtype)
        name = TensorProto.DataType.Name(data_type)
        if raw:
            tensors.append(numpy_helper.from_array(array, name))
        else:
            tensors.append(helper.make_tensor(name, data_type, dims, array.flatten()))
            assert not tensors[-1].HasField("raw_data")
    graph = helper.make_graph([], "g", [], [], initializer=tensors)
    source = tmp_path / "source.onnx"
    source.write_bytes(helper.make_model(graph).SerializeToString())
    (target,) = rewrite("tensors", [source], tmp_path)
    for before, after in zip(tensors, load(target).graph.initializer, strict=True):
        assert after.HasField("raw_data")
        assert (before.name, before.dims, before.data_type) == (
            after.name,
            after.dims,
            after.data_type,
        )
        old, new = numpy_helper.to_array(before), numpy_helper.to_array(after)
        assert old.tobytes() == new.tobytes(), before.name  # bytes: a NaN equals itself


def test_strings_and_external_data(tmp_path: Path) -> None:
    words = helper.make_tensor(
        "words", TensorProto.STRING, [2, 2], ["a", "", "\u00e9", "long" * 20]
    )
    weights = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "weights")
    more = numpy_helper.from_array(np.arange(77, dtype=np.int16), "more")
    model = helper.make_model(
        helper.make_graph([], "g", [], [], initializer=[words, weights, more])
    )
    source = tmp_path / "source.onnx"
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists()
    (target,) = rewrite("tensors", [source], tmp_path)
    written = load(target).graph.initializer
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in written}
    np.testing.assert_array_equal(after["weights"], np.arange(1000, dtype=np.float32))
    np.testing.assert_array_equal(after["more"], np.arange(77, dtype=np.int16))
    np.testing.assert_array_equal(after["words"], numpy_helper.to_array(words))


def test_sparse_tensors(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "s")
    tuples = numpy_helper.from_array(np.array([[0, 1], [2, 3]], np.int64), "i")
    linear = numpy_helper.from_array(np.array([1, 11], np.int64), "i")
    expected = np.zeros((3, 4), np.float32)
    expected[0, 1], expected[2, 3] = 1.5, 2.5
    for indices in (tuples, linear):
        graph = helper.make_graph([], "g", [], [])
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 4]))
        source = tmp_path / "source.onnx"
        source.write_bytes(helper.make_model(graph).SerializeToString())
        (target,) = rewrite("tensors", [source], tmp_path)
        (dense,) = load(target).graph.initializer
        np.testing.assert_array_equal(numpy_helper.to_array(dense), expected)
