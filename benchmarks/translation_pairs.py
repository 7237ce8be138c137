"""Data of the translation benchmarks: Multi30k German to English as ids of a joint BPE, or similar lengths.

Multi30k is looked for in REGARD_DATA, or in shared/data beside the repository. Where it is absent, lengths are drawn
from a fixed log-normal and tokens from Zipf's law; a result says which.
"""

import gzip
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

from regard.contracts import BOS, EOS, PAD, SPECIAL_TOKENS, Batch, PackedTokens, PaddedTokens

SEED = 0


@dataclass(frozen=True)
class Pairs:
    """Sources that end in <eos>, targets without special tokens, and their origin."""

    rows: list[tuple[list[int], list[int]]]
    origin: str


def multi30k() -> Path | None:
    """The folder of raw text, if there is one."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("REGARD_DATA", default)) / "multi30k" / "raw"
    return folder if folder.is_dir() else None


def load_pairs(*, vocab_size: int, split: str = "train", limit: int | None = None) -> Pairs:
    """Multi30k's sentences, or synthetic ones of similar lengths."""
    folder = multi30k()
    if folder is None:
        return Pairs(invented_rows(limit or 20_000, vocab_size), "invented: log-normal lengths, Zipf tokens")
    tokenizer = train_tokenizer(read_lines(folder, "train", "de") + read_lines(folder, "train", "en"), vocab_size)
    sides = [tokenizer.encode_batch(read_lines(folder, split, language)[:limit]) for language in ("de", "en")]
    rows = [([*source.ids, EOS], target.ids) for source, target in zip(*sides, strict=True)]
    return Pairs(rows, f"Multi30k de-en {split}, joint BPE of {tokenizer.get_vocab_size()}")


def read_lines(folder: Path, split: str, language: str) -> list[str]:
    """One sentence a line."""
    return gzip.decompress((folder / f"{split}.{language}.gz").read_bytes()).decode().splitlines()


def train_tokenizer(lines: list[str], vocab_size: int) -> Tokenizer:
    """A joint byte-pair encoding whose first ids are the special tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL_TOKENS[3]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def invented_rows(count: int, vocab_size: int) -> list[tuple[list[int], list[int]]]:
    """Sources of about 15 tokens, targets of similar lengths, as in Multi30k."""
    draw = random.Random(SEED)
    words = range(len(SPECIAL_TOKENS), vocab_size)
    odds = [1 / (rank + 3) for rank in range(len(words))]
    rows = []
    for _ in range(count):
        length = min(max(draw.lognormvariate(2.62, 0.36), 3), 60)
        target_length = max(round(length * draw.uniform(0.8, 1.3)), 2)
        source = draw.choices(words, odds, k=round(length))
        rows.append(([*source, EOS], draw.choices(words, odds, k=target_length)))
    return rows


def batches_of(pairs: Pairs, *, tokens: int, count: int, bucketed: bool) -> list[list[tuple[list[int], list[int]]]]:
    """Shuffled batches of about this many source and target tokens; `bucketed` ones have rows of similar length."""
    rows = pairs.rows[:]
    random.Random(SEED).shuffle(rows)
    if bucketed:
        rows.sort(key=lambda row: (len(row[1]), len(row[0])))
    batches: list[list[tuple[list[int], list[int]]]] = [[]]
    held = 0
    for source, target in rows:
        size = len(source) + len(target) + 1
        if held + size > tokens:
            batches.append([])
            held = 0
        batches[-1].append((source, target))
        held += size
    batches.pop()
    random.Random(SEED).shuffle(batches)
    return batches[:count]


def our_batch(rows: Sequence[tuple[list[int], list[int]]], *, packed: bool) -> Batch:
    """The rows as batches of our models."""
    build = PackedTokens if packed else PaddedTokens
    labels = build.from_lists([[*target, EOS] for _, target in rows]).ids
    return Batch(
        source=build.from_lists([source for source, _ in rows]),
        target=build.from_lists([[BOS, *target] for _, target in rows]),
        labels=labels,
        num_tokens=int((labels != PAD).sum()),
    )


def padded(rows: Sequence[tuple[list[int], list[int]]]) -> dict[str, Tensor]:
    """The rows as batches of MarianMT: rectangles, attention masks, and labels with <pad>."""
    batch = our_batch(rows, packed=False)
    return {
        "input_ids": batch.source.ids,
        "attention_mask": batch.source.mask.long(),
        "decoder_input_ids": batch.target.ids,
        "decoder_attention_mask": batch.target.mask.long(),
        "labels": batch.labels,
    }


def real_tokens(rows: Sequence[tuple[list[int], list[int]]]) -> int:
    """Source and target tokens, with special tokens and without padding."""
    return sum(len(source) + len(target) + 1 for source, target in rows)


def padding_share(rows: Sequence[tuple[list[int], list[int]]]) -> float:
    """The share of padding in the padded rectangles."""
    rectangles = padded(rows)
    cells = rectangles["input_ids"].numel() + rectangles["labels"].numel()
    return 1 - real_tokens(rows) / cells


def to_device(nest: dict[str, Tensor], device: torch.device | str) -> dict[str, Tensor]:
    """The batch on a device."""
    return {name: tensor.to(device) for name, tensor in nest.items()}
