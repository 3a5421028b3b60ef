"""Operators on strings, Unique, and pictures."""

import io

import numpy as np
from PIL import Image

from tests.versions.case import Case, Request, cases


def _strings(*words) -> np.ndarray:
    return np.array(words, object)


@cases("StringConcat")
def string_concat(request: Request) -> list[Case]:
    x, y = request.random("T", (2, 3)), request.random("T", (3,))
    return [
        Case([x, y]),
        Case([x, np.array("é", object)], name="scalar"),
        Case([x[:0], y], name="empty"),
        Case([x, np.array(["a\0b"], object)], expected=[x + "a\0b"], name="zero byte"),
    ]


SPLIT = ("a b  c ", " a b", "", "   ", "a\u2003b\xa0c", "\x1cx y", "1,2,,3", ",", "äöü ß", ",,,a")


@cases("StringSplit")
def string_split(request: Request) -> list[Case]:
    def expected(x: np.ndarray, delimiter: str = "", maxsplit: int = -1) -> list[np.ndarray]:
        words = [text.split(delimiter or None, maxsplit) for text in x.ravel()]
        most = max(map(len, words), default=0)
        table = np.empty((len(words), most), object)
        for row, found in enumerate(words):
            table[row] = found + [""] * (most - len(found))
        counts = np.array(list(map(len, words)), np.int64)
        return [table.reshape(*x.shape, most), counts.reshape(x.shape)]

    x = _strings(*SPLIT).reshape(2, 5)
    made = [
        Case([x], attributes, expected=expected(x, **attributes), name=str(attributes))
        for attributes in (
            {},
            {"delimiter": ""},
            {"delimiter": ",", "maxsplit": 0},
            {"maxsplit": 1},
            {"maxsplit": 0},
            {"delimiter": ","},
            {"delimiter": ",,", "maxsplit": 2},
            {"delimiter": " ", "maxsplit": 1},
        )
    ]
    for name, value in {
        "empty": x[:0],
        "no words": _strings("", " "),
        "scalar": np.array("a b", object),
    }.items():
        made.append(Case([value], expected=expected(value), name=name))
    return made


@cases("RegexFullMatch")
def regex_full_match(request: Request) -> list[Case]:
    mails = _strings("www.example.com", "a@example.com", "", "b@x.org\n").reshape(2, 2)
    return [
        Case([mails], {"pattern": r"[\w.]+@\w+\.(com|org)"}),
        Case(
            [_strings("犬", "ab", "grün", "")],
            {"pattern": r"\p{L}{1,3}"},
            expected=[np.array([True, True, False, False])],
            name="Unicode classes",
        ),
        Case([_strings("a\nb", "ab")], {"pattern": "(?s)a.*b"}, name="lines"),
        Case([mails[:0]], {"pattern": ""}, name="empty"),
    ]


@cases("StringNormalizer")
def string_normalizer(request: Request) -> list[Case]:
    note = (
        "stop words are whole elements and accents stay, as the text says; the reference evaluator "
        "drops words within elements, empty elements, and accents"
    )
    days = _strings("monday", "Tuesday", "été", "", "MONDAY", "two words")

    def case(x: np.ndarray, expected: np.ndarray, name: str = "", **attributes) -> Case:
        return Case([x], attributes, expected=[expected], name=name, note=note)

    return [
        case(days, days, "nothing to do"),
        case(
            days,
            _strings("monday", "tuesday", "été", "", "monday", "two words"),
            "lower",
            case_change_action="LOWER",
        ),
        case(
            days,
            _strings("TUESDAY", "ÉTÉ", "", "TWO WORDS"),
            "stop words in any case",
            case_change_action="UPPER",
            stopwords=["Monday", "two"],
        ),
        case(
            days,
            _strings("Tuesday", "été", "", "MONDAY", "two words"),
            "stop words in one case",
            stopwords=["monday", "tuesday"],
            is_case_sensitive=1,
        ),
        case(days[None, :2], _strings("Tuesday")[None], "matrix", stopwords=["MONDAY"]),
        case(days[:1], _strings(""), "nothing left", stopwords=["Monday"]),
        case(days[None, :1], _strings("")[None], "nothing left of a matrix", stopwords=["monday"]),
        case(days[:0], _strings(""), "empty"),
        case(
            _strings("Straße", "ﬁn", "ΟΔΟΣ"),
            _strings("STRASSE", "FIN", "ΟΔΟΣ"),
            "long letters",
            case_change_action="UPPER",
            locale="de_DE",
        ),
        case(
            _strings("ΟΔΟΣ", "İ", "STRASSE"),
            _strings("οδος", "i̇"),
            "long letters, lower",
            case_change_action="LOWER",
            stopwords=["straße"],
        ),
        case(
            _strings("Iİ", "x"),
            _strings("ıi", "x"),
            "Turkish",
            case_change_action="LOWER",
            locale="tr_TR.UTF-8",
        ),
        case(
            _strings("iı"),
            _strings("İI"),
            "Turkish, upper",
            case_change_action="UPPER",
            locale="tr",
        ),
    ]


@cases("TfIdfVectorizer")
def tf_idf_vectorizer(request: Request) -> list[Case]:
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 5, 6, 7]  # 4 of one token, 3 of two, 1 of three
    attributes = {
        "ngram_counts": [0, 4, 10],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 7, 6],
        "max_skip_count": 0,
        "min_gram_length": 1,
        "max_gram_length": 3,
        "mode": "TF",
    }
    x = np.array([[1, 5, 6, 7, 8, 3, 3, 5], [5, 4, 6, 6, 5, 7, 7, 8]])
    if request.type("T") == "tensor(string)":
        x, attributes["pool_strings"] = x.astype(str).astype(object), [str(i) for i in pool]
    else:
        x, attributes["pool_int64s"] = x.astype(request.dtype("T")), pool
    weights = {"weights": [0.5, 2, -1, 0.25, 3, 4, 5, 6]}
    options = {
        "": {},
        "skips": {"max_skip_count": 3},
        "pairs": {"max_skip_count": 7, "min_gram_length": 2, "max_gram_length": 2},
        "single": {"max_skip_count": 9, "max_gram_length": 1},
        "idf": {"mode": "IDF", **weights},
        "idf without weights": {"mode": "IDF"},
        "tfidf": {"mode": "TFIDF", "max_skip_count": 2, **weights},
        "tfidf without weights": {"mode": "TFIDF"},
        "coordinates shared": {"ngram_indexes": [0, 0, 1, 1, 2, 2, 3, 9]},
    }
    note = (
        "a weight belongs to an n-gram of the pool, as the text and ONNX Runtime have it; the "
        "reference evaluator takes it for that of a coordinate"
    )
    made = [
        Case(
            [x],
            attributes | option,
            name=name,
            oracle="onnxruntime" if "weights" in option else "",
            note=note if "weights" in option else "",
        )
        for name, option in options.items()
    ]
    made.append(Case([x[1]], attributes, name="vector"))
    made.append(Case([x[0, :0]], attributes, name="empty"))
    return made


@cases("Unique")
def unique(request: Request) -> list[Case]:
    x = request.random("T", (4, 5, 2))
    x[:, 3], x[2] = x[:, 1], x[0]
    kind = request.dtype("T").kind

    # NumPy orders no slices of objects; tuples of Python's values it is.
    def expected(x: np.ndarray, axis: int | None = None, sorted: int = 1) -> list[np.ndarray]:
        slices = list(x.ravel()) if axis is None else list(np.moveaxis(x, axis, 0))
        keys = [tuple(np.ravel(part).tolist()) for part in slices]
        if kind == "c":
            keys = [tuple((value.real, value.imag) for value in key) for key in keys]
        found = list(dict.fromkeys(keys))
        if sorted:
            found.sort()
        indices = [keys.index(key) for key in found]
        taken = np.take(x.ravel() if axis is None else x, indices, axis or 0)
        inverse = [found.index(key) for key in keys]
        counts = [keys.count(key) for key in found]
        return [taken, *(np.array(values, np.int64) for values in (indices, inverse, counts))]

    made = []
    for attributes in ({}, {"axis": 1}, {"axis": 0}, {"axis": -1}):
        for order in ({}, {"sorted": 0}):
            given = attributes | order
            made.append(Case([x], given, expected=expected(x, **given), name=str(given)))
    made.append(Case([x], outputs=1, expected=expected(x)[:1], name="values"))
    made.append(Case([x[:0]], expected=expected(x[:0]), name="empty"))
    made.append(
        Case(
            [x[0, 0, 0].reshape(()) if kind != "O" else x[0, 0, :1]],
            name="one",
            expected=expected(x[0, 0, :1]),
        )
    )
    if kind == "f":
        nans = np.array([np.nan, 1, -0.0, np.nan, 0.0, -np.inf, np.inf]).astype(x.dtype)
        made.append(
            Case(
                [nans],
                name="NaN and zeros",
                expected=[
                    nans[[5, 2, 1, 6, 0]],
                    np.array([5, 2, 1, 6, 0]),
                    np.array([4, 2, 1, 4, 1, 0, 3]),
                    np.array([1, 2, 1, 1, 2]),
                ],
            )
        )
    return made


def _picture() -> Image.Image:
    y, x = np.mgrid[0:23, 0:37]
    noise = np.random.default_rng(0).integers(0, 30, (23, 37, 3))
    return Image.fromarray((np.stack([x * 6, y * 9, x * y % 200], -1) + noise).astype(np.uint8))


def _encoded(picture: Image.Image, format_: str, **options) -> np.ndarray:
    file = io.BytesIO()
    picture.save(file, format_, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


# Expected is what Pillow decodes, which also writes the files.
@cases("ImageDecoder")
def image_decoder(request: Request) -> list[Case]:
    picture = _picture()
    note = "what cannot be decoded is an error; the text would have it become an empty matrix"
    files = {
        "JPEG": [
            ("JPEG", {}),
            ("JPEG", {"progressive": True, "quality": 90}),
            ("JPEG", {"subsampling": 0}),
            ("JPEG", {"subsampling": 1}),
        ],
        "PNG": [("PNG", {})],
        "BMP": [("BMP", {})],
        "PNM": [("PPM", {})],
        "TIFF": [("TIFF", {"compression": kind}) for kind in ("raw", "tiff_lzw", "jpeg")],
        "WebP": [("WEBP", {}), ("WEBP", {"lossless": True})],
        "JPEG 2000": [
            ("JPEG2000", {}),
            ("JPEG2000", {"irreversible": True}),
            ("JPEG2000", {"no_jp2": True}),
        ],
    }
    made = []
    for name, kinds in files.items():
        for format_, options in kinds:
            for mode in ("RGB", "L", "1", "P", "RGBA", "CMYK", "YCbCr"):
                # libtiff and Pillow round YCbCr differently.
                if format_ == "TIFF" and mode == "YCbCr":
                    continue
                if options.get("compression") == "jpeg" and mode in ("1", "P"):
                    continue
                try:
                    data = _encoded(picture.convert(mode), format_, **options)
                except OSError:  # the format lacks the mode
                    continue
                decoded = Image.open(io.BytesIO(data.tobytes()))
                colored = decoded.convert("RGB")
                rgb, gray = np.array(colored), np.array(colored.convert("L"))
                for pixel_format, right in (
                    ("RGB", rgb),
                    ("BGR", rgb[..., ::-1]),
                    ("Grayscale", gray[..., None]),
                ):
                    made.append(
                        Case(
                            [data],
                            {"pixel_format": pixel_format},
                            expected=[right],
                            name=f"{name} {mode} {options} {pixel_format}",
                            note="" if made else note,
                        )
                    )
    return made
