"""What the exports have in common: weights with lively statistics, and the exporter's settings."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

Axes = dict[str, dict[int, str]]


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A module in evaluation mode whose weights are the same in every process."""
    torch.manual_seed(0)
    return make().eval()


def enliven(module: nn.Module, *sample: torch.Tensor) -> nn.Module:
    """Give normalisations, biases and layer scales values that make folding errors show.

    Freshly made networks have unit scales and zero biases, where a wrongly folded BatchNorm goes
    unnoticed. Batch statistics are measured on `sample` and then disturbed, so that activations
    keep a magnitude of about one through any depth. The mean is not taken off: deep networks of
    random weights give nearly the same for every input, and what is left of a difference of nearly
    equal numbers is rounding error (ONNX Runtime itself then misses its float64 result by more than
    the tolerance of the tests).
    """
    generator = torch.Generator().manual_seed(1)

    def uniform(tensor: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return torch.rand(tensor.shape, generator=generator) * (high - low) + low

    norms = (nn.BatchNorm2d, nn.LayerNorm)
    batch_norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    with torch.no_grad():
        for part in module.modules():
            for name, parameter in part.named_parameters(recurse=False):
                if isinstance(part, norms) and name == "weight":
                    parameter.copy_(uniform(parameter, 0.6, 1.4))
                elif "bias" in name:
                    parameter.copy_(uniform(parameter, -0.1, 0.1))
                elif "layer_scale" in name:
                    parameter.copy_(uniform(parameter, 0.2, 0.6))
        if batch_norms:
            for part in batch_norms:
                part.reset_running_stats()
                part.momentum = None  # a cumulative average: one pass gives the sample's statistics
                part.train()
            module(*sample)
            for part in batch_norms:
                part.eval()
                power = part.running_var + part.running_mean.square()
                part.running_mean.copy_(uniform(power, -0.2, 0.2) * power.sqrt())
                part.running_var.copy_(uniform(power, 0.7, 1.4) * power)
    return module


def export(
    module: nn.Module,
    sample: tuple[torch.Tensor, ...],
    path: Path,
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...] | None = None,
    axes: Axes | None = None,
    opset: int = 17,
    traces: bool = False,
) -> None:
    """Write `module` as ONNX with the TorchScript-based exporter, or, if it `traces`, with the
    other one, for the sizes of the sample and opset 18."""
    options: dict[str, object] = {"dynamic_axes": axes, "opset_version": opset, "dynamo": False}
    if traces:
        options = {"opset_version": 18, "dynamo": True, "verbose": False, "external_data": False}
    # They say at length what else might be installed, and what each traced branch assumes.
    for logger in ("torch.onnx._internal.exporter._registration", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            sample,
            str(path),
            input_names=list(inputs),
            output_names=None if outputs is None else list(outputs),
            **options,
        )
