"""Small random networks of what models are made of, for comparing engines.

Each draws its layers, their sizes and how they are spelled, so that what passes fuse and kernels
choose meet in combinations and at odd sizes that nobody would write down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Value = tuple[str, Shape]
Layer = Callable[["RandomNetwork", str, Shape], "Value | None"]

MOST_ELEMENTS = 200_000
MOST_PRODUCTS = 30_000_000
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 40, 64, 96, 130)
SIZES = (1, 2, 3, 5, 7, 8, 10, 14, 16, 20, 28, 33, 40)
WIDE_CHANNELS = (48, 64, 96, 128, 160, 192, 256, 384, 512, 1024)
WIDE_SIZES = (1, 2, 3, 4, 7, 9, 14)
ACTIVATIONS = (
    "Relu",
    "Clip",
    "HardSwish",
    "SiLU",
    "LeakyRelu",
    "PRelu",
    "GELU",
    "GELU by tanh",
    "Mish",
    "Elu",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "HardSigmoid",
    "Exp",
    "Sqrt",
)

LAYERS: list[Layer] = []


def layer(times: int) -> Callable[[Layer], Layer]:
    """Draw this layer so many times as often as one of weight 1."""

    def register(made: Layer) -> Layer:
        LAYERS.extend([made] * times)
        return made

    return register


class RandomNetwork:
    """A model and values for its inputs.

    Parameters
    ----------
    seed
        What is drawn.
    tiny
        Tensors of few elements, often of one.
    wide
        Many channels and few pixels: rows that lie a page apart, parts of whole vectors.
    quantized
        Products take rounded values and weights, as QuantizeLinear and DequantizeLinear spell it.
    """

    def __init__(
        self, seed: int, *, tiny: bool = False, wide: bool = False, quantized: bool = False
    ):
        self.random = np.random.default_rng(seed)
        self.tiny = tiny
        self.wide = wide
        self.quantized = quantized
        self.opset = self.pick([17, 20])
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.feeds: dict[str, np.ndarray] = {}
        self.values: list[Value] = []
        self.count = 0
        for index in range(self.pick([1, 1, 2])):
            self._add_input(f"x{index}")
        for _ in range(int(self.random.integers(3, 16))):
            self._add_layer()
        self.model = self._finish()

    # Drawing

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    @property
    def channels(self) -> tuple[int, ...]:
        return WIDE_CHANNELS if self.wide else CHANNELS

    # Building

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def constant(self, value: Any, dtype: type = np.float32) -> str:
        name = self.name()
        self.constants[name] = np.asarray(value, dtype)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weights(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.random.standard_normal(shape) * scale)

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or the names of several."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def reduced(self, op_type: str, x: str, axis: int, keepdims: int = 1) -> str:
        if self.opset < 18:
            return self.op(op_type, x, axes=[axis], keepdims=keepdims)
        return self.op(op_type, x, self.integers(axis), keepdims=keepdims)

    def rounded(self, x: str) -> str:
        """x behind QuantizeLinear and DequantizeLinear, in a quantised network."""
        if not self.quantized or self.chance(0.1):
            return x
        dtype = self.pick([np.uint8, np.uint8, np.int8])
        scale = self.constant(self.random.uniform(0.02, 0.05))
        zero = self.constant(self.pick([0, 128, 117] if dtype is np.uint8 else [0, -9]), dtype)
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, scale, zero), scale, zero)

    def rounded_weights(self, *shape: int, scale: float, axis: int) -> str:
        """Weights; in a quantised network of int8 with a scale for each part along the axis."""
        name = self.weights(*shape, scale=scale)
        if not self.quantized or self.chance(0.1):
            return name
        values = self.constants.pop(name)
        others = tuple(i for i in range(len(shape)) if i != axis)
        scales = np.abs(values).max(axis=others, keepdims=True) / 127 + 1e-6
        codes = self.constant(np.clip(np.round(values / scales), -127, 127), np.int8)
        zeros = self.constant(np.zeros(shape[axis]), np.int8)
        return self.op("DequantizeLinear", codes, self.constant(scales.ravel()), zeros, axis=axis)

    def _add_input(self, name: str) -> None:
        if self.values and self.chance(0.5):
            shape = self.values[0][1]
        else:
            sizes = (1, 1, 2, 3, 4) if self.tiny else WIDE_SIZES if self.wide else SIZES
            channels = (1, 1, 2, 3, 8) if self.tiny else self.channels
            rank = self.pick([2, 3, 4, 4, 4, 4, 5])
            shape = (self.pick([1, 1, 2, 3]), self.pick(channels))
            shape += tuple(self.pick(sizes[:4] if rank == 5 else sizes) for _ in range(rank - 2))
        self.values.append((name, shape))
        self.feeds[name] = self.random.standard_normal(shape).astype(np.float32)

    def _add_layer(self) -> None:
        for _ in range(10):  # not every layer fits every value
            nodes, values, constants = len(self.nodes), len(self.values), dict(self.constants)
            age = min(int(self.random.integers(len(self.values))) for _ in range(3))
            layers = [*LAYERS, *[cross_stage] * 8] if self.wide else LAYERS
            made = self.pick(layers)(self, *self.values[-1 - age])
            if made is not None and len(made[1]) <= 5 and 0 < math.prod(made[1]) <= MOST_ELEMENTS:
                self.values.append(made)
                return
            del self.nodes[nodes:], self.values[values:]
            self.constants = constants

    def _finish(self) -> onnx.ModelProto:
        inner = self.values[len(self.feeds) :] or [(self.op("Identity", "x0"), ())]
        outputs = dict.fromkeys(
            [inner[-1][0], *(self.pick(inner)[0] for _ in range(self.pick([0, 0, 2])))]
        )
        used, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if used.intersection(node.output):
                nodes.append(node)
                used.update(node.input)
        self.feeds = {name: value for name, value in self.feeds.items() if name in used}
        graph = helper.make_graph(
            nodes[::-1],
            "random",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
                for name, value in self.feeds.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [
                numpy_helper.from_array(a, name)
                for name, a in self.constants.items()
                if name in used
            ],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9
        )


# ---- Layers: each gives a new value of one that is there, or None where it does not fit ----


@layer(6)
def convolution(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    if not 3 <= len(shape) <= 5:
        return None
    batch, channels, *sizes = shape
    rank = len(sizes)
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    groups = net.pick([1, 1, channels, net.pick(divisors)])
    out = groups * net.pick([1, 1, 2, 3]) if groups > 1 else net.pick(net.channels)
    kernel = [net.pick([1, 1, 2, 3, 3, 3, 4, 5, 7])] * rank
    if net.chance(0.2):
        kernel = [net.pick([1, 2, 3, 5]) for _ in sizes]
    strides = [net.pick([1, 1, 1, 2, 2, 3])] * rank
    dilations = [net.pick([1, 1, 1, 2])] * rank
    pads = [d * (k - 1) // 2 for d, k in zip(dilations, kernel, strict=True)] * 2
    if net.chance(0.4):
        pads = [int(net.random.integers(k)) for k in kernel * 2]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    padded = [size + pads[i] + pads[i + rank] for i, size in enumerate(sizes)]
    results = [(p - r) // s + 1 for p, r, s in zip(padded, reach, strides, strict=True)]
    fan = channels // groups * math.prod(kernel)
    if min(results) < 1 or batch * out * math.prod(results) * fan > MOST_PRODUCTS:
        return None
    weights = net.rounded_weights(out, channels // groups, *kernel, scale=fan**-0.5, axis=0)
    bias = [net.weights(out, scale=0.3)] if net.chance(0.6) else []
    y = net.op(
        "Conv", net.rounded(x), weights, *bias,
        kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups,
    )  # fmt: skip
    if net.quantized:
        y = net.rounded(activate(net, y, (batch, out, *results)) if net.chance(0.4) else y)
    return y, (batch, out, *results)


@layer(1)
def transposed_convolution(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    if not 3 <= len(shape) <= 4:
        return None
    batch, channels, *sizes = shape
    rank = len(sizes)
    groups = net.pick([1, 1, channels])
    each = net.pick([1, 2]) if groups > 1 else net.pick(net.channels[:12])
    kernel, strides = [net.pick([1, 2, 3, 4])] * rank, [net.pick([1, 2, 2, 3])] * rank
    pads = [int(net.random.integers(kernel[0] // 2 + 1))] * (2 * rank)
    more = [int(net.random.integers(strides[0])) if net.chance(0.3) else 0] * rank
    results = [
        s * (size - 1) + o + k - 2 * pads[0]
        for size, k, s, o in zip(sizes, kernel, strides, more, strict=True)
    ]
    if min(results) < 1 or max(results) > 80:
        return None
    fan = channels // groups * math.prod(kernel)
    weights = net.weights(channels, each, *kernel, scale=fan**-0.5)
    y = net.op(
        "ConvTranspose", x, weights, net.weights(groups * each),
        kernel_shape=kernel, strides=strides, pads=pads, output_padding=more, group=groups,
    )  # fmt: skip
    return y, (batch, groups * each, *results)


@layer(4)
def activation(net: RandomNetwork, x: str, shape: Shape) -> Value:
    return activate(net, x, shape), shape


def activate(net: RandomNetwork, x: str, shape: Shape) -> str:
    op, number = net.op, net.constant
    kind = net.pick(ACTIVATIONS)
    match kind:
        case "Clip":
            low, high = net.pick([(0, 6), (-0.5, 0.8)])
            return op("Clip", x, number(low), number(high))
        case "HardSwish":
            clipped = op("Clip", op("Add", x, number(3)), number(0), number(6))
            return op("Mul", x, op("Div", clipped, number(6)))
        case "SiLU":
            return op("Mul", x, op("Sigmoid", x))
        case "PRelu":
            return op("PRelu", x, net.weights(*shape[1:2], *(1 for _ in shape[2:])))
        case "GELU":
            erf = op("Erf", op("Div", x, number(math.sqrt(2))))
            return op("Mul", op("Mul", x, op("Add", erf, number(1))), number(0.5))
        case "GELU by tanh":
            cube = op("Mul", op("Mul", x, op("Mul", x, x)), number(0.044715))
            tanh = op("Tanh", op("Mul", op("Add", x, cube), number(math.sqrt(2 / math.pi))))
            return op("Mul", op("Mul", x, number(0.5)), op("Add", tanh, number(1)))
        case "Mish":
            return op("Mul", x, op("Tanh", op("Softplus", x)))
        case "Exp":
            return op("Exp", op("Clip", x, number(-4), number(1)))
        case "Sqrt":
            return op("Sqrt", op("Add", op("Mul", x, x), number(1e-3)))
        case "LeakyRelu" | "Elu":
            return op(kind, x, alpha=float(net.random.uniform(0.05, 0.9)))
    return op(kind, x)


@layer(3)
def two_values(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    y, other = net.pick(net.values)
    try:
        together = np.broadcast_shapes(shape, other)
    except ValueError:
        return None
    operands = [x, y] if net.chance(0.5) else [y, x]
    return net.op(net.pick(["Add", "Add", "Mul", "Sub", "Max", "Min"]), *operands), together


@layer(2)
def scale(net: RandomNetwork, x: str, shape: Shape) -> Value:
    kept = [size if net.chance(0.4) else 1 for size in shape]
    factor = net.constant(net.random.uniform(0.5, 1.5, kept))
    return net.op(net.pick(["Mul", "Add", "Sub", "Div"]), x, factor), shape


@layer(1)
def pool(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    sizes = shape[2:]
    if not 1 <= len(sizes) <= 3:
        return None
    if net.chance(0.2):
        kind = net.pick(["GlobalAveragePool", "GlobalMaxPool"])
        return net.op(kind, x), (*shape[:2], *(1 for _ in sizes))
    kernel, strides = [net.pick([1, 2, 3, 3, 5])] * len(sizes), [net.pick([1, 2, 2])] * len(sizes)
    pads = [int(net.random.integers((k + 1) // 2)) for k in kernel * 2]
    room = [size + pads[i] + pads[i + len(sizes)] - kernel[i] for i, size in enumerate(sizes)]
    if min(room) < 0:
        return None
    results = [r // s + 1 for r, s in zip(room, strides, strict=True)]
    kind, more = net.pick(
        [("MaxPool", {}), ("AveragePool", {"count_include_pad": net.pick([0, 1])})]
    )
    y = net.op(kind, x, kernel_shape=kernel, strides=strides, pads=pads, **more)
    return y, (*shape[:2], *results)


@layer(2)
def normalization(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    channels, last = shape[1] if len(shape) > 1 else 0, shape[-1]
    match net.pick(["batch", "instance", "layer", "spelled layer"]):
        case "batch" if channels:
            positive = [net.constant(net.random.uniform(0.5, 1.5, channels)) for _ in range(2)]
            moved = [net.weights(channels) for _ in range(2)]
            return net.op("BatchNormalization", x, positive[0], *moved, positive[1]), shape
        case "instance" if len(shape) in (3, 4) and math.prod(shape[2:]) > 3:
            parts = [net.weights(channels) for _ in range(2)]
            return net.op("InstanceNormalization", x, *parts, epsilon=0.01), shape
        case "layer" if last > 3:
            return net.op(
                "LayerNormalization", x, net.weights(last), net.weights(last), epsilon=0.01
            ), shape
        case "spelled layer" if last > 3:
            apart = net.op("Sub", x, net.reduced("ReduceMean", x, -1))
            variance = net.reduced("ReduceMean", net.op("Pow", apart, net.constant(2)), -1)
            deviation = net.op("Sqrt", net.op("Add", variance, net.constant(0.01)))
            scaled = net.op("Mul", net.op("Div", apart, deviation), net.weights(last))
            return net.op("Add", scaled, net.weights(last)), shape
    return None


@layer(1)
def squeeze_and_excite(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    if len(shape) != 4:
        return None
    channels, few = shape[1], max(1, shape[1] // 4)
    means = net.op("GlobalAveragePool", x)
    down = net.weights(few, channels, 1, 1, scale=channels**-0.5)
    inner = activate(net, net.op("Conv", means, down, net.weights(few)), (shape[0], few, 1, 1))
    up = net.weights(channels, few, 1, 1, scale=few**-0.5)
    gates = net.op(
        net.pick(["Sigmoid", "HardSigmoid"]), net.op("Conv", inner, up, net.weights(channels))
    )
    return net.op("Mul", x, gates), shape


@layer(1)
def concatenation(net: RandomNetwork, x: str, shape: Shape) -> Value:
    axis = int(net.random.integers(len(shape)))
    parts = [(x, shape)]
    for name, other in net.values[::-1]:
        fits = len(other) == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(other, shape, strict=True)) if i != axis
        )
        if fits and len(parts) < 4:
            parts.append((name, other))
    total = sum(other[axis] for _, other in parts)
    y = net.op("Concat", *(name for name, _ in parts), axis=axis)
    return y, (*shape[:axis], total, *shape[axis + 1 :])


@layer(2)
def part(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    """What Split, Slice or Gather take along an axis."""
    axis = int(net.random.integers(len(shape)))
    size = shape[axis]
    resized = lambda count: (*shape[:axis], count, *shape[axis + 1 :])  # noqa: E731
    match net.pick(["Split", "Slice", "Gather"]):
        case "Split" if size > 1:
            cut = int(net.random.integers(1, size))
            if net.wide and size % 2 == 0 and net.chance(0.7):
                cut = size // 2
            one, two = net.op("Split", x, net.integers(cut, size - cut), outputs=2, axis=axis)
            net.values.append((two, resized(size - cut)))
            return one, resized(cut)
        case "Slice" if size > 1:
            begin = int(net.random.integers(size - 1))
            end, step = int(net.random.integers(begin + 1, size + 1)), net.pick([1, 1, 2, -1])
            count = len(range(begin, end, abs(step)))
            bounds = (begin, end) if step > 0 else (end - 1, begin - size - 1)
            places = [net.integers(value) for value in (*bounds, axis, step)]
            return net.op("Slice", x, *places), resized(count)
        case "Gather":
            indices = net.random.integers(-size, size, int(net.random.integers(1, 6)))
            return net.op("Gather", x, net.integers(*indices), axis=axis), resized(len(indices))
    return None


def cross_stage(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    """Half of a convolution's channels go through another one, as in ShuffleNet or YOLO."""
    whole = convolution(net, x, shape)
    if whole is None or whole[1][1] % 2:
        return None
    batch, channels, *sizes = whole[1]
    half = channels // 2
    halves = net.op("Split", whole[0], net.integers(half, half), outputs=2, axis=1)
    part = net.pick([0, 1])
    made = convolution(net, halves[part], (batch, half, *sizes))
    if made is None:
        return None
    if made[1][2:] != tuple(sizes) or net.chance(0.3):
        net.values.append((halves[1 - part], (batch, half, *sizes)))
        return made
    joined = [made[0], halves[1 - part]][:: net.pick([1, -1])]
    return net.op("Concat", *joined, axis=1), (batch, made[1][1] + half, *sizes)


@layer(1)
def pad(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    pads = [int(p) for p in net.random.integers(0, 3, 2 * len(shape))]
    sizes = [size + pads[i] + pads[i + len(shape)] for i, size in enumerate(shape)]
    mode = net.pick(["constant", "edge", "reflect"])
    if mode == "reflect" and any(max(pads[i :: len(shape)]) >= n for i, n in enumerate(shape)):
        return None
    return net.op("Pad", x, net.integers(*pads), mode=mode), tuple(sizes)


@layer(1)
def resize(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    if len(shape) != 4:
        return None
    factors = [net.pick([1, 2, 3]) for _ in range(2)]
    sizes = (*shape[:2], shape[2] * factors[0], shape[3] * factors[1])
    mode, coordinates = net.pick(
        [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")]
    )
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    target = net.integers(*sizes)
    return net.op(
        "Resize", x, "", "", target, mode=mode, coordinate_transformation_mode=coordinates, **more
    ), sizes


@layer(3)
def rearrangement(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    rank = len(shape)
    match net.pick(
        ["Transpose", "Transpose", "shuffle", "Flatten", "join", "split", "Unsqueeze", "blocks"]
    ):
        case "Transpose":
            order = [int(i) for i in net.random.permutation(rank)]
            if rank == 4 and net.chance(0.6):
                order = net.pick([[0, 2, 3, 1], [0, 3, 1, 2]])
            return net.op("Transpose", x, perm=order), tuple(shape[i] for i in order)
        case "shuffle" if rank == 4 and shape[1] % 2 == 0:
            apart = net.op("Reshape", x, net.integers(shape[0], 2, shape[1] // 2, *shape[2:]))
            turned = net.op("Transpose", apart, perm=[0, 2, 1, 3, 4])
            return net.op("Reshape", turned, net.integers(*shape)), shape
        case "Flatten" if rank > 1:
            return net.op("Flatten", x), (shape[0], math.prod(shape[1:]))
        case "join" if rank > 2:
            joined = (*shape[:-2], shape[-2] * shape[-1])
            return net.op("Reshape", x, net.integers(*joined)), joined
        case "split" if shape[-1] % 4 == 0:
            apart = (*shape[:-1], 4, shape[-1] // 4)
            return net.op("Reshape", x, net.integers(*apart)), apart
        case "Unsqueeze":
            axis = int(net.random.integers(rank + 1))
            return net.op("Unsqueeze", x, net.integers(axis)), (*shape[:axis], 1, *shape[axis:])
        case "blocks" if rank == 4 and shape[1] % 4 == 0:
            batch, channels, height, width = shape
            y = net.op("DepthToSpace", x, blocksize=2, mode=net.pick(["DCR", "CRD"]))
            return y, (batch, channels // 4, height * 2, width * 2)
    return None


@layer(1)
def reduction(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    axis, keeps = int(net.random.integers(len(shape))), net.pick([0, 1])
    if len(shape) + keeps < 2:
        return None
    kind = net.pick(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"])
    rest = (1,) if keeps else ()
    return net.reduced(kind, x, axis, keeps), (*shape[:axis], *rest, *shape[axis + 1 :])


@layer(1)
def softmax(net: RandomNetwork, x: str, shape: Shape) -> Value:
    return net.op("Softmax", x, axis=net.pick([-1, int(net.random.integers(len(shape)))])), shape


@layer(2)
def product(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    columns, depth = net.pick([*net.channels, 257]), shape[-1]
    if len(shape) < 2 or math.prod(shape) * columns > MOST_PRODUCTS:
        return None
    if len(shape) == 2 and net.chance(0.5):
        weights = net.rounded_weights(columns, depth, scale=depth**-0.5, axis=0)
        bias = [net.weights(columns)] if net.chance(0.7) else []
        factors = {"alpha": net.pick([1.0, 0.5]), "beta": net.pick([1.0, 2.0])}
        return net.op("Gemm", net.rounded(x), weights, *bias, transB=1, **factors), (
            shape[0],
            columns,
        )
    weights = net.rounded_weights(depth, columns, scale=depth**-0.5, axis=1)
    y = net.op("MatMul", net.rounded(x), weights)
    if net.chance(0.6):
        y = net.op("Add", y, net.weights(columns))
    return y, (*shape[:-1], columns)


@layer(1)
def attention(net: RandomNetwork, x: str, shape: Shape) -> Value | None:
    """Of heads that projections make, its scores scaled in one of three ways, masked or not."""
    if len(shape) != 3 or shape[1] > 200:
        return None
    batch, length, width = shape
    heads, depth = net.pick([1, 2, 3, 4]), net.pick([4, 8, 16, 17, 32])

    def head(order: list[int]) -> str:
        weights = net.weights(width, heads * depth, scale=width**-0.5)
        projected = net.op("Add", net.op("MatMul", x, weights), net.weights(heads * depth))
        return net.op(
            "Transpose",
            net.op("Reshape", projected, net.integers(batch, -1, heads, depth)),
            perm=order,
        )

    queries, keys, values = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    way = net.pick(["queries", "scores", "divided"])
    if way == "queries":
        queries = net.op("Mul", queries, net.constant(depth**-0.5))
    scores = net.op("MatMul", queries, keys)
    if way == "scores":
        scores = net.op("Mul", scores, net.constant(depth**-0.5))
    if way == "divided":
        scores = net.op("Div", scores, net.constant(depth**0.5))
    if net.chance(0.4):
        causal = np.where(np.tril(np.ones((length, length))) > 0, 0, net.pick([-1e4, -1e9]))
        bias = net.random.standard_normal(
            (net.pick([1, batch]), net.pick([1, heads]), length, length)
        )
        scores = net.op("Add", scores, net.constant(net.pick([causal, bias])))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), values)
    turned = net.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = net.op("Reshape", turned, net.integers(batch, -1, heads * depth))
    return joined, (batch, length, heads * depth)
