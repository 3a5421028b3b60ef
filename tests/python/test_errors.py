"""Bad input: each kind gives the exception that fits, which says where it happened."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
import small_models as small
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

import sardonyx


def refuses(source, exception, *words):
    """Loading raises `exception` with all these words in its message."""
    with pytest.raises(exception) as caught:
        sardonyx.load(source)
    assert isinstance(caught.value, sardonyx.Error)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


def saved(model, folder, name="model.onnx"):
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("NotFoundError", FileNotFoundError),
        ("InvalidModelError", ValueError),
        ("InvalidArgumentError", ValueError),
        ("UnsupportedError", NotImplementedError),
        ("OutOfMemoryError", MemoryError),
        ("LimitError", ValueError),
        ("InternalError", RuntimeError),
    ],
)
def test_classes_are_the_fitting_builtins(name, builtin):
    exception = getattr(sardonyx, name)
    assert issubclass(exception, sardonyx.Error)
    assert issubclass(exception, builtin)


# ---- files ---------------------------------------------------------------------------


def test_missing_file(tmp_path):
    refuses(tmp_path / "absent.onnx", FileNotFoundError, "absent.onnx")
    with pytest.raises(FileNotFoundError):
        sardonyx.inspect(tmp_path / "absent.onnx")


def test_folder_instead_of_a_file(tmp_path):
    refuses(tmp_path, sardonyx.Error, tmp_path.name)


def test_empty_file(tmp_path):
    path = tmp_path / "empty.onnx"
    path.touch()
    refuses(path, sardonyx.InvalidModelError, "empty.onnx")
    refuses(b"", sardonyx.InvalidModelError)


def test_truncated_files(tmp_path):
    content = small.add().SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(1, len(content)):
        path.write_bytes(content[:length])
        try:
            sardonyx.load(path)
        except sardonyx.Error as error:
            assert "cut.onnx" in str(error)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_random_files(content):
    with pytest.raises(sardonyx.Error):
        sardonyx.load(content)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_damaged_models_load_or_raise(changes):
    content = bytearray(small.add().SerializeToString())
    for position, byte in changes:
        content[position % len(content)] = byte
    try:
        session = sardonyx.load(bytes(content))
        session.run([np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    except sardonyx.Error:
        pass


# ---- models --------------------------------------------------------------------------


def test_cycle():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Neg", ["a"], ["b"], name="second"),
        helper.make_node("Neg", ["b"], ["y"], name="third"),
    ]
    refuses(small.of_nodes(*nodes), sardonyx.InvalidModelError, "first", "b")


def test_duplicate_name():
    nodes = [
        helper.make_node("Neg", ["x"], ["twice"], name="first"),
        helper.make_node("Abs", ["x"], ["twice"], name="second"),
        helper.make_node("Neg", ["twice"], ["y"]),
    ]
    refuses(small.of_nodes(*nodes), sardonyx.InvalidModelError, "twice")


def test_undefined_input():
    node = helper.make_node("Add", ["x", "ghost"], ["y"], name="sum")
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "ghost", "sum", "Add")


def test_undefined_output():
    model = small.relu()
    model.graph.output[0].name = "ghost"
    refuses(model, sardonyx.InvalidModelError, "ghost")


def test_unknown_operators_are_told_together(tmp_path):
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], name="one"),
        helper.make_node("Plain", ["a"], ["b"], name="two"),
        helper.make_node("Relu", ["b"], ["c"], name="three"),
        helper.make_node("Fancier", ["c"], ["y"], name="four"),
    ]
    path = saved(small.of_nodes(*nodes), tmp_path)
    words = ("model.onnx", "Fancy", "Plain", "Fancier", "one", "two", "four")
    assert "Relu" not in refuses(path, sardonyx.UnsupportedError, *words)
    unsupported = "\n".join(sardonyx.inspect(path).unsupported)
    for word in ("Fancy", "Plain", "Fancier"):
        assert word in unsupported


def test_unknown_domain():
    node = helper.make_node("Relu", ["x"], ["y"], name="here", domain="com.example")
    model = small.of_nodes(node, domains=["com.example"])
    refuses(model, sardonyx.UnsupportedError, "com.example", "Relu", "here")


def test_domain_without_an_opset():
    node = helper.make_node("Relu", ["x"], ["y"], domain="com.example")
    refuses(small.of_nodes(node), sardonyx.Error, "com.example")


def test_opset_newer_than_known():
    node = helper.make_node("Relu", ["x"], ["y"])
    refuses(small.of_nodes(node, opset=999), sardonyx.UnsupportedError, "999")


def test_operator_older_or_newer_than_the_opset():
    node = helper.make_node("Gelu", ["x"], ["y"], name="young")
    refuses(small.of_nodes(node, opset=10), sardonyx.Error, "Gelu")


def test_attribute_of_a_wrong_type():
    node = helper.make_node("LeakyRelu", ["x"], ["y"], name="leak", alpha="steep")
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "alpha", "leak", "LeakyRelu")


def test_unknown_and_missing_attributes():
    node = helper.make_node("Relu", ["x"], ["y"], name="rectify", slope=3)
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "slope", "rectify")
    node = helper.make_node("Cast", ["x"], ["y"], name="change")
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "to", "change")


def test_wrong_number_and_type_of_inputs_of_a_node():
    node = helper.make_node("Relu", ["x", "x"], ["y"], name="rectify")
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "rectify")
    node = helper.make_node("Not", ["x"], ["y"], name="negate")
    refuses(small.of_nodes(node), sardonyx.InvalidModelError, "negate", "float")


def test_shapes_that_do_not_fit_together():
    weights = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    model = small.model([node], [small.value("x", [2, 5])], [small.value("y", None)], [weights])
    with pytest.raises(sardonyx.Error, match="product"):
        sardonyx.load(model).run([np.ones((2, 5), np.float32)])


def test_initializer_whose_shape_overflows():
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40])
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = small.model([node], [small.value("x")], [small.value("y", None)], [tensor])
    refuses(model, sardonyx.Error, "w")


def test_initializer_with_too_little_data():
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"1234")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = small.model([node], [small.value("x")], [small.value("y", None)], [tensor])
    refuses(model, sardonyx.InvalidModelError, "w")


def test_a_shape_whose_product_overflows_at_run_time():
    shape = numpy_helper.from_array(np.array([2**40, 2**40], np.int64), "shape")
    node = helper.make_node("Expand", ["x", "shape"], ["y"], name="blow")
    model = small.model([node], [small.value("x", [1, 1])], [small.value("y", None)], [shape])
    with pytest.raises(sardonyx.Error, match="1099511627776"):
        sardonyx.load(model).run([np.ones((1, 1), np.float32)])


def test_a_shape_that_no_memory_holds():
    model = small.model(
        [helper.make_node("Expand", ["x", "shape"], ["y"], name="blow")],
        [small.value("x", [1]), small.value("shape", [2], TensorProto.INT64)],
        [small.value("y", None)],
    )
    session = sardonyx.load(model)
    with pytest.raises(sardonyx.Error):
        session.run([np.ones(1, np.float32), np.array([2**30, 2**30], np.int64)])
    with pytest.raises(sardonyx.Error):
        session.run([np.ones(1, np.float32), np.array([2**40, 2**40], np.int64)])
    small_result = session.run([np.ones(1, np.float32), np.array([2, 3], np.int64)])["y"]
    assert small_result.shape == (2, 3)


def test_nesting_without_end():
    # Made by hand: protobuf's own writer has a limit. Each level is an If whose branch is the last.
    content = _field(1, b"\x22\x03Neg")
    for _ in range(5_000):
        attribute = b"\x0a\x0bthen_branch" + _field(6, content) + b"\xa0\x01\x05"
        content = _field(1, _field(5, attribute) + b"\x22\x02If")
    model = b"\x08\x0a" + _field(7, content) + _field(8, b"\x10\x15")
    refuses(model, sardonyx.Error)


def _field(number: int, content: bytes) -> bytes:
    length, size = b"", len(content)
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + content


# ---- external data -------------------------------------------------------------------


def external(location: str, **place: int) -> onnx.ModelProto:
    """Make x + w where w, 4 floats, lies in another file."""
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    set_external_data(tensor, location, **place)
    tensor.ClearField("raw_data")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return small.model([node], [small.value("x", [4])], [small.value("y", None)], [tensor])


@pytest.fixture
def folder(tmp_path):
    """A folder for the model, beside a file that it must not reach."""
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


def test_external_data(folder):
    data = np.arange(4, dtype=np.float32).tobytes()
    (folder / "sub").mkdir()
    (folder / "sub" / "w.bin").write_bytes(b"skip" * 2 + data)
    model = external("sub/w.bin", offset=8, length=16)
    session = sardonyx.load(saved(model, folder))
    np.testing.assert_array_equal(session.run([np.ones(4, np.float32)])["y"], [1, 2, 3, 4])
    content = model.SerializeToString()
    with pytest.raises(sardonyx.Error):
        sardonyx.load(content)
    session = sardonyx.load(content, external_data_folder=folder)
    np.testing.assert_array_equal(session.run([np.zeros(4, np.float32)])["y"], [0, 1, 2, 3])
    with (folder / "model.onnx").open("rb") as file:
        sardonyx.load(file)


def test_external_data_at_an_absolute_path(folder):
    model = external(str(folder.parent / "secret.bin"))
    refuses(saved(model, folder), sardonyx.InvalidModelError, "secret.bin", "model.onnx")


def test_external_data_above_the_folder(folder):
    for location in ("../secret.bin", "sub/../../secret.bin", "./../secret.bin"):
        refuses(saved(external(location), folder), sardonyx.InvalidModelError, "secret.bin")


def test_external_data_behind_a_symbolic_link(folder):
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    refuses(saved(external("link.bin"), folder), sardonyx.Error, "link.bin")
    (folder / "up").symlink_to(folder.parent)
    refuses(saved(external("up/secret.bin"), folder), sardonyx.Error, "up/secret.bin")


def test_external_data_behind_a_hard_link(folder):
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    refuses(saved(external("hard.bin"), folder), sardonyx.Error, "hard.bin")


def test_external_data_too_short(folder):
    (folder / "w.bin").write_bytes(bytes(15))
    refuses(saved(external("w.bin"), folder), sardonyx.InvalidModelError, "w.bin", "w")
    (folder / "w.bin").write_bytes(bytes(16))
    for place in ({"offset": 1, "length": 16}, {"offset": 2**62}, {"length": 12}):
        refuses(saved(external("w.bin", **place), folder), sardonyx.InvalidModelError, "w")


def test_external_data_absent(folder):
    message = refuses(saved(external("w.bin"), folder), FileNotFoundError, "w.bin", "tensor 'w'")
    assert message.count("model.onnx") == 1


# ---- inputs of a run -----------------------------------------------------------------


def rejects(inputs, *words, session=None):
    session = session or sardonyx.load(small.add())
    with pytest.raises(sardonyx.InvalidArgumentError) as caught:
        session.run(inputs)
    for word in words:
        assert word in str(caught.value), str(caught.value)


A = np.ones((2, 3), np.float32)
B = np.ones(3, np.float32)


def test_input_of_a_wrong_name():
    rejects({"a": A, "c": B}, "'c'", "a, b")


def test_missing_input():
    rejects({"a": A}, "'b'")
    rejects([A], "'b'")
    rejects({}, "'a'")


def test_too_many_inputs():
    rejects([A, B, B], "3", "2")
    rejects(A, "dict or a list")


def test_input_of_a_wrong_type():
    rejects([A.astype(np.int64), B], "'a'", "tensor(float)", "int64")
    rejects({"a": {"k": 1}, "b": B}, "'a'")


def test_input_of_a_wrong_rank():
    rejects([A[0], B], "'a'", "rank")


def test_input_of_a_wrong_size():
    rejects([A[:, :2], B], "'a'", "[2,2]")


def test_one_name_is_one_size():
    model = small.model(
        [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)],
        [small.value("a", ["n", 1]), small.value("b", ["n", 1])],
        [small.value("y", None)],
    )
    session = sardonyx.load(model)
    rejects([A[:, :1], A[:1, :1]], "'n'", session=session)


def test_a_session_survives_failed_runs():
    session = sardonyx.load(small.add())
    for _ in range(20):
        rejects([A[0], B], "'a'", session=session)
    np.testing.assert_array_equal(session.run([A, B])["y"], A + B)


def test_names_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"caf\xe9.onnx")
    path = saved(small.add(), tmp_path, name)
    np.testing.assert_array_equal(sardonyx.load(path).run([A, B])["y"], A + B)
    assert sardonyx.inspect(path).operators == {"Add": 1}
    engine = tmp_path / os.fsdecode(b"\xff.sdx")
    sardonyx.compile(path, engine)
    assert sardonyx.load(engine).inputs[0].name == "a"
    refuses(tmp_path / os.fsdecode(b"\xfe.onnx"), sardonyx.NotFoundError, "cannot open")
    rejects({"\udc80": A}, "no input", "a, b")
    with pytest.raises(sardonyx.InvalidArgumentError, match="no value"):
        sardonyx.load(small.add()).run([A, B], ["\udc80"])


def test_names_that_are_no_text():
    rejects({1: A, "b": B}, "names of inputs are str, not int")
    session = sardonyx.load(small.add())
    for outputs in ([1], [None], 3):
        with pytest.raises(sardonyx.InvalidArgumentError, match="outputs"):
            session.run([A, B], outputs)


def test_unknown_output(tmp_path):
    session = sardonyx.load(saved(small.add(), tmp_path))
    with pytest.raises(sardonyx.InvalidArgumentError) as caught:
        session.run([A, B], ["nope"])
    message = str(caught.value)
    assert "no value 'nope'" in message and "outputs are y" in message
    assert message.count("model.onnx") == 1


def test_index_out_of_range():
    model = small.model(
        [helper.make_node("Gather", ["x", "at"], ["y"], name="pick")],
        [small.value("x", ["n"]), small.value("at", ["k"], TensorProto.INT64)],
        [small.value("y", None)],
    )
    session = sardonyx.load(model)
    rejects([B, np.array([2, -4])], "'pick'", "Gather", "index -4", "element 1", session=session)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": -1}, "threads must be 0 to 1024, is -1"),
        ({"threads": 2**40}, "threads must be 0 to 1024"),
        ({"threads": "two"}, "threads must be an int, not str"),
        ({"threads": 1.5}, "threads must be an int, not float"),
        ({"max_plans": 0}, "max_plans must be 1 to"),
        ({"max_plans": "3"}, "max_plans must be an int, not str"),
        ({"winograd": "no"}, "winograd must be True or False, not 'no'"),
        ({"recompile": 1}, "recompile must be True or False"),
        ({"progress": 3}, "progress must be a function, not int"),
        ({"trace_passes": 3}, "trace_passes must be a function, not int"),
        ({"disabled_passes": 3}, "disabled_passes must be a list of str, not int"),
        ({"disabled_passes": [3]}, "names in disabled_passes are str, not int"),
        ({"external_data_folder": 3}, "external_data_folder must be a path, not int"),
    ],
)
def test_options_of_a_wrong_kind_or_size(options, words):
    with pytest.raises(sardonyx.InvalidArgumentError, match=words):
        sardonyx.load(small.add(), **options)


def test_shapes_of_a_wrong_kind(tmp_path):
    path = saved(small.add(), tmp_path)
    engine = tmp_path / "model.sdx"
    session = sardonyx.load(path)
    for shapes, words in (
        ({"a": "1x3"}, "shape of input 'a'"),
        ({"a": 3}, "shape of input 'a'"),
        ({"a": [1.5, 3]}, "a size of input 'a' must be an int, not float"),
        ({"a": [-1, 3]}, "a size of input 'a' must be 0 to"),
        ({"a": [2**70, 3]}, "a size of input 'a' must be 0 to"),
        ({1: [1, 3]}, "names in shapes are str"),
        ([1, 3], "dict from input names"),
        (3, "dict from input names"),
    ):
        with pytest.raises(sardonyx.InvalidArgumentError, match=words):
            sardonyx.compile(path, engine, shapes=shapes)
        with pytest.raises(sardonyx.InvalidArgumentError):
            session.explain(shapes)


def test_paths_of_a_wrong_kind(tmp_path):
    path = saved(small.add(), tmp_path)
    for wrong in (None, 3, small.add()):
        with pytest.raises(sardonyx.InvalidArgumentError, match="must be a path"):
            sardonyx.compile(wrong, tmp_path / "model.sdx")
        with pytest.raises(sardonyx.InvalidArgumentError, match="must be a path"):
            sardonyx.compile(path, wrong)
        with pytest.raises(sardonyx.InvalidArgumentError, match="must be a path"):
            sardonyx.inspect(wrong)
    refuses("a\0b", sardonyx.NotFoundError, "a...", "zero")
    with pytest.raises(sardonyx.InvalidArgumentError, match=r"sardonyx\.load"):
        sardonyx.Session(path)


def test_an_engine_does_not_replace_its_model(tmp_path):
    path = saved(small.add(), tmp_path)
    with pytest.raises(sardonyx.InvalidArgumentError, match="would replace"):
        sardonyx.compile(path, path)
    sardonyx.load(path)


# ---- memory ------------------------------------------------------------------------------


def huge(kind, *sizes):
    """A model that expands one element to such a shape, which is its output."""
    return small.model(
        [helper.make_node("Expand", ["one", "shape"], ["y"], name="grow")],
        [],
        [small.value("y", None, kind)],
        [
            helper.make_tensor("one", kind, [1], [b"1" if kind == TensorProto.STRING else 1]),
            numpy_helper.from_array(np.array(sizes, np.int64), "shape"),
        ],
    )


def test_output_larger_than_memory():
    session = sardonyx.load(huge(TensorProto.FLOAT, 10**6, 10**9))
    with pytest.raises(sardonyx.OutOfMemoryError, match=r"'y' of shape \[1000000,1000000000\]"):
        session.run({})


def test_strings_larger_than_memory():
    session = sardonyx.load(huge(TensorProto.STRING, 10**6, 10**9))
    with pytest.raises(sardonyx.OutOfMemoryError, match="1000000000000000 strings"):
        session.run({})


def test_values_between_steps_larger_than_memory():
    model = huge(TensorProto.FLOAT, 10**6, 10**9)
    model.graph.node.append(helper.make_node("CumSum", ["y", "axis"], ["sums"], name="sum"))
    model.graph.node.append(helper.make_node("ReduceMax", ["sums"], ["most"], name="reduce"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "axis"))
    model.graph.output[0].name = "most"
    session = sardonyx.load(model)
    with pytest.raises(sardonyx.OutOfMemoryError, match="4000000000000000 of them for what node"):
        session.run({})


def test_loading_does_not_fold_what_would_fill_the_memory():
    session = sardonyx.load(huge(TensorProto.FLOAT, 2**15, 2**14))
    assert "expand" in session.graph_text()


def test_loading_does_not_fold_what_would_take_long():
    model = huge(TensorProto.FLOAT, 3000, 3000)
    model.graph.node.append(helper.make_node("MatMul", ["y", "y"], ["product"]))
    model.graph.output[0].name = "product"
    text = sardonyx.load(model).graph_text()
    assert "matmul" in text
    assert "expand" not in text
