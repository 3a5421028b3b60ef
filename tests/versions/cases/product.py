"""Matrix products and convolutions."""

import numpy as np

from tests.versions.case import Case, Request, cases


def _wide(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind in "iu" else x.astype(np.float64)


@cases("MatMul")
def matmul(request: Request) -> list[Case]:
    def expected(a, b):
        return [np.asarray(np.matmul(_wide(a), _wide(b))).astype(a.dtype)]

    shapes = {
        "matrices": ((3, 4), (4, 5)),
        "batches": ((2, 1, 3, 4), (5, 4, 2)),
        "vector and matrix": ((4,), (4, 3)),
        "matrix and vector": ((3, 4), (4,)),
        "vectors": ((4,), (4,)),
        "empty sum": ((2, 0), (0, 3)),
    }
    return [
        Case([request.random("T", a), request.random("T", b)], expected=expected, name=name)
        for name, (a, b) in shapes.items()
    ]


@cases("Gemm")
def gemm(request: Request) -> list[Case]:
    a, b = request.random("T", (3, 4)), request.random("T", (4, 5))
    integer = a.dtype.kind in "iu"

    def expected(alpha=1.0, beta=1.0, trans_a=0, trans_b=0):
        def formula(a, b, *rest):
            a_wide, b_wide = _wide(a), _wide(b)
            y = (a_wide.T if trans_a else a_wide) @ (b_wide.T if trans_b else b_wide)
            if alpha != 1:
                y = y * alpha
            if rest and rest[0] is not None:
                c = _wide(rest[0])
                y = y + (c * beta if beta != 1 else c)
            return [y.astype(a.dtype)]

        return formula

    full = request.random("T", (3, 5))
    made = [Case([a, b, full], expected=expected(), name="full C")]
    if request.version < 7:
        made.append(
            Case(
                [a, b, request.random("T", (5,))],
                {"broadcast": 1},
                expected=expected(),
                name="broadcast C",
            )
        )
        return made
    made.append(Case([a, b, request.random("T", (5,))], expected=expected(), name="row C"))
    made.append(Case([a, b, request.random("T", (3, 1))], expected=expected(), name="column C"))
    made.append(Case([a, b, request.random("T", ())], expected=expected(), name="scalar C"))
    if request.version >= 11:
        made.append(Case([a, b], expected=expected(), name="no C"))
    scales = {"alpha": 2.0, "beta": 3.0} if integer else {"alpha": 0.5, "beta": 0.25}
    made.append(
        Case(
            [a.T.copy(), b.T.copy(), full],
            {"transA": 1, "transB": 1, **scales},
            expected=expected(**scales, trans_a=1, trans_b=1),
            name="transposed and scaled",
        )
    )
    return made


@cases("Einsum")
def einsum(request: Request) -> list[Case]:
    equations = {
        "ij,jk->ik": ((2, 3), (3, 4)),
        "bij,bjk": ((2, 2, 3), (2, 3, 4)),
        "...ii->...i": ((2, 3, 3),),
        "ij->": ((2, 3),),
        "i,i": ((4,), (4,)),
        "i,jk->ijk": ((2,), (3, 2)),
        "b...d,dh->b...h": ((2, 2, 3), (3, 4)),
        " i j , j k -> k i ": ((2, 3), (3, 4)),
        "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)),
    }

    def expected(equation):
        compact = equation.replace(" ", "")
        return lambda *arrays: [
            np.asarray(np.einsum(compact, *[_wide(a) for a in arrays])).astype(arrays[0].dtype)
        ]

    return [
        Case(
            [request.random("T", s) for s in shapes],
            {"equation": equation},
            expected=expected(equation),
            name=equation,
        )
        for equation, shapes in equations.items()
    ]


def _torch_conv(x, w, b, *, transposed: bool, **attributes) -> list[np.ndarray]:
    """The convolution by torch in float64: neither the reference evaluator nor ONNX Runtime takes
    all of the attributes in all types."""
    import torch

    function = getattr(
        torch.nn.functional, ("conv_transpose" if transposed else "conv") + f"{x.ndim - 2}d"
    )
    arrays = [torch.from_numpy(a.astype(np.float64)) if a is not None else None for a in (x, w, b)]
    return [function(*arrays, **attributes).numpy().astype(x.dtype)]


@cases("Conv")
def conv(request: Request) -> list[Case]:
    x = request.random("T", (2, 4, 6, 5))
    w = request.random("T", (6, 4, 3, 2))
    b = request.random("T", (6,))

    def by_torch(**attributes):
        def formula(x, w, b=None):
            return _torch_conv(x, w, b, transposed=False, **attributes)

        return formula

    made = [
        Case([x, w], expected=by_torch()),
        Case([x, w, b], expected=by_torch(), name="bias"),
        Case(
            [x, w, b],
            {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 2]},
            expected=by_torch(stride=(2, 1), dilation=(1, 2), padding=(1, 1)),
            name="attributes",
        ),
        Case(
            [x, request.random("T", (6, 2, 3, 2)), b],
            {"group": 2},
            expected=by_torch(groups=2),
            name="groups",
        ),
        Case(
            [x, request.random("T", (4, 1, 3, 3))],
            {"group": 4, "auto_pad": "SAME_UPPER"},
            expected=by_torch(groups=4, padding=(1, 1)),
            name="depthwise",
        ),
        Case([x, w], {"auto_pad": "VALID"}, expected=by_torch(), name="valid"),
        Case(
            [request.random("T", (1, 2, 7)), request.random("T", (3, 2, 3))],
            expected=by_torch(),
            name="1-D",
        ),
        Case(
            [request.random("T", (1, 2, 4, 3, 5)), request.random("T", (3, 2, 2, 2, 3))],
            {"pads": [1, 0, 1, 1, 0, 1]},
            expected=by_torch(padding=(1, 0, 1)),
            name="3-D",
        ),
    ]
    return made


@cases("ConvTranspose")
def conv_transpose(request: Request) -> list[Case]:
    x = request.random("T", (2, 4, 3, 5))
    w = request.random("T", (4, 6, 3, 2))
    b = request.random("T", (6,))

    def by_torch(**attributes):
        def formula(x, w, b=None):
            return _torch_conv(x, w, b, transposed=True, **attributes)

        return formula

    return [
        Case([x, w], expected=by_torch()),
        Case(
            [x, w, b],
            {"strides": [2, 3], "output_padding": [1, 1], "pads": [1, 0, 1, 0]},
            expected=by_torch(stride=(2, 3), output_padding=(1, 1), padding=(1, 0)),
            name="attributes",
        ),
        Case(
            [x, w, b], {"dilations": [2, 2]}, expected=by_torch(dilation=(2, 2)), name="dilations"
        ),
        Case(
            [x, request.random("T", (4, 3, 3, 2))],
            {"group": 2},
            expected=by_torch(groups=2),
            name="groups",
        ),
        Case(
            [x, request.random("T", (4, 1, 3, 3))],
            {"strides": [2, 2], "output_shape": [7, 11]},
            expected=by_torch(stride=2),
            name="output_shape",
        ),
        Case(
            [request.random("T", (1, 2, 7)), request.random("T", (2, 3, 3))],
            expected=by_torch(),
            name="1-D",
        ),
        Case(
            [request.random("T", (1, 2, 4, 3, 5)), request.random("T", (2, 3, 2, 2, 3))],
            expected=by_torch(),
            name="3-D",
        ),
    ]
