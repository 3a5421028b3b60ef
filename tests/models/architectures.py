"""Small networks of many architectures, as `transformers` and PyTorch's exporters write them."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import transformers as hf
from torch import nn

from bench.models.export import enliven, export

#: A module and what it is called with.
Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

VOCABULARY = 100
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0}
#: Of transformers whose configurations have these names.
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


class Called(nn.Module):
    """A module that is called by a function of it and of the inputs."""

    def __init__(self, module: nn.Module, call: Callable[..., object]) -> None:
        super().__init__()
        self.module = module
        self.call = call

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.call(self.module, *inputs)


def tokens(count: int) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (1, count))


def picture(side: int) -> torch.Tensor:
    return torch.randn(1, 3, side, side)


def decoder(model: nn.Module) -> Made:
    """A language model, over a prompt."""
    return Called(model, lambda m, ids: m(input_ids=ids, use_cache=False).logits), (tokens(19),)


def encoder(model: nn.Module) -> Made:
    return Called(model, lambda m, ids: m(input_ids=ids, attention_mask=torch.ones_like(ids))[0]), (
        tokens(23),
    )


def translator(model: nn.Module) -> Made:
    def call(m: nn.Module, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return m(input_ids=source, decoder_input_ids=target, use_cache=False)[0]

    return Called(model, call), (tokens(17), tokens(9))


def seeing(model: nn.Module, side: int) -> Made:
    return Called(model, lambda m, pixels: m(pixel_values=pixels)[0]), (picture(side),)


def llama() -> Made:
    return decoder(hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, **TOKENS, num_key_value_heads=2)))


def gemma2() -> Made:
    """Scores and logits with caps, windows in every other layer."""
    config = hf.Gemma2Config(
        **SMALL, **TOKENS, num_key_value_heads=2, head_dim=16, sliding_window=8
    )
    return decoder(hf.Gemma2ForCausalLM(config))


def bloom() -> Made:
    """Positions as slopes that are added to scores."""
    return decoder(
        hf.BloomForCausalLM(
            hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4)
        )
    )


def mamba() -> Made:
    config = hf.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8
    )
    return decoder(hf.MambaForCausalLM(config))


def deberta() -> Made:
    """Relative positions, gathered for each pair of tokens."""
    config = hf.DebertaV2Config(
        **SMALL,
        **TOKENS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=16,
        position_biased_input=False,
        share_att_key=True,
    )
    return encoder(hf.DebertaV2Model(config))


def modern_bert() -> Made:
    """Rotary positions, gated units, windows."""
    config = hf.ModernBertConfig(
        **SMALL, **TOKENS, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2
    )
    return encoder(hf.ModernBertModel(config))


def t5() -> Made:
    """Biases by buckets of distance, RMS norms, queries that are not scaled."""
    config = hf.T5Config(
        vocab_size=VOCABULARY, num_layers=2, d_model=64, d_ff=96, d_kv=16, num_heads=4
    )
    return translator(hf.T5ForConditionalGeneration(config))


def whisper() -> Made:
    """Convolutions along time ahead of attention."""
    config = hf.WhisperConfig(
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_layers=1,
        decoder_attention_heads=4,
        num_mel_bins=16,
        max_source_positions=50,
    )
    return Called(hf.WhisperModel(config).encoder, lambda m, x: m(x)[0]), (torch.randn(1, 16, 100),)


def wav2vec2() -> Made:
    """Strided convolutions over samples, one in groups for positions."""
    config = hf.Wav2Vec2Config(
        **SMALL, vocab_size=32, conv_dim=[32] * 7, num_conv_pos_embeddings=16
    )
    return Called(hf.Wav2Vec2ForCTC(config), lambda m, x: m(x).logits), (torch.randn(1, 4000),)


def hifi_gan() -> Made:
    """Dilated convolutions of few channels over long lines, transposed ones between."""
    config = hf.SpeechT5HifiGanConfig(model_in_dim=20, upsample_initial_channel=64)
    return Called(hf.SpeechT5HifiGan(config), lambda m, x: m(x)), (torch.randn(13, 20),)


def encodec() -> Made:
    """Pads of each convolution computed from its shape, in floats; an LSTM in the middle."""
    config = hf.EncodecConfig(num_filters=8, hidden_size=32, upsampling_ratios=[4, 2])
    return Called(hf.EncodecModel(config), lambda m, x: m.decoder(m.encoder(x))), (
        torch.randn(1, 1, 1201),
    )


def swin() -> Made:
    """Windows that shift: rolls, and pictures cut into pieces and put together."""
    config = hf.SwinConfig(
        image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return seeing(hf.SwinModel(config), 64)


def swin2_super_resolution() -> Made:
    """Scores of unit vectors, pixels shuffled into larger pictures."""
    config = hf.Swin2SRConfig(
        image_size=16, embed_dim=24, depths=[2], num_heads=[3], window_size=8, upscale=2
    )
    return seeing(hf.Swin2SRForImageSuperResolution(config), 16)


def segformer() -> Made:
    """Maps of four sizes, resized to one behind products and joined ahead of another."""
    config = hf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=64,
        num_labels=5,
    )
    return seeing(hf.SegformerForSemanticSegmentation(config), 64)


class Pyramid(nn.Module):
    """HRNet's head over maps of three sizes, and a finer map that a coarser one is added to."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (24, 96, 128)
        self.stem = nn.Conv2d(3, sizes[0], 3, 2, 1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in itertools.pairwise(sizes))
        self.join = nn.Conv2d(sum(sizes), 72, 1)
        self.norm = nn.BatchNorm2d(72)
        self.lateral = nn.Conv2d(sizes[-1], 40, 1)
        self.out = nn.Conv2d(72 + 40, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = [self.stem(x).relu()]
        for down in self.down:
            maps.append(down(maps[-1]).relu())
        size = maps[0].shape[2:]
        same = [
            nn.functional.interpolate(m, size=size, mode="bilinear", align_corners=True)
            for m in maps[1:]
        ]
        joined = self.norm(self.join(torch.cat([maps[0], *same], 1))).relu()
        coarse = nn.functional.interpolate(maps[-1], scale_factor=4.0, mode="nearest")
        return self.out(torch.cat([joined, self.lateral(coarse).sigmoid()], 1))


def pyramid() -> Made:
    return Pyramid(), (picture(40),)


def mobile_vit() -> Made:
    """Convolutions, and attention over pixels of unfolded patches."""
    config = hf.MobileViTConfig(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 64]
    )
    return seeing(hf.MobileViTModel(config), 64)


def levit() -> Made:
    """Attention whose queries are fewer than its keys, with learnt biases, batch norms inside."""
    config = hf.LevitConfig(
        image_size=64,
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    )
    return seeing(hf.LevitModel(config), 64)


def poolformer() -> Made:
    """Average pools less what they pool; group norms."""
    config = hf.PoolFormerConfig(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1])
    return seeing(hf.PoolFormerModel(config), 64)


def clip() -> Made:
    """Texts and a picture, and how near they are."""
    small = {**SMALL, "projection_dim": 32}
    config = hf.CLIPConfig(
        text_config={**small, "vocab_size": VOCABULARY, "eos_token_id": 2, "bos_token_id": 1},
        vision_config={**small, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )

    def call(m: nn.Module, ids: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        return m(
            input_ids=ids, pixel_values=pixels, attention_mask=torch.ones_like(ids)
        ).logits_per_image

    return Called(hf.CLIPModel(config), call), (tokens(11), picture(32))


@dataclasses.dataclass(frozen=True)
class Architecture:
    """One network; `traces` says that the exporter without TorchScript writes it."""

    make: Callable[[], Made]
    traces: bool = False


ARCHITECTURES = {
    architecture.make.__name__: architecture
    for architecture in (
        Architecture(llama, traces=True),
        Architecture(gemma2, traces=True),
        Architecture(bloom),
        Architecture(mamba),
        Architecture(deberta),
        Architecture(modern_bert),
        Architecture(t5),
        Architecture(whisper),
        Architecture(wav2vec2),
        Architecture(hifi_gan),
        Architecture(encodec),
        Architecture(swin),
        Architecture(swin2_super_resolution),
        Architecture(segformer),
        Architecture(pyramid, traces=True),
        Architecture(mobile_vit),
        Architecture(levit),
        Architecture(poolformer),
        Architecture(clip),
    )
}


def write(name: str, path: Path) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Export an architecture; return the inputs and what PyTorch makes of them."""
    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    module, inputs = architecture.make()
    module = enliven(module.eval(), *inputs)
    names = tuple(f"x{i}" for i in range(len(inputs)))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = module(*inputs)
    export(module, inputs, path, inputs=names, outputs=("y",), traces=architecture.traces)
    return dict(zip(names, inputs, strict=True)), expected
