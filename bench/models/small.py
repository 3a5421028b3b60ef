"""Small networks that try one thing each: a recurrent one, a branch on data, free picture sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from bench.models.export import enliven, export, seeded
from bench.models.table import LSTM_FEATURES, features


class BidirectionalLstm(nn.Module):
    """Two bidirectional LSTM layers of 512 cells a direction."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(LSTM_FEATURES, 512, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, (hidden, cell) = self.lstm(x)
        return y, hidden, cell


def write_lstm(path: Path) -> None:
    """Export the LSTM with dynamic batch and length."""
    sample = torch.from_numpy(features(np.random.default_rng(2), 2, 11)["x"])
    names = ("y", "hidden", "cell")
    axes = {"x": {0: "batch", 1: "length"}, "y": {0: "batch", 1: "length"}}
    axes |= {name: {1: "batch"} for name in names[1:]}
    module = seeded(BidirectionalLstm)
    export(module, (sample,), path, inputs=("x",), outputs=names, axes=axes)


class Gru(nn.Module):
    """Two GRU layers of 256 cells, as streaming speech models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(LSTM_FEATURES, 256, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.gru(x)


def write_gru(path: Path) -> None:
    """Export the GRU with dynamic batch and length."""
    sample = torch.from_numpy(features(np.random.default_rng(2), 2, 11)["x"])
    axes = {"x": {0: "batch", 1: "length"}, "y": {0: "batch", 1: "length"}, "hidden": {1: "batch"}}
    export(seeded(Gru), (sample,), path, inputs=("x",), outputs=("y", "hidden"), axes=axes)


def write_branch(path: Path) -> None:
    """Export `x if x.sum() >= 0 else -x`; scripting keeps both branches as an If node."""

    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() >= 0:
                return x
            return -x

    axes = {name: {0: "rows", 1: "columns"} for name in ("x", "y")}
    module = torch.jit.script(Branch())
    export(module, (torch.ones(2, 3),), path, inputs=("x",), outputs=("y",), axes=axes)


class TwoConvolutions(nn.Module):
    """Convolution, ReLU, convolution: the least network whose picture size is free."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 8, 3, padding=1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def write_two_convolutions(path: Path) -> None:
    """Export the two convolutions with dynamic batch, `h` and `w`."""
    module = enliven(seeded(TwoConvolutions))
    axes = {"x": {0: "batch", 2: "h", 3: "w"}, "y": {0: "batch", 2: "h_out", 3: "w_out"}}
    sample = (torch.zeros(1, 3, 20, 28),)
    export(module, sample, path, inputs=("x",), outputs=("y",), axes=axes)
