"""Image classifiers from `transformers` and a U-Net, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from bench.models.export import enliven, export, seeded

CLASSES = 1000


class Logits(nn.Module):
    """Makes a classifier of `transformers` return its logits alone."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x).logits


def resnet50() -> nn.Module:
    """ResNet-50: 3, 4, 6, 3 bottleneck blocks."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=CLASSES))


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 at width 1."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=CLASSES))


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0: the configuration's defaults are those of B7."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        image_size=224,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        dropout_rate=0.2,
        hidden_dim=1280,
        num_labels=CLASSES,
    )
    return EfficientNetForImageClassification(config)


def convnext_t() -> nn.Module:
    """ConvNeXt-T: the configuration's defaults."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(ConvNextConfig(num_labels=CLASSES))


def regnet_y_400mf() -> nn.Module:
    """RegNetY-400MF: 3x3 convolutions in groups of 8 channels."""
    from transformers import RegNetConfig, RegNetForImageClassification

    config = RegNetConfig(
        hidden_sizes=[48, 104, 208, 440],
        depths=[1, 3, 6, 6],
        groups_width=8,
        num_labels=CLASSES,
    )
    return RegNetForImageClassification(config)


def vit_s() -> nn.Module:
    """ViT-S/16: hidden size 384, 12 layers, 6 heads."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=6,
        intermediate_size=1536,
        num_labels=CLASSES,
    )
    return ViTForImageClassification(config)


def write_classifier(make: Callable[[], nn.Module], path: Path) -> None:
    """Export a classifier with a dynamic batch."""
    sample = torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(2))
    module = enliven(seeded(lambda: Logits(make())), sample)
    axes = {"x": {0: "batch"}, "logits": {0: "batch"}}
    export(module, (sample[:2],), path, inputs=("x",), outputs=("logits",), axes=axes)


def write_resnet50(path: Path) -> None:
    """ResNet-50."""
    write_classifier(resnet50, path)


def write_mobilenet_v2(path: Path) -> None:
    """MobileNetV2."""
    write_classifier(mobilenet_v2, path)


def write_efficientnet_b0(path: Path) -> None:
    """EfficientNet-B0."""
    write_classifier(efficientnet_b0, path)


def write_convnext_t(path: Path) -> None:
    """ConvNeXt-T."""
    write_classifier(convnext_t, path)


def write_regnet_y_400mf(path: Path) -> None:
    """RegNetY-400MF."""
    write_classifier(regnet_y_400mf, path)


def write_vit_s(path: Path) -> None:
    """ViT-S/16."""
    write_classifier(vit_s, path)


class DoubleConv(nn.Sequential):
    """Two 3x3 convolutions, each with BatchNorm and ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """U-Net of four levels (Ronneberger et al. 2015) with half the channels, and padding."""

    def __init__(self, channels: int = 32, classes: int = 2) -> None:
        super().__init__()
        widths = [channels << level for level in range(5)]
        self.down = nn.ModuleList(
            DoubleConv(inputs, outputs) for inputs, outputs in pairwise([3, *widths])
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in widths[:-1]
        )
        self.merge = nn.ModuleList(DoubleConv(2 * width, width) for width in widths[:-1])
        self.head = nn.Conv2d(channels, classes, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skipped.append(x)
        skipped.pop()
        for level in reversed(range(len(self.up))):
            x = self.merge[level](torch.cat([skipped[level], self.up[level](x)], dim=1))
        return self.head(x)


def write_unet(path: Path) -> None:
    """Export the U-Net with dynamic batch, height and width."""
    sample = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(2))
    axes = {name: {0: "batch", 2: "height", 3: "width"} for name in ("x", "mask")}
    module = enliven(seeded(UNet), sample)
    export(module, (sample,), path, inputs=("x",), outputs=("mask",), axes=axes)
