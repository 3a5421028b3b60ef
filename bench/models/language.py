"""Transformers for text, with random weights: BERT-base and GPT-2."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bench.models.export import enliven, export, seeded
from bench.models.table import masked_tokens, tokens


class Encoder(nn.Module):
    """BERT-base with the hidden states and the pooled state as outputs."""

    def __init__(self) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        self.bert = BertModel(BertConfig())

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.bert(input_ids, attention_mask, token_type_ids, return_dict=True)
        return result.last_hidden_state, result.pooler_output


def write_bert(path: Path) -> None:
    """Export BERT-base with dynamic batch and sequence."""
    rng = np.random.default_rng(2)
    sample = tuple(torch.from_numpy(array) for array in masked_tokens(rng, 2, 24).values())
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    axes = {name: {0: "batch", 1: "sequence"} for name in (*inputs, "hidden")}
    outputs = ("hidden", "pooled")
    module = enliven(seeded(Encoder))
    axes["pooled"] = {0: "batch"}
    export(module, sample, path, inputs=inputs, outputs=outputs, axes=axes)


class Decoder(nn.Module):
    """GPT-2 without a cache: tokens in, logits of the next token out."""

    def __init__(self) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        self.gpt2 = GPT2LMHeadModel(GPT2Config(use_cache=False))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.gpt2(input_ids).logits


def write_gpt2(path: Path) -> None:
    """Export GPT-2 with the dynamo exporter; the weights are external data beside the graph."""
    module = enliven(seeded(Decoder))
    sample = torch.from_numpy(tokens(np.random.default_rng(2), 2, 24)["input_ids"])
    dimensions = {"batch": torch.export.Dim("batch"), "sequence": torch.export.Dim("sequence")}
    # It says at length that torchvision is not there, which nobody asked for.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (sample,),
            str(path),
            input_names=["input_ids"],
            output_names=["logits"],
            dynamic_shapes=({0: dimensions["batch"], 1: dimensions["sequence"]},),
            opset_version=20,
            dynamo=True,
            external_data=True,
            verbose=False,
        )
