"""Searches of com.microsoft for texts: 32 tokens of small decoders."""

from __future__ import annotations

from collections.abc import Iterator

from bench.models.decoders import Sizes, encoder_decoder, gpt
from bench.operators.case import NONE, Body, C, Case, X, rows

MS = "com.microsoft"
SIZES = Sizes(vocab=8000, layers=4, heads=8, head=32, positions=128, scale=0.06)


def table() -> Iterator[Case]:
    """All rows. No text ends before: ONNX Runtime would leave the rest as it was."""
    decoder = Body("decoder of 4x256", lambda: gpt(SIZES))
    never = dict(domain=MS, eos_token_id=SIZES.vocab, pad_token_id=0)
    prompts = X(1, 16, low=2, high=SIZES.vocab, type="i32")
    length, least = C([48], "i32"), C([0], "i32")
    yield from rows("GreedySearch", "f32", [prompts, length], decoder=decoder, **never)
    rules = [prompts, length, least, C([1.2], "f32")]
    yield from rows("GreedySearch", "f32", rules, decoder=decoder, no_repeat_ngram_size=3, **never)
    unlikely = [prompts, length, NONE, NONE, NONE, NONE, NONE, NONE, C([1], "i32")]
    yield from rows("Sampling", "f32", unlikely, decoder=decoder, top_p=1e-6, **never)
    beams = [length, least, C([4], "i32"), C([1], "i32"), C([1], "f32")]
    yield from rows("BeamSearch", "f32", [prompts, *beams], decoder=decoder, **never)
    start = dict(decoder_start_token_id=3, **never)
    bodies = {
        name: Body(f"{name} of 4x256", lambda name=name: encoder_decoder(SIZES)[name])
        for name in ("encoder", "decoder")
    }
    beams[0] = C([33], "i32")
    yield from rows("BeamSearch", "f32", [prompts, *beams], model_type=1, **bodies, **start)
    speech = {
        name: Body(
            f"{name} of 4x256",
            lambda name=name: encoder_decoder(SIZES, speech=True, features=80)[name],
        )
        for name in ("encoder", "decoder")
    }
    features = X(1, 80, 200, low=-1, high=1)
    yield from rows("WhisperBeamSearch", "f32", [features, *beams], **speech, **start)
