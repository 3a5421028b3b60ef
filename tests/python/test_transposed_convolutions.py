"""Transposed convolutions at steps of one, which are convolutions by the mirrored window."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import sardonyx

CASES = {
    "a square": ([9, 11], [6, 5, 3, 3], {"pads": [1] * 4}),
    "without pads": ([9, 11], [6, 2, 3, 2], {}),
    "uneven pads": ([9, 11], [6, 5, 4, 3], {"pads": [0, 2, 3, 1]}),
    "groups": ([9, 11], [6, 4, 3, 3], {"pads": [1] * 4, "group": 3}),
    "depthwise": ([9, 11], [6, 1, 5, 3], {"pads": [2, 1, 2, 1], "group": 6}),
    "dilated": ([9, 11], [6, 5, 3, 3], {"pads": [2] * 4, "dilations": [2, 3]}),
    "cropped": ([9, 11], [6, 5, 3, 3], {"pads": [3, 0, 0, 4]}),
    "of one axis": ([50], [6, 5, 7], {"pads": [3, 3]}),
    "of three axes": ([5, 6, 7], [6, 5, 3, 1, 2], {"pads": [1, 0, 0, 1, 0, 1]}),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_float64(case, constant):
    spatial, dims, attributes = CASES[case]
    random = np.random.default_rng(0)
    weights = random.standard_normal(dims).astype(np.float32)
    x = random.standard_normal((2, dims[0], *spatial)).astype(np.float32)
    bias = random.standard_normal(dims[1] * attributes.get("group", 1)).astype(np.float32)
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    constants = [numpy_helper.from_array(bias, "b")]
    feeds = {"x": x}
    if constant:
        constants.append(numpy_helper.from_array(weights, "w"))
    else:
        infos.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, dims))
        feeds["w"] = weights
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(dims))
    graph = helper.make_graph([node], "transposed", infos, [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    session = sardonyx.load(model)
    with session.profile() as profile:
        found = session.run(feeds)["y"]
    ran = {step.core_op for step in profile.steps()}
    assert ("conv" in ran) == (constant and case != "cropped")
    axes = len(spatial)
    wide = [torch.from_numpy(a).double() for a in (x, weights, bias)]
    whole = getattr(torch.nn.functional, f"conv_transpose{axes}d")(
        *wide, dilation=attributes.get("dilations", 1), groups=attributes.get("group", 1)
    ).numpy()
    pads = attributes.get("pads", [0] * 2 * axes)
    kept = [slice(pads[i], whole.shape[2 + i] - pads[axes + i]) for i in range(axes)]
    np.testing.assert_allclose(found, whole[(..., *kept)], rtol=1e-5, atol=1e-4)
