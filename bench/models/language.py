"""Transformers for text, with random weights: BERT-base and GPT-2."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bench.models.export import enliven, export, seeded
from bench.models.table import GPT2_HEADS, GPT2_LAYERS, decoding, masked_tokens, tokens


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


class CachedDecoder(nn.Module):
    """GPT-2 with keys and values of the past as inputs and of all as outputs, a pair a layer."""

    def __init__(self) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        self.gpt2 = GPT2LMHeadModel(GPT2Config())

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(GPT2_LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.gpt2(input_ids, past_key_values=cache, use_cache=True)
        present = [x for layer in result.past_key_values.layers for x in (layer.keys, layer.values)]
        return result.logits, *present


def write_gpt2_decode(path: Path) -> None:
    """Export GPT-2 with a cache; batch, new tokens and length of the past are dynamic."""
    sample = {
        name: torch.from_numpy(array)
        for name, array in decoding(np.random.default_rng(2), 2, 3, 5).items()
    }
    past = tuple(name for name in sample if name != "input_ids")
    present = tuple(name.replace("past", "present") for name in past)
    axes = {
        "input_ids": {0: "batch", 1: "sequence"},
        "logits": {0: "batch", 1: "sequence"},
        **{name: {0: "batch", 2: "past"} for name in past},
        **{name: {0: "batch", 2: "total"} for name in present},
    }
    assert len(past) == 2 * GPT2_LAYERS and sample[past[0]].shape[1] == GPT2_HEADS
    module = enliven(seeded(CachedDecoder))
    inputs, outputs = ("input_ids", *past), ("logits", *present)
    export(module, tuple(sample.values()), path, inputs=inputs, outputs=outputs, axes=axes)
