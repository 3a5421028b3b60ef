"""Attention becomes one operation, from the operators for it and from what torch exports."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from onnx import helper

import sardonyx

FLOAT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
RNG = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def _node(op, feeds, outputs, domain="", version=24, **attributes):
    """A model of one node."""
    names = [name or "" for name in feeds]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
        if array is not None
    ]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs if name]
    imports = [helper.make_opsetid("", version)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    graph = helper.make_graph([node], "g", inputs, results)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return model.SerializeToString(), {k: v for k, v in feeds.items() if v is not None}


def _agree(model: bytes, feeds: dict[str, np.ndarray], nodes: int = 1) -> None:
    """As many nodes of attention as expected, which run on a kernel and give the right numbers."""
    session = sardonyx.load(model)
    assert session.graph_text().count(" = attention(") == nodes
    with session.profile() as profile:
        results = session.run(feeds)
    ran = [step.implementation for step in profile.steps() if step.core_op == "attention"]
    assert ran == ["blocks"] * nodes
    plain = sardonyx.load(model, disabled_passes=["fuse_attention"]).run(feeds)
    for name in plain:
        np.testing.assert_allclose(results[name], plain[name], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "seen", "softcap", "past"])
def test_attention(queries, heads, form):
    feeds = {"q": _random(2, 6, queries, 8)}
    feeds |= {"k": _random(2, heads, 5, 8), "v": _random(2, heads, 5, 4)}
    outputs, attributes = ["y"], {}
    if form == "mask":
        feeds["mask"] = _random(queries, 5)
    if form == "seen":
        feeds["mask"] = np.arange(queries * 5).reshape(queries, 5) % 3 != 0
    if form in ("causal", "past"):
        attributes["is_causal"] = 1
    if form == "softcap":
        attributes["softcap"] = 2.0
    if form == "past":
        feeds |= {"": None, "pk": _random(2, heads, 3, 8), "pv": _random(2, heads, 3, 4)}
        outputs += ["present_k", "present_v"]
    _agree(*_node("Attention", feeds, outputs, **attributes))


def test_attention_in_rows():
    feeds = {"q": _random(2, 5, 24), "k": _random(2, 7, 12), "v": _random(2, 7, 12)}
    _agree(*_node("Attention", feeds, ["y"], q_num_heads=4, kv_num_heads=2))


def test_multi_head_attention():
    feeds = {"q": _random(2, 5, 16), "k": _random(2, 7, 16), "v": _random(2, 7, 16)}
    _agree(*_node("MultiHeadAttention", feeds, ["y"], "com.microsoft", num_heads=4))


@pytest.mark.parametrize("length", [1, 4])
def test_group_query_attention(length):
    total = 6 + length
    feeds = {"q": _random(1, length, 32), "k": _random(1, length, 16), "v": _random(1, length, 16)}
    feeds |= {"pk": _random(1, 2, 6, 8), "pv": _random(1, 2, 6, 8)}
    feeds |= {"last": np.array([total - 1], np.int32), "total": np.array([total], np.int32)}
    outputs = ["y", "present_k", "present_v"]
    attributes = {"num_heads": 4, "kv_num_heads": 2}
    _agree(*_node("GroupQueryAttention", feeds, outputs, "com.microsoft", **attributes))


@pytest.mark.filterwarnings("ignore")  # what the exporter says of itself
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "by hand"])
def test_what_torch_exports(dynamo, form):
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

        def forward(self, x, mask):
            def heads(part):
                return part(x).view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)

            q, k, v = (heads(part) for part in self.parts[:3])
            if form == "by hand":
                scores = q @ k.transpose(-1, -2) / 8**0.5 + mask
                y = scores.softmax(-1) @ v
            else:
                y = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, mask if form == "mask" else None, is_causal=form == "causal"
                )
            return self.parts[3](y.transpose(1, 2).reshape(x.shape))

    x = torch.randn(2, 5, 32)
    mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf)
    buffer = io.BytesIO()
    with torch.no_grad():
        module = Block().eval()
        options = {} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}
        torch.onnx.export(
            module,
            (x, mask),
            buffer,
            input_names=["x", "mask"],
            opset_version=20,
            dynamo=dynamo,
            verbose=False,
            **options,
        )
    model = onnx.load_from_string(buffer.getvalue())
    names = [value.name for value in model.graph.input]
    feeds = {k: v.numpy() for k, v in {"x": x, "mask": mask}.items() if k in names}
    _agree(buffer.getvalue(), feeds)
