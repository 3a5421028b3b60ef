"""The list of models: where each comes from, and the inputs it is run on."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.models import Model

BERT_VOCABULARY = 30522
GPT2_VOCABULARY = 50257
GPT2_LAYERS, GPT2_HEADS, GPT2_HEAD_SIZE = 12, 12, 64
LSTM_FEATURES = 128
TREE_FEATURES = 30
LIGHT_MODELS = {  # name in the onnx package: name of its input
    "bvlc_alexnet": "data_0",
    "densenet121": "data_0",
    "inception_v1": "data_0",
    "inception_v2": "data_0",
    "resnet50": "gpu_0/data_0",
    "shufflenet": "gpu_0/data_0",
    "squeezenet": "data_0",
    "vgg19": "data_0",
    "zfnet512": "gpu_0/data_0",
}

Arrays = dict[str, np.ndarray]


# ---- where models come from ----------------------------------------------------------------------


def exported(module: str, function: str, *before: str) -> Callable[[Path], None]:
    """A writer that calls `function` of `bench.models.<module>`, imported when it is called, with
    the path behind the arguments `before`."""

    def write(path: Path) -> None:
        getattr(importlib.import_module(f"bench.models.{module}"), function)(*before, path)

    return write


def packaged(package: str, inside: str) -> Callable[[Path], None]:
    """A writer that copies a file of an installed package, without importing the package."""

    def write(path: Path) -> None:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"package {package} is not installed", name=package)
        shutil.copyfile(Path(spec.origin).parent / inside, path)

    return write


# ---- what they are run on ------------------------------------------------------------------------


def pixels(
    rng: np.random.Generator, batch: int, height: int = 224, width: int = 224, name: str = "x"
) -> Arrays:
    """A batch of pictures as networks see them after normalisation: mean 0, deviation 1."""
    return {name: rng.standard_normal((batch, 3, height, width), dtype=np.float32)}


def text_lines(rng: np.random.Generator, batch: int, height: int, width: int) -> Arrays:
    """Pictures in [-1, 1] of light paper with rows of dark strokes, 24 pixels high, and noise."""
    strokes = rng.random((batch, 1, height // 4, width // 4)) < 0.4
    strokes = strokes.repeat(4, axis=2).repeat(4, axis=3)
    in_line = (np.arange(height) + 12) // 24 % 2 == 1
    in_word = np.arange(width) % 128 < 112
    paper = np.where(strokes & in_line[:, None] & in_word, -0.8, 0.9)
    noise = rng.standard_normal((batch, 3, height, width)) * 0.05
    return {"x": np.clip(paper + noise, -1, 1).astype(np.float32)}


def masked_tokens(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    """Random tokens; in a batch all texts but the first are shorter, with their end masked out."""
    lengths = np.maximum(1, length - 3 * np.arange(batch))
    mask = np.arange(length)[None, :] < lengths[:, None]
    return {
        "input_ids": rng.integers(0, BERT_VOCABULARY, (batch, length)),
        "attention_mask": mask.astype(np.int64),
        "token_type_ids": rng.integers(0, 2, (batch, length)),
    }


def tokens(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    """Random tokens."""
    return {"input_ids": rng.integers(0, GPT2_VOCABULARY, (batch, length))}


def decoding(rng: np.random.Generator, batch: int, length: int, past: int) -> Arrays:
    """Random tokens, and keys and values of those before them."""
    shape = (batch, GPT2_HEADS, past, GPT2_HEAD_SIZE)
    result: Arrays = {"input_ids": rng.integers(0, GPT2_VOCABULARY, (batch, length))}
    for layer in range(GPT2_LAYERS):
        for kind in ("key", "value"):
            result[f"past_{kind}_{layer}"] = rng.standard_normal(shape, dtype=np.float32)
    return result


def features(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    """Sequences of feature vectors."""
    return {"x": rng.standard_normal((batch, length, LSTM_FEATURES), dtype=np.float32)}


def signed_matrix(rng: np.random.Generator, rows: int, columns: int, positive: int) -> Arrays:
    """A matrix whose sum is positive or negative, as asked."""
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    return {"x": x + np.float32(2 if positive else -2)}


def voice(rng: np.random.Generator, batch: int, rate: int) -> Arrays:
    """A window of sound (at 16 kHz 64 samples of context, 512 new ones) and a state on its way."""
    samples = 576 * rate // 16000
    seconds = np.arange(samples) / rate
    tone = np.sin(2 * np.pi * rng.uniform(90, 400, (batch, 1)) * seconds)
    sound = 0.3 * tone + 0.05 * rng.standard_normal((batch, samples))
    return {
        "input": sound.astype(np.float32),
        "state": rng.uniform(-0.5, 0.5, (2, batch, 128)).astype(np.float32),
        "sr": np.array(rate, np.int64),
    }


def numbers(rng: np.random.Generator) -> Arrays:
    """Two tensors of one element."""
    return {name: rng.standard_normal(1, dtype=np.float32) for name in ("x", "y")}


def vector(rng: np.random.Generator, length: int) -> Arrays:
    """A vector."""
    return {"x": rng.standard_normal(length, dtype=np.float32)}


def rows_of_features(rng: np.random.Generator, rows: int) -> Arrays:
    """Rows of features for ensembles of trees."""
    return {"x": rng.standard_normal((rows, TREE_FEATURES), dtype=np.float32)}


def recurrence(rng: np.random.Generator, steps: int) -> Arrays:
    """Decay, drive and readout of a state space of 16 channels and 16 states at each step."""
    return {
        "decay": rng.uniform(0.8, 0.99, (steps, 16, 16)).astype(np.float32),
        "drive": rng.standard_normal((steps, 16, 16), dtype=np.float32),
        "readout": rng.standard_normal((steps, 16, 1), dtype=np.float32),
        "h_first": rng.standard_normal((16, 16), dtype=np.float32),
    }


def _ocr(file: str) -> Callable[[Path], None]:
    return packaged("rapidocr_onnxruntime", f"models/{file}")


MODELS = (
    Model("resnet50", exported("vision", "write_resnet50"), pixels),
    Model(
        "resnet50_int8",
        exported("quantized", "write_resnet50_int8"),
        pixels,
        quantized=True,
    ),
    Model("mobilenet_v2", exported("vision", "write_mobilenet_v2"), pixels),
    Model(
        "mobilenet_v2_qoperator",
        exported("quantized", "write_mobilenet_v2_qoperator"),
        pixels,
        quantized=True,
    ),
    Model("efficientnet_b0", exported("vision", "write_efficientnet_b0"), pixels),
    Model("convnext_t", exported("vision", "write_convnext_t"), pixels),
    Model("regnet_y_400mf", exported("vision", "write_regnet_y_400mf"), pixels),
    Model("vit_s", exported("vision", "write_vit_s"), pixels),
    Model(
        "unet",
        exported("vision", "write_unet"),
        pixels,
        ((1, 256, 256), (3, 160, 96), (1, 64, 208)),
    ),
    Model(
        "bert_base",
        exported("language", "write_bert"),
        masked_tokens,
        ((1, 128), (3, 32), (1, 17)),
    ),
    Model(
        "bert_dynamic_int8",
        exported("quantized", "write_bert_dynamic_int8"),
        masked_tokens,
        ((1, 128), (3, 32)),
        quantized=True,
    ),
    Model("gpt2", exported("language", "write_gpt2"), tokens, ((1, 64), (3, 16), (1, 5))),
    Model(
        "gpt2_decode",
        exported("language", "write_gpt2_decode"),
        decoding,
        ((1, 1, 128), (3, 1, 16), (1, 5, 7)),
    ),
    Model("lstm", exported("small", "write_lstm"), features, ((1, 50), (3, 20), (1, 7))),
    Model("gru", exported("small", "write_gru"), features, ((1, 100), (3, 20), (1, 7))),
    *(
        Model(f"{twin}_{kind}", exported("half", f"write_{twin}_{kind}"), *how, twin=twin)
        for twin, kind, *how in (
            ("resnet50", "f16", pixels),
            ("mobilenet_v2", "f16", pixels),
            ("bert_base", "f16", masked_tokens, ((1, 128), (3, 32))),
            ("bert_base", "bf16", masked_tokens, ((1, 128), (3, 32))),
            ("lstm", "f16", features, ((1, 50), (3, 20))),
        )
    ),
    Model(
        "branch",
        exported("small", "write_branch"),
        signed_matrix,
        ((1, 1000, 1), (3, 7, 0), (3, 7, 1)),
    ),
    Model(
        "two_conv",
        exported("small", "write_two_convolutions"),
        pixels,
        ((1, 128, 128), (3, 33, 47)),
    ),
    Model("one_add", exported("overhead", "write_one_add"), numbers, ((),)),
    Model(
        "mamba_loop",
        exported("overhead", "write_mamba_loop"),
        recurrence,
        ((1000,), (7,), (0,)),
    ),
    Model(
        "mamba_scan",
        exported("overhead", "write_mamba_scan"),
        recurrence,
        ((1000,), (7,)),
        benchmarked=False,
    ),
    Model(
        "mamba_unrolled",
        exported("overhead", "write_mamba_unrolled"),
        recurrence,
        ((1000,),),
        benchmarked=False,
    ),
    Model("nested_if", exported("overhead", "write_nested_if"), vector, ((1000,), (3,))),
    *(
        Model(f"{name}_{rows}", exported("trees", f"write_{name}"), rows_of_features, sizes)
        for name in ("forest", "forest_classes", "boosted", "boosted_leaves")
        for rows, sizes in ((1, ((1,), (3,))), (100, ((100,), (57,))), (20_000, ((20_000,),)))
    ),
    Model(
        "ocr_detection",
        _ocr("ch_PP-OCRv4_det_infer.onnx"),
        text_lines,
        ((1, 736, 736), (3, 192, 320)),
    ),
    Model(
        "ocr_direction",
        _ocr("ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        text_lines,
        ((1, 48, 192), (3, 48, 192)),
    ),
    Model(
        "ocr_recognition",
        _ocr("ch_PP-OCRv4_rec_infer.onnx"),
        text_lines,
        ((1, 48, 320), (3, 48, 640)),
    ),
    Model(
        "silero_vad",
        packaged("silero_vad", "data/silero_vad.onnx"),
        voice,
        ((1, 16000), (3, 16000), (1, 8000), (3, 8000)),
    ),
    *(
        Model(
            f"light_{name}",
            packaged("onnx", f"backend/test/data/light/light_{name}.onnx"),
            partial(pixels, name=tensor),
            ((1,),),
        )
        for name, tensor in LIGHT_MODELS.items()
    ),
    *(
        Model(
            f"random_{name}",
            exported("light", f"write_{name}"),
            partial(pixels, name=LIGHT_MODELS[name]),
            ((1,),),
            benchmarked=False,
        )
        for name in ("densenet121", "inception_v1", "shufflenet", "squeezenet")
    ),
)
