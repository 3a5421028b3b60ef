"""Sequences and optional values."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.versions.case import ABSENT, Case, Request, cases
from tests.versions.element_types import type_proto


def _tensors(request: Request, *parameters: str) -> list[np.ndarray]:
    """Three tensors of the element type of the parameter that varies among these."""
    chosen = request.varied if request.varied in parameters else parameters[0]
    dtype = request.dtype(chosen)
    return [request.random(dtype, shape) for shape in ((2, 3), (1, 3), (4, 3))]


def _index(request: Request, value: int) -> np.ndarray:
    return np.array(value, request.dtype("I"))


@cases("SequenceAt")
def sequence_at(request: Request) -> list[Case]:
    items = _tensors(request, "T", "S")
    return [
        Case([items, _index(request, at)], expected=[items[at]], name=f"at {at}")
        for at in (0, 2, -1, -3)
    ]


@cases("SequenceConstruct")
def sequence_construct(request: Request) -> list[Case]:
    items = _tensors(request, "T", "S")
    return [
        Case(items, expected=[items], name="three"),
        Case(items[:1], expected=[items[:1]], name="one"),
    ]


@cases("SequenceEmpty")
def sequence_empty(request: Request) -> Case:
    dtype = helper.np_dtype_to_tensor_dtype(request.dtype("S"))
    return Case([], {"dtype": dtype}, expected=[[]])


@cases("SequenceErase")
def sequence_erase(request: Request) -> list[Case]:
    items = _tensors(request, "S")
    return [
        Case([items], expected=[items[:2]], name="last"),
        Case([items, _index(request, 0)], expected=[items[1:]], name="first"),
        Case([items, _index(request, -2)], expected=[[items[0], items[2]]], name="from the end"),
    ]


@cases("SequenceInsert")
def sequence_insert(request: Request) -> list[Case]:
    a, b, c = _tensors(request, "S", "T")
    return [
        Case([[a, b], c], expected=[[a, b, c]], name="last"),
        Case([[a, b], c, _index(request, 0)], expected=[[c, a, b]], name="first"),
        Case([[a, b], c, _index(request, -1)], expected=[[a, c, b]], name="from the end"),
        Case([[a, b], c, _index(request, 2)], expected=[[a, b, c]], name="behind"),
    ]


@cases("SequenceLength")
def sequence_length(request: Request) -> Case:
    return Case([_tensors(request, "S")], expected=[np.array(3, np.int64)])


@cases("ConcatFromSequence")
def concat_from_sequence(request: Request) -> list[Case]:
    items = _tensors(request, "T", "S")
    like = [items[0], items[0][::-1].copy()]
    return [
        Case([items], {"axis": 0}, expected=[np.concatenate(items)], name="concat"),
        Case([like], {"axis": -1}, expected=[np.concatenate(like, -1)], name="last axis"),
        Case([like], {"axis": 1, "new_axis": 1}, expected=[np.stack(like, 1)], name="stack"),
        Case([like], {"axis": -1, "new_axis": 1}, expected=[np.stack(like, -1)], name="stack last"),
    ]


@cases("SplitToSequence")
def split_to_sequence(request: Request) -> list[Case]:
    x = request.random(request.dtype("S"), (5, 2))
    two = np.array(2, request.dtype("I"))
    uneven = np.array([1, 4], request.dtype("I"))
    rows = [x[i : i + 1] for i in range(5)]
    return [
        Case([x], expected=[rows], name="ones"),
        Case([x], {"keepdims": 0}, expected=[list(x)], name="squeezed"),
        Case([x], {"axis": -1, "keepdims": 0}, expected=[list(x.T)], name="last axis"),
        Case([x, two], expected=[[x[:2], x[2:4], x[4:]]], name="chunks"),
        Case([x, two], {"keepdims": 0}, expected=[[x[:2], x[2:4], x[4:]]], name="chunks stay"),
        Case([x, uneven], expected=[[x[:1], x[1:]]], name="uneven"),
    ]


@cases("SequenceMap")
def sequence_map(request: Request) -> list[Case]:
    items = _tensors(request, "S")
    element = f"tensor({request.type('S')[len('seq(tensor(') : -2]})"
    kind = request.type("V")
    of_v = kind[4:-1] if kind.startswith("seq") else kind
    extra = [request.random(of_v, (2,)) for _ in items]
    extra = extra if kind.startswith("seq") else extra[0]
    body = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in ("x", "v")],
        "body",
        [helper.make_value_info("x", type_proto(element)), _info("v", of_v)],
        [helper.make_value_info("x_out", type_proto(element)), _info("v_out", of_v)],
    )
    each = extra if isinstance(extra, list) else [extra] * 3
    asked = 2 if of_v == element else 1
    return [
        Case([items, extra], {"body": body}, outputs=asked, expected=[items, each][:asked]),
    ]


def _info(name: str, type_: str) -> Any:
    return helper.make_value_info(name, type_proto(type_))


def _inside(request: Request, *parameters: str) -> tuple[Any, str]:
    """A value for an optional, and its type."""
    chosen = request.varied if request.varied in parameters else parameters[0]
    type_ = request.type(chosen)
    if type_.startswith("optional"):
        type_ = type_[len("optional(") : -1]
    if type_.startswith("seq"):
        return [request.random(type_[4:-1], shape) for shape in ((2,), (1, 2))], type_
    return request.random(type_, (2, 2)), type_


@cases("Optional")
def optional(request: Request) -> list[Case]:
    value, type_ = _inside(request, "V", "O")
    return [
        Case([value], expected=[value], name="full"),
        Case([ABSENT], {"type": type_proto(type_)}, expected=[None], name="empty"),
    ]


@cases("OptionalGetElement")
def optional_get_element(request: Request) -> Case:
    value, _ = _inside(request, "O", "V")
    return Case([value], expected=[value])


@cases("OptionalHasElement")
def optional_has_element(request: Request) -> list[Case]:
    value, _ = _inside(request, "O")
    found = [Case([value], expected=[np.array(True)], name="full")]
    if request.type("O").startswith("optional"):
        found.append(Case([None], expected=[np.array(False)], name="empty"))
    if request.version >= 18:
        found.append(Case([ABSENT], expected=[np.array(False)], name="absent"))
    return found


@cases("ReverseSequence")
def reverse_sequence(request: Request) -> list[Case]:
    x = request.random("T", (4, 3, 2))
    return [
        Case([x, np.array([4, 1, 2], np.int64)], name="time first"),
        Case(
            [x, np.array([3, 1, 2, 3], np.int64)],
            {"batch_axis": 0, "time_axis": 1},
            name="batch first",
        ),
    ]
