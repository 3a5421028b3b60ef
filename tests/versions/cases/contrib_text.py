"""Contributed operators on texts and tokens; ONNX Runtime is their only oracle."""

from __future__ import annotations

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN

TEXTS = ("Hello World", "I love computer  science !", "", " ", "a,b, c,,d", "äö ß\u2003犬 𝄞x")


def _strings(*texts: str) -> np.ndarray:
    return np.array(texts, object)


@cases("Tokenizer", domain=DOMAIN)
def tokenizer(request: Request) -> list[Case]:
    x = _strings(*TEXTS)
    found = []

    def add(name: str = "", x: np.ndarray = x, **attributes) -> None:
        attributes = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attributes}
        found.append(Case([x], attributes, oracle="onnxruntime", name=name))

    # Classes of characters, which are looked for without matching each time, and others.
    classes = (" ", "[ ,]+", r"\s", r"\.", "[^a-z]", "[^ö]", r"[\s,ß]+", "[]o]", r"[l\]]+", ".")
    for separator in (
        *classes,
        r",? ",
        "x|,",
        "l*",
        r"\b",
        "^H",
        "o$",
        "ö",
        "[[:alpha:]]+",
        "[l]o",
    ):
        add(f"separator {separator}", separators=[separator])
    for token in (r"[a-zA-Z]+", "[^ ]+", r"\w+", "[öß]", r"\S", "[^l]+", "o+", ".+", "ß", "o"):
        add(f"tokenexp {token}", tokenexp=token)
    for token in (r"\b\w\w+\b", "l+o?", "[a-z]{2}", "(l|o)+", r"\w*", r"\w+?", "[a-z]+ ?"):
        add(f"tokenexp {token}", tokenexp=token)
    add("several", separators=[",", " ", "o+"])
    add("an empty one among several", separators=["", "o"])
    add("both", separators=["l"], tokenexp="o")
    add("characters", separators=[""])
    add("characters by tokenexp", tokenexp=".", mark=1)
    add("mark", separators=[" "], mark=1)
    add("pads", separators=[" "], pad_value="", mark=1)
    for count in (2, 3, 6):
        add(f"mincharnum {count}", separators=[" ", ","], mincharnum=count)
        add(f"mincharnum {count} of tokens", tokenexp="[a-z]+|ä[^ ]*", mincharnum=count)
    add("short ones overlap", _strings("abcd"), tokenexp="ab|bcd", mincharnum=3)
    add("matrix", x.reshape(2, 3), separators=[" "], mark=1)
    add("no tokens", _strings("", "  "), separators=[" "], mark=1)
    for shape in ((0,), (2, 0), (0, 2)):
        add(f"no strings {shape}", x[:0].reshape(shape), separators=[" "])
    # Read in vain from every start: a general automaton takes over.
    add("long", _strings("a" * 5000 + "b" + "a" * 5000), tokenexp="a+b")
    return found


@cases("MurmurHash3", domain=DOMAIN)
def murmur_hash3(request: Request) -> list[Case]:
    x = request.random("T1", (3, 37))
    if request.dtype("T1").kind == "O":
        x = _strings("", "a", "ab", "abc", "abcd", "abcdefghi", "a\0b", "犬", "x" * 100)
    signed = {"T2": "tensor(int32)"}
    positive = {} if request.varied != "T2" else {"T2": request.type("T2")}
    if positive == signed:
        return [Case([x], {"positive": 0}, oracle="onnxruntime", name="negative")]
    unsigned = {"T2": "tensor(uint32)"}
    return [
        Case([x], oracle="onnxruntime", types=unsigned),
        Case([x], {"seed": 2**31 + 5}, oracle="onnxruntime", types=unsigned, name="seed"),
        Case([x], {"positive": 0}, oracle="onnxruntime", types=signed, name="negative"),
        Case([x.ravel()[:0]], oracle="onnxruntime", types=unsigned, name="empty"),
    ]


@cases("NGramRepeatBlock", domain=DOMAIN)
def ngram_repeat_block(request: Request) -> list[Case]:
    found = []

    def add(name: str, ids: list[list[int]], size: int) -> None:
        given = np.array(ids, np.int64)
        scores = request.random("T", (len(ids), 8))
        attributes = {"ngram_size": size}
        found.append(Case([given, scores], attributes, oracle="onnxruntime", name=name))

    for size in range(1, 8):
        add(f"size {size}", [[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]], size)
    add("overlapping", [[1, 1, 1]], 2)
    add("others out of range", [[-1, 2, 1, 99, 2]], 2)
    add("no tokens", [[], []], 2)
    return found


@cases("BifurcationDetector", domain=DOMAIN)
def bifurcation_detector(request: Request) -> list[Case]:
    found = []

    def add(name: str, source, current, previous, predicted=None, **attributes) -> None:
        inputs = [np.array(value, np.int64) for value in (source, current, previous)]
        if predicted is not None:
            inputs.append(np.array(predicted, np.int64))
        found.append(Case(inputs, attributes, oracle="onnxruntime", name=name))

    source = [1, 5, 3, 4, 2]
    add("all right", source, [2], [0], [*source, 9])
    add("right up to the last", source, [2], [0], [1, 5, 3, 4, 7, 9])
    add("wrong", source, [2], [0], [8, 5, 3, 4, 7, 9])
    add("match", source, [2], [0], [1, 3, 3, 4, 7, 9])
    add("from the third", source, [2], [2], [3, 4, 7, 9])
    add("from the end", source, [2], [5], [9])
    add("scalar", source, [2], 0, [1, 5, 3, 4, 7, 9])
    add("no prediction", source, [3], [0])
    add("two of one, one of two", [*source, 3], [5, 3], [0])
    add("two of one, none of two", [*source, 3], [7, 3], [0])
    add("overlapping", [1, 1, 1], [1, 1], [0])
    add("no tokens", [1], [], [0])
    add("no source", [], [1, 1], [0])
    twice = [1, 5, 3, 4, 5, 3]
    add("longest", twice, [1, 5, 3], [0], max_ngram_size=3)
    add("too short", twice, [1, 5, 3], [0], max_ngram_size=2)
    add("shortest", [*source, 3], [1, 5, 3], [0], min_ngram_size=2)
    add("too long", source, [3], [0], min_ngram_size=2)
    return found
