"""Operators that move elements without computing with them; expected values by NumPy indexing."""

import itertools

import numpy as np
import onnx

from tests.versions.case import Case, Request, cases


def _axes(*values: int, dtype=np.int64) -> np.ndarray:
    return np.array(values, dtype)


@cases("Concat")
def concat(request: Request) -> list[Case]:
    x, y = request.random("T", (2, 3)), request.random("T", (2, 1))
    made = [
        Case([x, y], {"axis": 1}, expected=[np.concatenate([x, y], 1)]),
        Case([x], {"axis": 0}, expected=[x], name="one"),
        Case(
            [x, x[:0], x[:1]],
            {"axis": 0},
            expected=[np.concatenate([x, x[:1]])],
            name="an empty one",
        ),
    ]
    if request.version == 1:
        made.append(Case([x, y], expected=[np.concatenate([x, y], 1)], name="default axis"))
    if request.version >= 11:
        made.append(
            Case([x, y], {"axis": -1}, expected=[np.concatenate([x, y], 1)], name="negative axis")
        )
    return made


@cases("DepthToSpace", "SpaceToDepth")
def blocks(request: Request) -> list[Case]:
    b = 2

    def wide(deep: np.ndarray, mode: str) -> np.ndarray:
        n, c, h, w = deep.shape
        if mode == "DCR":
            y = deep.reshape(n, b, b, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            y = deep.reshape(n, c // 4, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return y.reshape(n, c // 4, h * b, w * b).copy()

    modes = [{}]
    if "mode" in request.schema.attributes:
        modes += [{"mode": "DCR"}, {"mode": "CRD"}]
    made = []
    shapes = [(1, 8, 2, 3), (1, 8, 0, 3), (2, 8, 3, 0), (0, 8, 2, 3)]
    for mode, shape in itertools.product(modes, shapes):
        deep = request.random("T", shape)
        image = wide(deep, mode.get("mode", "DCR"))
        pair = (deep, image) if request.op == "DepthToSpace" else (image, deep)
        made.append(
            Case(
                [pair[0]],
                {"blocksize": b, **mode},
                expected=[pair[1]],
                name=f"{mode.get('mode', '')} {shape}",
            )
        )
    return made


@cases("Expand")
def expand(request: Request) -> list[Case]:
    x = request.random("T", (3, 1))
    return [
        Case([x, _axes(2, 1, 4)], expected=[np.broadcast_to(x, (2, 3, 4)).copy()]),
        Case([x, _axes(1)], expected=[x], name="ones keep sizes"),
        Case([x, _axes(3, 0)], expected=[np.broadcast_to(x, (3, 0)).copy()], name="to empty"),
    ]


@cases("Flatten")
def flatten(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    made = [Case([x], expected=[x.reshape(2, 12)])]
    for axis in (0, 2, 3) + ((-1,) if request.version >= 11 else ()):
        rows = int(np.prod(x.shape[:axis]))
        made.append(Case([x], {"axis": axis}, expected=[x.reshape(rows, -1)], name=f"axis {axis}"))
    return made


@cases("Gather")
def gather(request: Request) -> list[Case]:
    x = request.random("T", (3, 4, 2))
    index = request.dtype("Tind")
    made = []
    for name, indices, axis in (
        ("matrix", [[0, 2], [1, 1]], 0),
        ("axis", [3, 0], 1),
        ("scalar", 1, 0),
        ("none", np.zeros((0, 2)), 1),
    ):
        array = np.asarray(indices).astype(index)
        made.append(Case([x, array], {"axis": axis}, expected=[np.take(x, array, axis)], name=name))
    if request.version >= 11:
        array = np.array([-1, -3], index)
        made.append(
            Case([x, array], {"axis": -3}, expected=[np.take(x, array, 0)], name="negative")
        )
    return made


@cases("GatherElements")
def gather_elements(request: Request) -> list[Case]:
    x = request.random("T", (3, 4))
    made = []
    for axis in (0, 1, -1):
        indices = request.rng.integers(-x.shape[axis], x.shape[axis], (2, 3)).astype(
            request.dtype("Tind")
        )
        shape = [3, 4]
        other = 1 - axis % 2
        shape[other] = indices.shape[other]
        source = x[: shape[0], : shape[1]] if axis % 2 else x[:, : shape[1]]
        source = source[: indices.shape[0]] if axis % 2 else source
        made.append(
            Case(
                [x, indices],
                {"axis": axis},
                name=f"axis {axis}",
                expected=[np.take_along_axis(source, indices.astype(np.int64), axis)],
            )
        )
    return made


@cases("GatherND")
def gather_nd(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    made = [
        Case(
            [x, np.array([[0, 1], [-1, 2]])], expected=[np.stack([x[0, 1], x[-1, 2]])], name="rows"
        ),
        Case(
            [x, np.array([[[0, 1, 3]], [[1, 0, -4]]])],
            expected=[np.array([[x[0, 1, 3]], [x[1, 0, 0]]], x.dtype)],
            name="elements",
        ),
    ]
    if request.version >= 12:
        made.append(
            Case(
                [x, np.array([[1], [2]])],
                {"batch_dims": 1},
                expected=[np.stack([x[0, 1], x[1, 2]])],
                name="batch",
            )
        )
    return made


@cases("Identity")
def identity(request: Request) -> list[Case]:
    kind = request.type("V" if request.version >= 14 else "T")
    x = request.random("V" if request.version >= 14 else "T", (2, 3))
    if kind.startswith("optional(seq"):
        return [
            Case([[x, x[:1]]], expected=[[x, x[:1]]]),
            Case([None], expected=[None], name="empty"),
        ]
    if kind.startswith("optional"):
        return [Case([x], expected=[x]), Case([None], expected=[None], name="empty")]
    if kind.startswith("seq"):
        return [Case([[x, x[:1]]], expected=[[x, x[:1]]]), Case([[]], expected=[[]], name="empty")]
    return [Case([x], expected=[x]), Case([x[:0]], expected=[x[:0]], name="no elements")]


@cases("Pad")
def pad(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    name = "paddings" if request.version == 1 else "pads"
    pads = [0, 1, 2, 1, 0, 1]
    pairs = list(zip(pads[:3], pads[3:], strict=True))
    zero = np.array("" if x.dtype == object else 0).astype(x.dtype)
    if x.dtype.name == "float8_e8m0fnu":
        zero = np.zeros(1, np.uint8).view(x.dtype)[0]  # no zero among its values: bits of zero

    def constant(value) -> np.ndarray:
        y = np.empty([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], x.dtype)
        y[...] = value
        y[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pairs, strict=True))] = x
        return y

    def by_mode(mode: str, pairs=pairs) -> np.ndarray:
        index = np.pad(np.arange(x.size).reshape(x.shape), pairs, mode=mode)
        return x.reshape(-1)[index]

    modes = ["reflect", "edge"] + (["wrap"] if request.version >= 19 else [])
    if request.version < 11:
        return [
            Case([x], {name: pads}, expected=[constant(zero)]),
            Case(
                [x],
                {name: pads, "mode": "constant", "value": 1.5},
                expected=[constant(np.array(1.5).astype(x.dtype))],
                name="value",
            ),
            *[
                Case([x], {name: pads, "mode": mode}, expected=[by_mode(mode)], name=mode)
                for mode in modes
            ],
        ]
    value = request.random("T", ())
    array = np.array(pads)
    made = [
        Case([x, array, value], expected=[constant(value)], name="value"),
        *[Case([x, array], {"mode": mode}, expected=[by_mode(mode)], name=mode) for mode in modes],
    ]
    if x.dtype.name != "float8_e8m0fnu":
        made.append(Case([x, array], expected=[constant(zero)]))
    cut = np.array([0, -1, 0, 0, 0, -2])
    made.append(Case([x, cut, value], expected=[x[:, 1:, :-2].copy()], name="negative pads"))
    if request.version >= 18:
        axes = _axes(1, -1, dtype=request.dtype("Tind"))
        pairs_of_axes = [(0, 0), (1, 0), (2, 1)]
        made.append(
            Case(
                [x, np.array([1, 2, 0, 1]), None, axes],
                {"mode": "edge"},
                expected=[by_mode("edge", pairs_of_axes)],
                name="axes",
            )
        )
    return made


@cases("Reshape")
def reshape(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    if request.version < 5:
        return [
            Case([x], {"shape": [4, 6]}, expected=[x.reshape(4, 6)]),
            Case([x], {"shape": [0, -1]}, expected=[x.reshape(2, 12)], name="0 and -1"),
            Case(
                [x],
                {"shape": [-1], "consumed_inputs": [0]},
                expected=[x.reshape(-1)],
                name="consumed",
            ),
        ]
    made = [
        Case([x, _axes(4, 6)], expected=[x.reshape(4, 6)]),
        Case([x, _axes(0, -1)], expected=[x.reshape(2, 12)], name="0 and -1"),
        Case(
            [x[:1, :1, :1], np.zeros(0, np.int64)],
            expected=[x[0, 0, :1].reshape(())],
            name="to a scalar",
        ),
        Case(
            [x, _axes(2, -1)], expected=[x.reshape(2, 12)], initializers=[1], name="constant shape"
        ),
    ]
    if request.version >= 14:
        made.append(
            Case(
                [x[:0], _axes(5, 0)],
                {"allowzero": 1},
                expected=[x[:0].reshape(5, 0)],
                name="allowzero",
            )
        )
    return made


@cases("Shape")
def shape(request: Request) -> list[Case]:
    x = request.random("T", (2, 0, 4) if request.varied == "T1" else (2, 3, 4))
    sizes = np.array(x.shape, np.int64)
    made = [
        Case([x], expected=[sizes]),
        Case([request.random("T", ())], expected=[sizes[:0]], name="scalar"),
    ]
    if request.version >= 15:
        for start, end in ((1, None), (-2, -1), (0, 9), (2, 1)):
            attributes = {"start": start} | ({} if end is None else {"end": end})
            made.append(Case([x], attributes, expected=[sizes[start:end]], name=str(attributes)))
    return made


@cases("Size")
def size(request: Request) -> list[Case]:
    return [
        Case([request.random("T", s)], expected=[np.array(int(np.prod(s)), np.int64)], name=str(s))
        for s in ((2, 3), (), (2, 0))
    ]


@cases("Slice")
def slice_(request: Request) -> list[Case]:
    x = request.random("T", (4, 5, 3))
    if request.version == 1:
        return [
            Case(
                [x],
                {"starts": [1, 0], "ends": [3, 2], "axes": [0, 2]},
                expected=[x[1:3, :, 0:2].copy()],
            ),
            Case(
                [x],
                {"starts": [0, -3], "ends": [100, -1]},
                expected=[x[:, -3:-1].copy()],
                name="no axes",
            ),
        ]
    index = request.dtype("Tind")

    def arrays(*lists):
        return [np.array(values, index) if values is not None else None for values in lists]

    return [
        Case([x, *arrays([1, 0], [3, 2], [0, 2])], expected=[x[1:3, :, 0:2].copy()]),
        Case([x, *arrays([0, -3], [100, -1])], expected=[x[:, -3:-1].copy()], name="no axes"),
        Case(
            [x, *arrays([-1, 0], [-100, 5], [1, 0], [-2, 3])],
            expected=[x[0:5:3, ::-2].copy()],
            name="steps",
        ),
        Case([x, *arrays([3], [1], [-1], [1])], expected=[x[:, :, 3:1].copy()], name="nothing"),
        Case([x, *arrays([1], [3], None, [1])], expected=[x[1:3].copy()], name="steps, no axes"),
        Case(
            [x, *arrays([1, 0], [3, 2], [0, 2])],
            expected=[x[1:3, :, 0:2].copy()],
            initializers=[1, 2, 3],
            name="constants",
        ),
    ]


@cases("Split")
def split(request: Request) -> list[Case]:
    x = request.random("T", (6, 4))
    halves, thirds = np.split(x, 2), np.split(x, [1, 4], 0)
    uneven = [x[:, :3], x[:, 3:]]
    wanted = {"num_outputs": 2} if request.version >= 18 else {}
    made = [Case([x], {**wanted}, outputs=2, expected=[h.copy() for h in halves], name="equal")]
    if request.version < 13:
        given = [
            Case(
                [x],
                {"split": [1, 3, 2], "axis": 0},
                outputs=3,
                expected=[t.copy() for t in thirds],
                name="sizes",
            ),
            Case(
                [x],
                {"split": [3, 1], "axis": 1},
                outputs=2,
                expected=[u.copy() for u in uneven],
                name="axis",
            ),
        ]
        if request.version == 1:
            sizes = np.array([1, 3, 2]).astype(x.dtype)
            given.append(
                Case(
                    [x, sizes],
                    {"axis": 0},
                    outputs=3,
                    expected=[t.copy() for t in thirds],
                    name="sizes as an input",
                )
            )
        return made + given
    made += [
        Case(
            [x, _axes(1, 3, 2)],
            {"axis": 0},
            outputs=3,
            expected=[t.copy() for t in thirds],
            name="sizes",
        ),
        Case(
            [x, _axes(3, 1)],
            {"axis": -1},
            outputs=2,
            expected=[u.copy() for u in uneven],
            name="axis",
        ),
    ]
    if request.version >= 18:
        made.append(
            Case(
                [x],
                {"num_outputs": 4},
                outputs=4,
                name="last smaller",
                expected=[x[0:2].copy(), x[2:4].copy(), x[4:6].copy(), x[6:6].copy()],
            )
        )
    return made


@cases("Squeeze")
def squeeze(request: Request) -> list[Case]:
    x = request.random("T", (1, 3, 1, 2))
    made = [Case([x], expected=[x.reshape(3, 2)], name="all")]
    for axes in ([0], [0, 2]) + (([-2],) if request.version >= 11 else ()):
        expected = [np.squeeze(x, tuple(axes))]
        if request.version < 13:
            made.append(Case([x], {"axes": axes}, expected=expected, name=str(axes)))
        else:
            made.append(Case([x, _axes(*axes)], expected=expected, name=str(axes)))
    return made


@cases("Unsqueeze")
def unsqueeze(request: Request) -> list[Case]:
    x = request.random("T", (3, 2))
    made = []
    for axes, dims in (([0], (1, 3, 2)), ([0, 3], (1, 3, 2, 1)), ([-1, 1], (3, 1, 2, 1))):
        if min(axes) < 0 and request.version < 11:
            continue
        if request.version < 13:
            made.append(Case([x], {"axes": axes}, expected=[x.reshape(dims)], name=str(axes)))
        else:
            made.append(Case([x, _axes(*axes)], expected=[x.reshape(dims)], name=str(axes)))
    return made


@cases("Tile")
def tile(request: Request) -> list[Case]:
    x = request.random("T", (2, 3))
    if request.version == 1:
        tiles, axis = (np.array(v).astype(x.dtype) for v in (2, 1))
        return [Case([x, tiles, axis], expected=[np.tile(x, (1, 2))])]
    return [
        Case([x, _axes(*r)], expected=[np.tile(x, r)], name=str(r))
        for r in ((2, 1), (1, 3), (0, 2))
    ]


@cases("Transpose")
def transpose(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    return [Case([x], expected=[x.transpose().copy()])] + [
        Case([x], {"perm": list(p)}, expected=[x.transpose(p).copy()], name=str(p))
        for p in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (0, 1, 2))
    ]


@cases("Trilu")
def trilu(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    zero = np.array("" if x.dtype == object else 0).astype(x.dtype)
    made = []
    for upper, k in ((1, None), (0, None), (1, 1), (0, -1), (1, -5), (0, 9)):
        rows, columns = np.indices(x.shape[-2:])
        offset = columns - rows - (k or 0)
        kept = offset >= 0 if upper else offset <= 0
        expected = np.where(kept, x, zero).astype(x.dtype)
        inputs = [x] if k is None else [x, np.array(k, np.int64)]
        made.append(Case(inputs, {"upper": upper}, expected=[expected], name=f"{upper} {k}"))
    return made


@cases("Where")
def where(request: Request) -> list[Case]:
    x, y = request.random("T", (2, 3)), request.random("T", (2, 3))
    condition = np.array([[True, False, True]])
    return [
        Case([condition, x, y], expected=[np.where(condition, x, y).astype(x.dtype)]),
        Case(
            [condition[0], x[:1], y[0, 0]],
            name="broadcast",
            expected=[np.where(condition[0], x[:1], y[0, 0]).astype(x.dtype)],
        ),
    ]


@cases("Constant")
def constant(request: Request) -> list[Case]:
    x = request.random("T", (2, 3))
    tensor = onnx.numpy_helper.from_array(x)
    made = [Case([], {"value": tensor}, expected=[x])]
    if request.version >= 11 and x.dtype == np.float32:
        values = onnx.helper.make_tensor("v", 1, [2], [1.0, 2.0])
        for name, indices in (("flat", [1, 5]), ("coordinates", [[0, 1], [1, 2]])):
            positions = np.array(indices, np.int64)
            sparse = onnx.helper.make_sparse_tensor(
                values, onnx.numpy_helper.from_array(positions), [2, 3]
            )
            dense = np.array([[0, 1, 0], [0, 0, 2]], np.float32)
            made.append(Case([], {"sparse_value": sparse}, expected=[dense], name=name))
    if request.version >= 12:
        kind = request.type("T")
        if kind == "tensor(float)":
            made += [
                Case([], {"value_float": 2.5}, expected=[np.float32(2.5)], name="float"),
                Case(
                    [],
                    {"value_floats": [1.0, 2.5]},
                    name="floats",
                    expected=[np.array([1, 2.5], np.float32)],
                ),
            ]
        elif kind == "tensor(int64)":
            made += [
                Case([], {"value_int": -7}, expected=[np.int64(-7)], name="int"),
                Case([], {"value_ints": [1, -2]}, expected=[np.array([1, -2])], name="ints"),
            ]
        elif kind == "tensor(string)":
            made += [
                Case([], {"value_string": "é"}, expected=[np.array("é", object)], name="string"),
                Case(
                    [],
                    {"value_strings": ["a", ""]},
                    name="strings",
                    expected=[np.array(["a", ""], object)],
                ),
            ]
    return made


@cases("ConstantOfShape")
def constant_of_shape(request: Request) -> list[Case]:
    value = request.random("T2", (1,))
    tensor = onnx.numpy_helper.from_array(value)
    made = [
        Case(
            [_axes(*s)], {"value": tensor}, name=str(s), expected=[np.broadcast_to(value, s).copy()]
        )
        for s in ((2, 3), (0, 2))
    ]
    made.append(
        Case(
            [np.zeros(0, np.int64)], {"value": tensor}, expected=[value.reshape(())], name="scalar"
        )
    )
    if request.type("T2") == "tensor(float)":
        made.append(Case([_axes(2, 2)], expected=[np.zeros((2, 2), np.float32)], name="default"))
    return made


@cases("EyeLike")
def eye_like(request: Request) -> list[Case]:
    x = request.random("T1", (3, 4))
    # Without `dtype` the output has the type of the input.
    made = [
        Case([x], {"k": k}, expected=[np.eye(3, 4, k).astype(x.dtype)], name=f"k {k}")
        for k in (0, 1, -2, 9)
        if request.varied == "T1" and x.dtype != np.float64
    ]
    target = request.dtype("T2")
    code = onnx.helper.np_dtype_to_tensor_dtype(target)
    return [*made, Case([x], {"dtype": code}, expected=[np.eye(3, 4).astype(target)], name="dtype")]
