"""Train the fact reader: `prepare` on a CPU, then `train`, which takes minutes on a GPU.

    make train-reader DATA=../shared/reader OUT=FOLDER

`prepare` reads the labelled messages in scripts/reader/turns and, if DATA exists, those of
LongMemEval in DATA (`turns.jsonl`), without the conversations in scripts/reader/held_out.txt. It writes
samples to a folder; `train` needs these and the package memorist-encoder. If DATA has `pairs.txt`, English
sentences and their German translations (Tatoeba, CC BY 2.0 FR), the encoder is first taught that they
mean the same. `join` averages the models of several seeds. Seeds are fixed. One
tenth of the messages is the development set, which only chooses thresholds (`--all` learns from it, too).
The reader is evaluated on dialogues by other authors: `python -m bench.learning`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from encoder.model import WORDS, embed, padded
from reader.model import as_arrays, new_heads, read_encoder, read_tokens, write_onnx
from reader.samples import Sample, Span, make_sample, tags
from reader.turns import Turn, read_json_turns, read_turns
from reader.variation import Variation

from memorist.learning.tagging import FLAGS, POINTER, SLOTS, Tag, decode

HERE = Path(__file__).parent / "reader"
PACKAGE = Path(__file__).parent.parent / "packages/memorist-encoder/src/memorist_encoder"
SEED = 36
EPOCHS = 15
RATE = 2e-4
HEAD_RATE = 8e-4
BATCH = 48
DROP = 0.1
FLAG_WEIGHT = 3.0
RARE_FLAG_WEIGHT = 1.5
WARM_UP = 0.06
MASK = 103
"""The token that hides another one."""
ALIGN_RATE = 1e-4
ALIGN_EPOCHS = 4
ALIGN_SCALE = 20.0
DEVELOPMENT_SHARE = 0.1
PLAIN_SHARE = 0.25
"""Of the samples in an epoch, without punctuation."""
REAL_WEIGHT = 0.6
"""Share of LongMemEval's messages in an epoch; their labels are looser than ours."""


@dataclass(frozen=True)
class Row:
    """A message with its samples: as it was typed, and without punctuation."""

    id: str
    text: str
    before: str
    language: str
    sample: Sample
    plain: Sample | None
    is_development: bool


# Preparation


def prepare(data: Path, out: Path) -> None:
    """Write the samples to a folder."""
    from tokenizers import Tokenizer

    out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(PACKAGE / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    random_numbers = random.Random(SEED)
    seen: set[str] = set()
    rows = []
    for turn, language in _all_turns(data):
        key = " ".join(turn.text.casefold().split())
        sample = make_sample(tokenizer, turn)
        if key in seen or sample is None:
            continue
        seen.add(key)
        is_development = random_numbers.random() < DEVELOPMENT_SHARE
        plain = make_sample(tokenizer, turn, plain=True)
        rows.append(Row(turn.id, turn.text, turn.before, language, sample, plain, is_development))
    pairs = data / "pairs.txt"
    if pairs.is_file():
        lines = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
        tokens = [[tokenizer.encode(text).ids[:64] for text in line] for line in lines]
        _write(out / "pairs.json.gz", tokens)
    _write(out / "rows.json.gz", [asdict(row) for row in rows])
    print(Counter((row.language, row.is_development) for row in rows))
    print(Counter(SLOTS[span.slot] for row in rows for span in row.sample.spans))
    print(Counter(FLAGS[flag] for row in rows for span in row.sample.spans for flag in span.flags))


def _all_turns(data: Path) -> list[tuple[Turn, str]]:
    turns = []
    for file in sorted(HERE.glob("turns/*.txt")):
        language = "de" if file.stem.endswith("_de") else "en"
        turns += [(turn, language) for turn in read_turns(file)]
    real = data / "turns.jsonl"
    if real.is_file():
        held_out = set((HERE / "held_out.txt").read_text(encoding="utf-8").split())
        for turn in read_json_turns(real):
            source, _, rest = turn.id.partition("/")
            if source == "lme" and rest.split("/")[0].rsplit("_", 1)[0] not in held_out:
                turns.append((_stricter(turn), "real"))
    return turns


def _stricter(turn: Turn) -> Turn:
    """Return a turn without the labels that few people would note: vague plans and tastes."""
    kept = [
        label
        for label in turn.labels
        if not (label.slot == "plan" and "unsure" in label.flags)
        and not (label.slot in ("habit", "likes") and "indirect" in label.flags)
    ]
    return Turn(turn.id, turn.text, turn.before, kept)


def _write(file: Path, value: Any) -> None:
    file.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


def _read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def read_rows(prepared: Path) -> list[Row]:
    """Read what `prepare` wrote."""
    rows = []
    for item in _read(prepared / "rows.json.gz"):
        samples = {}
        for name in ("sample", "plain"):
            value = item.pop(name)
            if value is not None:
                spans = [
                    Span(
                        **{**span, "flags": tuple(span["flags"]), "subject": tuple(span["subject"])}
                    )
                    for span in value.pop("spans")
                ]
                value = Sample(**value, spans=spans)
            samples[name] = value
        rows.append(Row(**item, **samples))
    return rows


# Training


def train(prepared: Path, out: Path, arguments: argparse.Namespace) -> None:
    """Train one model and write its weights."""
    import torch

    device = torch.device(arguments.device)
    rows = read_rows(prepared)
    learned = [row for row in rows if arguments.all or not row.is_development]
    weights = read_encoder(PACKAGE / "model.onnx")
    if (prepared / "pairs.json.gz").is_file():
        weights = align(weights, _read(prepared / "pairs.json.gz"), device)
    trained = _train_one(weights, learned, device, arguments)
    out.mkdir(parents=True, exist_ok=True)
    np.savez(out / f"weights-{arguments.seed}.npz", **as_arrays(trained))  # type: ignore[arg-type]


def join(prepared: Path, out: Path, arguments: argparse.Namespace) -> None:
    """Average the weights of all models in a folder, measure, and write `reader.onnx`.

    They start from the same weights, so that their mean is a model, and more accurate than each.
    """
    import torch

    device = torch.device(arguments.device)
    development = [row for row in read_rows(prepared) if row.is_development]
    models = []
    for file in sorted(out.glob("weights-*.npz")):
        with np.load(file) as stored:
            models.append({name: stored[name] for name in stored.files})
        print(file.name)
        report(development, _run_all(models[-1], development, device))
    mean = {name: np.mean([model[name] for model in models], axis=0) for name in models[0]}
    print(f"mean of {len(models)}")
    report(development, _run_all(mean, development, device), details=True)
    write_onnx(PACKAGE / "model.onnx", mean, out / "reader.onnx")
    print(f"reader.onnx: {(out / 'reader.onnx').stat().st_size:,} bytes")


def _run_all(weights: dict[str, Any], rows: Sequence[Row], device: Any) -> list[dict[str, Any]]:
    import torch

    tensors = {name: torch.tensor(value, device=device) for name, value in weights.items()}
    return run(tensors, [row.sample for row in rows], device)


def align(base: dict[str, Any], pairs: list[list[list[int]]], device: Any) -> dict[str, Any]:
    """Return weights for which a German sentence means the same as its English translation.

    The encoder has seen little German. Each sentence's vector is trained towards
    the encoder's vector of the English one, and away from the other sentences of its batch.
    """
    import torch

    torch.manual_seed(SEED)
    teacher = {name: torch.tensor(value, device=device) for name, value in base.items()}
    student = {name: value.clone() for name, value in teacher.items()}
    trained = [value.requires_grad_() for name, value in student.items() if name != WORDS]
    optimizer = torch.optim.AdamW(trained, lr=ALIGN_RATE, weight_decay=0.01)
    random_numbers = random.Random(SEED)
    batches = []
    for _ in range(ALIGN_EPOCHS):
        random_numbers.shuffle(pairs)
        batches += [pairs[start : start + 256] for start in range(0, len(pairs), 256)]
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = ALIGN_RATE * _schedule(step, len(batches))
        english = [pair[0] for pair in batch]
        with torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext():
            with torch.no_grad():
                goal = _vectors(teacher, english, device)
            loss = torch.zeros((), device=device)
            for texts in (english, [pair[1] for pair in batch]):
                scores = ALIGN_SCALE * _vectors(student, texts, device) @ goal.T
                targets = torch.arange(len(batch), device=device)
                loss = loss + torch.nn.functional.cross_entropy(scores, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"align {step}/{len(batches)} loss {float(loss):.3f}", flush=True)
    return {name: value.detach().float().cpu().numpy() for name, value in student.items()}


def _vectors(weights: dict[str, Any], texts: Sequence[list[int]], device: Any) -> Any:
    import torch

    tokens, mask = padded(texts)
    return embed(weights, torch.tensor(tokens, device=device), torch.tensor(mask, device=device))


def _train_one(
    base: dict[str, Any],
    rows: Sequence[Row],
    device: Any,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Return weights that are trained on rows; the word vectors stay as they are."""
    import torch

    torch.manual_seed(arguments.seed)
    weights = {
        name: torch.tensor(value, device=device)
        for name, value in {**base, **new_heads(SEED)}.items()
    }
    body = [
        value for name, value in weights.items() if name != WORDS and not name.startswith("head")
    ]
    heads = [value for name, value in weights.items() if name.startswith("head")]
    for value in (*body, *heads):
        value.requires_grad_()
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": 0.0}, {"params": heads, "lr": 0.0}], weight_decay=0.01
    )
    rates = [arguments.rate, HEAD_RATE]
    random_numbers = random.Random(arguments.seed)
    is_varied = arguments.seed % 2 == 0  # half of the models that are averaged
    batches = []
    variations = {
        language: Variation(
            [row.sample for row in rows if row.language == language], MASK, random_numbers
        )
        for language in {row.language for row in rows}
    }
    for _ in range(arguments.epochs):
        epoch = []
        for row in rows:
            if row.language == "real" and random_numbers.random() > REAL_WEIGHT:
                continue
            is_plain = row.plain is not None and random_numbers.random() < PLAIN_SHARE
            sample = row.plain if is_plain and row.plain else row.sample
            epoch.append(variations[row.language].vary(sample) if is_varied else sample)
        epoch.sort(key=lambda sample: len(sample.tokens) + random_numbers.random() * 16)
        epoch_batches = [epoch[start : start + BATCH] for start in range(0, len(epoch), BATCH)]
        random_numbers.shuffle(epoch_batches)
        batches += epoch_batches
    losses: list[float] = []
    precision = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
    for step, batch in enumerate(batches):
        factor = _schedule(step, len(batches))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        with precision:
            loss = _loss(weights, batch, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*body, *heads], 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        if step % 200 == 0:
            print(f"step {step}/{len(batches)} loss {np.mean(losses[-200:]):.3f}", flush=True)
    return {name: value.detach() for name, value in weights.items()}


def _schedule(step: int, steps: int) -> float:
    rise = max(1, int(steps * WARM_UP))
    return (step + 1) / rise if step < rise else max(0.02, (steps - step) / max(1, steps - rise))


def _loss(weights: dict[str, Any], batch: Sequence[Sample], device: Any) -> Any:
    """Return the sum of the losses of tags, flags, subjects, and whether there is any fact."""
    import torch
    from torch.nn import functional

    outputs, mask = _forward(weights, batch, device, DROP)
    targets = np.full(mask.shape, -100, np.int64)
    for index, sample in enumerate(batch):
        targets[index, : sample.text_end] = tags(sample)[: sample.text_end]
        targets[index, 0] = -100
    logits = outputs["tags"].float()
    loss = functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(targets, device=device).flatten(), ignore_index=-100
    )
    has_fact = torch.tensor([float(bool(sample.spans)) for sample in batch], device=device)
    loss = loss + 0.2 * functional.binary_cross_entropy_with_logits(
        outputs["has_fact"][:, 0, 0].float(), has_fact
    )
    spans = [(index, span) for index, sample in enumerate(batch) for span in sample.spans]
    if not spans:
        return loss
    rows = torch.tensor([index for index, _ in spans], device=device)
    shares = np.zeros((len(spans), mask.shape[1]), np.float32)
    flags = np.zeros((len(spans), len(FLAGS)), np.float32)
    ends = np.zeros(len(spans), np.int64)
    for row, (index, span) in enumerate(spans):
        shares[row, span.start : span.end] = 1 / (span.end - span.start)
        flags[row, list(span.flags)] = 1.0
        ends[row] = batch[index].text_end
    inside = torch.tensor(shares, device=device)[:, :, None]
    flag_logits = (outputs["flags"][rows].float() * inside).sum(1)
    loss = loss + FLAG_WEIGHT * functional.binary_cross_entropy_with_logits(
        flag_logits,
        torch.tensor(flags, device=device),
        pos_weight=torch.full((len(FLAGS),), RARE_FLAG_WEIGHT, device=device),
    )
    points = outputs["points"][rows].float()
    queries = (points * inside).sum(1)
    is_padding = (
        torch.arange(mask.shape[1], device=device)[None]
        >= torch.tensor(ends, device=device)[:, None]
    )
    for part in (0, 1):
        start = 2 * part * POINTER
        keys = points[:, :, start + POINTER : start + 2 * POINTER]
        scores = (keys @ queries[:, start : start + POINTER, None]).squeeze(2)
        ends_of_subjects = [span.subject[part] for _, span in spans]
        # The user has no last word.
        goal = torch.tensor([t if t or not part else -100 for t in ends_of_subjects], device=device)
        if (goal >= 0).any():
            loss = loss + 0.3 * functional.cross_entropy(
                scores.masked_fill(is_padding, -1e4), goal, ignore_index=-100
            )
    return loss


def _forward(
    weights: dict[str, Any], batch: Sequence[Sample], device: Any, drop: float
) -> tuple[dict[str, Any], Any]:
    import torch

    tokens, mask = padded([sample.tokens for sample in batch])
    types, _ = padded([sample.types for sample in batch])
    matrices = [torch.tensor(matrix, device=device) for matrix in (tokens, types, mask)]
    return read_tokens(weights, matrices[0], matrices[1], matrices[2], drop), mask


def run(weights: dict[str, Any], samples: Sequence[Sample], device: Any) -> list[dict[str, Any]]:
    """Return the outputs for each sample."""
    import torch

    order = sorted(range(len(samples)), key=lambda index: len(samples[index].tokens))
    results: list[dict[str, Any]] = [{} for _ in samples]
    with torch.no_grad():
        for start in range(0, len(order), 128):
            places = order[start : start + 128]
            outputs, _ = _forward(weights, [samples[place] for place in places], device, 0.0)
            arrays = {name: value.float().cpu().numpy() for name, value in outputs.items()}
            for row, place in enumerate(places):
                count = samples[place].text_end
                results[place] = {name: value[row, :count] for name, value in arrays.items()}
    return results


# Figures


def report(
    rows: Sequence[Row], outputs: Sequence[dict[str, Any]], *, details: bool = False
) -> None:
    """Print precision and recall: a value counts if its slot is right and it overlaps the label's."""
    found = []
    for row, output in zip(rows, outputs, strict=True):
        # Places are tokens here, one character each.
        offsets = [(index, index + 1) for index in range(row.sample.text_end - 1)]
        found.append(decode(output, " " * row.sample.text_end, offsets))
    for languages in (("en",), ("de",), ("real",), ("en", "de")):
        chosen = [
            (row, tags_found)
            for row, tags_found in zip(rows, found, strict=True)
            if row.language in languages
        ]
        if chosen:
            print("/".join(languages), len(chosen), _curve(chosen), flush=True)
    if details:
        _details(rows, found)


def _curve(chosen: Sequence[tuple[Row, list[Tag]]]) -> str:
    parts = []
    for threshold in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
        right = wrong = 0
        labels = matched = 0
        for row, tags_found in chosen:
            kept = [tag for tag in tags_found if tag.confidence >= threshold]
            hits = [_matches(tag, row.sample.spans) for tag in kept]
            right += sum(hits)
            wrong += len(hits) - sum(hits)
            labels += len(row.sample.spans)
            matched += sum(any(_match(tag, span) for tag in kept) for span in row.sample.spans)
        precision = right / max(1, right + wrong)
        parts.append(f"@{threshold} P {precision:.3f} R {matched / max(1, labels):.3f}")
    return "; ".join(parts)


def _details(rows: Sequence[Row], found: Sequence[list[Tag]]) -> None:
    flags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    slots: defaultdict[str, Counter[str]] = defaultdict(Counter)
    subjects: Counter[str] = Counter()
    for row, tags_found in zip(rows, found, strict=True):
        for tag in tags_found:
            if tag.confidence < 0.5:
                continue
            slots[tag.slot]["right" if _matches(tag, row.sample.spans) else "wrong"] += 1
            for span in row.sample.spans:
                if not _match(tag, span):
                    continue
                labelled = {FLAGS[index] for index in span.flags}
                for flag in FLAGS:
                    if flag in labelled or flag in tag.flags:
                        flags[flag][
                            ("missed", "wrong", "right")[
                                (flag in tag.flags) + (flag in labelled and flag in tag.flags)
                            ]
                        ] += 1
                subject = (tag.subject[0] + 1, tag.subject[1]) if tag.subject else (0, 0)
                is_near = abs(subject[0] - span.subject[0]) + abs(subject[1] - span.subject[1]) <= 1
                subjects[
                    "right" if is_near and bool(subject[1]) == bool(span.subject[1]) else "wrong"
                ] += 1
        for span in row.sample.spans:
            slots[SLOTS[span.slot]]["labels"] += 1
    print("subjects", dict(subjects))
    print("flags", {flag: dict(counts) for flag, counts in flags.items()})
    print("slots", {slot: dict(counts) for slot, counts in slots.items()})


def _matches(tag: Tag, spans: Sequence[Span]) -> bool:
    return any(_match(tag, span) for span in spans)


def _match(tag: Tag, span: Span) -> bool:
    return SLOTS[span.slot] == tag.slot and tag.start + 1 < span.end and tag.end + 1 > span.start


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description="Train the fact reader.")
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("data", type=Path)
    preparing.add_argument("out", type=Path)
    training = commands.add_parser("train")
    joining = commands.add_parser("join")
    for command in (training, joining):
        command.add_argument("prepared", type=Path)
        command.add_argument("out", type=Path)
        command.add_argument("--device", default="cuda")
    training.add_argument("--seed", type=int, default=SEED)
    training.add_argument("--epochs", type=int, default=EPOCHS)
    training.add_argument("--rate", type=float, default=RATE)
    training.add_argument("--all", action="store_true", help="learn from the development set, too")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.data, arguments.out)
    elif arguments.command == "train":
        train(arguments.prepared, arguments.out, arguments)
    else:
        join(arguments.prepared, arguments.out, arguments)


if __name__ == "__main__":
    main()
