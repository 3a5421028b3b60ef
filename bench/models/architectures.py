"""Networks of many architectures at their usual sizes, with fewer layers where all are alike."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn

from bench.models import cases
from bench.models.export import enliven, seeded

VOCABULARY = {"vocab_size": 5000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
DECODER = {
    **VOCABULARY,
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "use_cache": False,
}
GROUPED = {**DECODER, "num_key_value_heads": 2, "head_dim": 64}

#: By name: the class of `transformers`, its part that is taken ("" for all), the configuration's
#: class and what it is made with.
NETWORKS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    # Pictures
    "beit": (
        "BeitModel",
        "",
        "BeitConfig",
        {"num_hidden_layers": 3, "use_relative_position_bias": True},
    ),
    "bit": ("BitModel", "", "BitConfig", {"depths": [2, 2, 4, 2]}),
    "convnext_v2": ("ConvNextV2Model", "", "ConvNextV2Config", {"depths": [2, 2, 4, 2]}),
    "cvt": ("CvtModel", "", "CvtConfig", {"depth": [1, 2, 4]}),
    "detr": (
        "DetrModel",
        "",
        "DetrConfig",
        {
            "backbone_config": hf.ResNetConfig(
                depths=[2, 2, 2, 2],
                layer_type="basic",
                hidden_sizes=[64, 128, 256, 512],
                embedding_size=64,
                out_features=["stage4"],
            ),
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "encoder_layers": 3,
            "decoder_layers": 3,
        },
    ),
    "dinov2": (
        "Dinov2Model",
        "",
        "Dinov2Config",
        {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 4, "image_size": 224},
    ),
    "dpt": (
        "DPTForDepthEstimation",
        "",
        "DPTConfig",
        {
            **SMALL,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "image_size": 224,
            "neck_hidden_sizes": [96, 192, 384, 384],
        },
    ),
    "efficientnet_b2": (
        "EfficientNetModel",
        "",
        "EfficientNetConfig",
        {
            "width_coefficient": 1.1,
            "depth_coefficient": 1.2,
            "image_size": 260,
            "hidden_dim": 1408,
        },
    ),
    "focalnet": ("FocalNetModel", "", "FocalNetConfig", {"depths": [2, 2, 2, 2]}),
    "hiera": ("HieraModel", "", "HieraConfig", {"depths": [1, 2, 4, 2]}),
    "levit": ("LevitModel", "", "LevitConfig", {}),
    "mobilenet_v1": ("MobileNetV1Model", "", "MobileNetV1Config", {}),
    "mobile_vit": ("MobileViTModel", "", "MobileViTConfig", {"image_size": 256}),
    "mobile_vit_v2": ("MobileViTV2Model", "", "MobileViTV2Config", {"image_size": 256}),
    "poolformer": ("PoolFormerModel", "", "PoolFormerConfig", {}),
    "pvt": ("PvtModel", "", "PvtConfig", {}),
    "pvt_v2": ("PvtV2Model", "", "PvtV2Config", {}),
    "regnet_x": ("RegNetModel", "", "RegNetConfig", {"layer_type": "x"}),
    "rt_detr": ("RTDetrForObjectDetection", "", "RTDetrConfig", {"anchor_image_size": None}),
    "sam_vision": (
        "SamVisionModel",
        "",
        "SamVisionConfig",
        {
            "hidden_size": 384,
            "num_attention_heads": 6,
            "num_hidden_layers": 4,
            "image_size": 512,
            "global_attn_indexes": [3],
        },
    ),
    "segformer": ("SegformerForSemanticSegmentation", "", "SegformerConfig", {}),
    "siglip": ("SiglipVisionModel", "", "SiglipVisionConfig", {"num_hidden_layers": 3}),
    "superpoint": ("SuperPointForKeypointDetection", "encoder", "SuperPointConfig", {}),
    "swin": ("SwinModel", "", "SwinConfig", {"depths": [2, 2, 2, 2]}),
    "swin_v2": (
        "Swinv2Model",
        "",
        "Swinv2Config",
        {"image_size": 256, "window_size": 8, "depths": [2, 2, 2, 2]},
    ),
    "swin2_super_resolution": (
        "Swin2SRForImageSuperResolution",
        "",
        "Swin2SRConfig",
        {"embed_dim": 60, "depths": [2, 2], "num_heads": [6, 6], "upscale": 2},
    ),
    "upernet": (
        "UperNetForSemanticSegmentation",
        "",
        "UperNetConfig",
        {
            "backbone_config": hf.ConvNextConfig(
                depths=[1, 1, 2, 1],
                hidden_sizes=[64, 128, 256, 512],
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            "hidden_size": 128,
            "auxiliary_in_channels": 256,
        },
    ),
    "vit_det": (
        "VitDetModel",
        "",
        "VitDetConfig",
        {
            "hidden_size": 384,
            "num_attention_heads": 6,
            "num_hidden_layers": 4,
            "window_size": 14,
            "window_block_indices": [0, 2],
            "use_relative_position_embeddings": True,
        },
    ),
    "yolos": (
        "YolosForObjectDetection",
        "",
        "YolosConfig",
        {
            "hidden_size": 192,
            "num_attention_heads": 3,
            "intermediate_size": 768,
            "num_hidden_layers": 4,
            "image_size": [256, 320],
        },
    ),
    # Sound and series
    "ast": ("ASTModel", "", "ASTConfig", {"num_hidden_layers": 3}),
    "clap_audio": (
        "ClapAudioModel",
        "",
        "ClapAudioConfig",
        {"depths": [2, 2, 2, 2], "enable_fusion": False},
    ),
    "dac_decoder": ("DacModel", "decoder", "DacConfig", {}),
    "encodec_decoder": ("EncodecModel", "decoder", "EncodecConfig", {}),
    "hifi_gan": ("SpeechT5HifiGan", "", "SpeechT5HifiGanConfig", {}),
    "patchtst": (
        "PatchTSTForPrediction",
        "",
        "PatchTSTConfig",
        {
            "num_input_channels": 7,
            "context_length": 512,
            "patch_length": 12,
            "stride": 12,
            "prediction_length": 96,
        },
    ),
    "wav2vec2": ("Wav2Vec2Model", "", "Wav2Vec2Config", {"num_hidden_layers": 3}),
    "wav2vec2_conformer": (
        "Wav2Vec2ConformerModel",
        "",
        "Wav2Vec2ConformerConfig",
        {**SMALL, "num_hidden_layers": 2},
    ),
    "whisper_encoder": (
        "WhisperModel",
        "encoder",
        "WhisperConfig",
        {
            "d_model": 384,
            "encoder_layers": 4,
            "encoder_attention_heads": 6,
            "encoder_ffn_dim": 1536,
            "decoder_layers": 1,
        },
    ),
    # Texts
    "albert": (
        "AlbertModel",
        "",
        "AlbertConfig",
        {
            **VOCABULARY,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "num_hidden_layers": 3,
        },
    ),
    "bloom": (
        "BloomForCausalLM",
        "",
        "BloomConfig",
        {**VOCABULARY, "hidden_size": 512, "n_layer": 4, "n_head": 8, "use_cache": False},
    ),
    "clip_text": ("CLIPTextModel", "", "CLIPTextConfig", {**VOCABULARY, "num_hidden_layers": 4}),
    "deberta_v2": (
        "DebertaV2Model",
        "",
        "DebertaV2Config",
        {
            **VOCABULARY,
            **SMALL,
            "num_hidden_layers": 3,
            "relative_attention": True,
            "pos_att_type": "p2c|c2p",
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
    ),
    "fnet": ("FNetModel", "", "FNetConfig", {**VOCABULARY, "num_hidden_layers": 3}),
    "gemma2": ("Gemma2ForCausalLM", "", "Gemma2Config", GROUPED),
    "layoutlm": ("LayoutLMModel", "", "LayoutLMConfig", {**VOCABULARY, "num_hidden_layers": 3}),
    "llama": ("LlamaForCausalLM", "", "LlamaConfig", GROUPED),
    "longformer": (
        "LongformerModel",
        "",
        "LongformerConfig",
        {
            **VOCABULARY,
            **SMALL,
            "num_hidden_layers": 2,
            "attention_window": 128,
            "max_position_embeddings": 600,
        },
    ),
    "mamba": (
        "MambaForCausalLM",
        "",
        "MambaConfig",
        {**VOCABULARY, "hidden_size": 256, "num_hidden_layers": 2, "use_cache": False},
    ),
    "modern_bert": (
        "ModernBertModel",
        "",
        "ModernBertConfig",
        {
            **VOCABULARY,
            **SMALL,
            "intermediate_size": 576,
            "num_hidden_layers": 4,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
    "mpnet": ("MPNetModel", "", "MPNetConfig", {**VOCABULARY, "num_hidden_layers": 3}),
    "opt": (
        "OPTForCausalLM",
        "",
        "OPTConfig",
        {
            **VOCABULARY,
            "hidden_size": 512,
            "word_embed_proj_dim": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "ffn_dim": 2048,
            "use_cache": False,
        },
    ),
    "perceiver": (
        "PerceiverModel",
        "",
        "PerceiverConfig",
        {"d_latents": 512, "num_latents": 128, "d_model": 256, "num_self_attends_per_block": 3},
    ),
    "phi": ("PhiForCausalLM", "", "PhiConfig", DECODER),
    "qwen3": ("Qwen3ForCausalLM", "", "Qwen3Config", GROUPED),
    "roformer": (
        "RoFormerModel",
        "",
        "RoFormerConfig",
        {**VOCABULARY, **SMALL, "num_hidden_layers": 3},
    ),
    "squeezebert": (
        "SqueezeBertModel",
        "",
        "SqueezeBertConfig",
        {**VOCABULARY, "num_hidden_layers": 3},
    ),
    "t5_encoder": ("T5EncoderModel", "", "T5Config", {**VOCABULARY, "num_layers": 4}),
    "xlnet": (
        "XLNetModel",
        "",
        "XLNetConfig",
        {**VOCABULARY, "n_layer": 3, "d_model": 384, "n_head": 6, "d_inner": 1536},
    ),
}
#: What only the exporter by TorchScript writes.
SCRIPTED = frozenset(
    "beit encodec_decoder longformer sam_vision swin t5_encoder wav2vec2_conformer xlnet".split()
)


class Tensors(nn.Module):
    """A network called by the names of its inputs; of its results two tensors at most."""

    def __init__(self, network: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found: list[torch.Tensor] = []

        def collect(value: object) -> None:
            if isinstance(value, torch.Tensor):
                found.append(value)
            elif isinstance(value, hf.utils.ModelOutput):
                collect(value.to_tuple())
            elif isinstance(value, tuple | list):
                for element in value:
                    collect(element)

        collect(self.network(**dict(zip(self.names, inputs, strict=True))))
        return tuple(found[:2])


def write(name: str, path: Path) -> None:
    """Export a network of the survey, for the sizes of its inputs."""
    network, part, config, settings = NETWORKS[name]
    feeds = next(iter(cases(name).values()))

    def make() -> nn.Module:
        module = getattr(hf, network)(getattr(hf, config)(**settings))
        return Tensors(getattr(module, part) if part else module, list(feeds))

    sample = tuple(torch.from_numpy(array) for array in feeds.values())
    # They say at length what else might be installed, and what each traced branch assumes.
    for logger in ("torch.onnx._internal.exporter._registration", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # Two pictures: a map of one pixel has no statistics in a batch of one.
        module = enliven(seeded(make), *(torch.cat([each, each.flip(-1)]) for each in sample))
        options: dict[str, Any] = {"opset_version": 17, "dynamo": False}
        if name not in SCRIPTED:
            options = {
                "opset_version": 18,
                "dynamo": True,
                "verbose": False,
                "external_data": False,
            }
        torch.onnx.export(module, sample, str(path), input_names=list(feeds), **options)
