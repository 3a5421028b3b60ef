"""Networks of many architectures at their usual sizes, with fewer layers where all are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn

from bench.models import cases
from bench.models.export import enliven, export, seeded

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

#: By name: the class of `transformers`, and what its configuration is made with.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    # Pictures
    "beit": (
        "BeitModel",
        {"num_hidden_layers": 3, "use_relative_position_bias": True},
    ),
    "bit": ("BitModel", {"depths": [2, 2, 4, 2]}),
    "convnext_v2": ("ConvNextV2Model", {"depths": [2, 2, 4, 2]}),
    "cvt": ("CvtModel", {"depth": [1, 2, 4]}),
    "detr": (
        "DetrModel",
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
        {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 4, "image_size": 224},
    ),
    "dpt": (
        "DPTForDepthEstimation",
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
        {
            "width_coefficient": 1.1,
            "depth_coefficient": 1.2,
            "image_size": 260,
            "hidden_dim": 1408,
        },
    ),
    "focalnet": ("FocalNetModel", {"depths": [2, 2, 2, 2]}),
    "hiera": ("HieraModel", {"depths": [1, 2, 4, 2]}),
    "levit": ("LevitModel", {}),
    "mobilenet_v1": ("MobileNetV1Model", {}),
    "mobile_vit": ("MobileViTModel", {"image_size": 256}),
    "mobile_vit_v2": ("MobileViTV2Model", {"image_size": 256}),
    "poolformer": ("PoolFormerModel", {}),
    "pvt": ("PvtModel", {}),
    "pvt_v2": ("PvtV2Model", {}),
    "regnet_x": ("RegNetModel", {"layer_type": "x"}),
    "rt_detr": ("RTDetrForObjectDetection", {"anchor_image_size": None}),
    "sam_vision": (
        "SamVisionModel",
        {
            "hidden_size": 384,
            "num_attention_heads": 6,
            "num_hidden_layers": 4,
            "image_size": 512,
            "global_attn_indexes": [3],
        },
    ),
    "segformer": ("SegformerForSemanticSegmentation", {}),
    "siglip": ("SiglipVisionModel", {"num_hidden_layers": 3}),
    "superpoint": ("SuperPointForKeypointDetection", {}),
    "swin": ("SwinModel", {"depths": [2, 2, 2, 2]}),
    "swin_v2": (
        "Swinv2Model",
        {"image_size": 256, "window_size": 8, "depths": [2, 2, 2, 2]},
    ),
    "swin2_super_resolution": (
        "Swin2SRForImageSuperResolution",
        {"embed_dim": 60, "depths": [2, 2], "num_heads": [6, 6], "upscale": 2},
    ),
    "upernet": (
        "UperNetForSemanticSegmentation",
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
        {
            "hidden_size": 192,
            "num_attention_heads": 3,
            "intermediate_size": 768,
            "num_hidden_layers": 4,
            "image_size": [256, 320],
        },
    ),
    # Sound and series
    "ast": ("ASTModel", {"num_hidden_layers": 3}),
    "clap_audio": (
        "ClapAudioModel",
        {"depths": [2, 2, 2, 2], "enable_fusion": False},
    ),
    "dac_decoder": ("DacModel", {}),
    "encodec_decoder": ("EncodecModel", {}),
    "hifi_gan": ("SpeechT5HifiGan", {}),
    "patchtst": (
        "PatchTSTForPrediction",
        {
            "num_input_channels": 7,
            "context_length": 512,
            "patch_length": 12,
            "stride": 12,
            "prediction_length": 96,
        },
    ),
    "wav2vec2": ("Wav2Vec2Model", {"num_hidden_layers": 3}),
    "wav2vec2_conformer": (
        "Wav2Vec2ConformerModel",
        {**SMALL, "num_hidden_layers": 2},
    ),
    "whisper_encoder": (
        "WhisperModel",
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
        {**VOCABULARY, "hidden_size": 512, "n_layer": 4, "n_head": 8, "use_cache": False},
    ),
    "clip_text": ("CLIPTextModel", {**VOCABULARY, "num_hidden_layers": 4}),
    "deberta_v2": (
        "DebertaV2Model",
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
    "fnet": ("FNetModel", {**VOCABULARY, "num_hidden_layers": 3}),
    "gemma2": ("Gemma2ForCausalLM", GROUPED),
    "layoutlm": ("LayoutLMModel", {**VOCABULARY, "num_hidden_layers": 3}),
    "llama": ("LlamaForCausalLM", GROUPED),
    "longformer": (
        "LongformerModel",
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
        {**VOCABULARY, "hidden_size": 256, "num_hidden_layers": 2, "use_cache": False},
    ),
    "modern_bert": (
        "ModernBertModel",
        {
            **VOCABULARY,
            **SMALL,
            "intermediate_size": 576,
            "num_hidden_layers": 4,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
    "mpnet": ("MPNetModel", {**VOCABULARY, "num_hidden_layers": 3}),
    "opt": (
        "OPTForCausalLM",
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
        {"d_latents": 512, "num_latents": 128, "d_model": 256, "num_self_attends_per_block": 3},
    ),
    "phi": ("PhiForCausalLM", DECODER),
    "qwen3": ("Qwen3ForCausalLM", GROUPED),
    "roformer": (
        "RoFormerModel",
        {**VOCABULARY, **SMALL, "num_hidden_layers": 3},
    ),
    "squeezebert": (
        "SqueezeBertModel",
        {**VOCABULARY, "num_hidden_layers": 3},
    ),
    "t5_encoder": ("T5EncoderModel", {**VOCABULARY, "num_layers": 4}),
    "xlnet": (
        "XLNetModel",
        {**VOCABULARY, "n_layer": 3, "d_model": 384, "n_head": 6, "d_inner": 1536},
    ),
}
#: Where not all of it is taken, but one of its parts.
PARTS = {
    "superpoint": "encoder",
    "dac_decoder": "decoder",
    "encodec_decoder": "decoder",
    "whisper_encoder": "encoder",
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
    network, settings = NETWORKS[name]
    feeds = next(iter(cases(name).values()))

    def make() -> nn.Module:
        kind = getattr(hf, network)
        module = kind(kind.config_class(**settings))
        return Tensors(getattr(module, PARTS[name]) if name in PARTS else module, list(feeds))

    sample = tuple(torch.from_numpy(array) for array in feeds.values())
    # Two pictures: a map of one pixel has no statistics in a batch of one.
    module = enliven(seeded(make), *(torch.cat([each, each.flip(-1)]) for each in sample))
    export(module, sample, path, inputs=tuple(feeds), traces=name not in SCRIPTED)
