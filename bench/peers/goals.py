"""What the project wants to reach: ratios to the best peer, by group of models."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Goal:
    """A group of models, and the ratio to the best peer that each of them is to stay below.

    Parameters
    ----------
    group
        What the models have in common.
    ratio
        Latency over that of the fastest peer, at most.
    models
        Patterns of their names; the first goal with a pattern that fits is a model's goal.
    has_limits
        Whether their arithmetic is that of float32 or of bytes, whose limits are known.
    """

    group: str
    ratio: float
    models: tuple[str, ...]
    has_limits: bool = False


GOALS = (
    Goal("int8", 0.85, ("*int8*", "*qoperator*", "*qdq*"), True),
    Goal("overhead", 0.50, ("one_add",)),
    Goal("trees", 0.50, ("*forest*", "*boosted*", "trees_*")),
    Goal("decode", 1.00, ("*_decode",), True),
    Goal("ResNet-50", 0.80, ("resnet50",), True),
    Goal("U-Net", 0.85, ("unet",), True),
    Goal("transformers", 0.92, ("vit_s", "bert_base", "gpt2"), True),
    Goal("recurrent", 0.75, ("lstm", "gru", "silero_vad"), True),
    Goal(
        "other convolutional networks",
        0.80,
        (
            "mobilenet_v2",
            "efficientnet_b0",
            "convnext_t",
            "regnet_*",
            "ocr_*",
            "two_conv",
            "light_*",
        ),
        True,
    ),
    Goal("others", 1.00, ("*",)),
)
LOAD = 0.50  # of the best peer's time to the first result
MEMORY = 0.80  # of the best peer's peak memory
NEAR = 0.93  # of the machine's own limit: as good as a goal that lies beyond it
MEAN = 0.75  # geometric mean of all latencies
THREADS = 1.8  # how much faster two threads are than one, at least, from 10 ms on


def goal(model: str) -> Goal:
    """The goal of a model."""
    return next(g for g in GOALS if any(fnmatch(model, pattern) for pattern in g.models))
