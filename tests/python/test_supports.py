import pytest

import sardonyx


@pytest.mark.parametrize(
    ("op", "domain", "version", "types", "answer"),
    [
        ("Add", "", None, None, True),
        ("Add", "", None, ["bfloat16", "bfloat16"], True),
        ("Add", "", 7, ["tensor(bfloat16)", "tensor(bfloat16)"], False),
        ("Add", "ai.onnx", 14, ["float", "double"], False),  # one type for both
        ("Add", "", None, ["float", "float", "float"], False),
        ("Concat", "", 13, ["string"] * 3, True),
        ("Attention", "", 24, ["float16"] * 3 + [None, "", None, "int64"], True),
        ("Attention", "", 24, ["float16", None], False),
        ("SequenceAt", "", 11, ["seq(tensor(string))", "int32"], True),
        ("SequenceAt", "", 11, ["tensor(string)", "int32"], False),
        ("OptionalHasElement", "", 15, ["optional(seq(tensor(float)))"], True),
        ("OptionalHasElement", "", 15, ["seq(tensor(float))"], False),
        ("FlexAttention", "ai.onnx.preview", 1, ["double"] * 3, True),
        ("Affine", "", 6, ["float16"], True),
        ("Affine", "", 10, None, False),
        ("Upsample", "", 10, None, False),
        ("Nonsense", "", None, None, False),
        ("Add", "", 99, None, False),
    ],
)
def test_supports(op, domain, version, types, answer):
    assert sardonyx.supports(op, domain, version, types) is answer


@pytest.mark.parametrize(
    "text",
    [
        "number",
        "",
        "tensor(number)",
        "seq(tensor(float)",
        "map(number,tensor(float))",
        "map(int64)",
        pytest.param("seq(" * 10**6 + "tensor(float)" + ")" * 10**6, id="endless"),
    ],
)
def test_unknown_types_are_errors(text):
    with pytest.raises(sardonyx.Error, match="is no type"):
        sardonyx.supports("Add", types=[text or "tensor()"])
