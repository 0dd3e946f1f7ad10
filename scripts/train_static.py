"""Train the table of the built-in embedder: WordLlama's vectors, fitted to the encoder.

    pip download --no-deps wordllama==0.4.0.post1      # unpack it
    python scripts/train_encoder.py prepare DATA BENCH PREPARED
    python scripts/train_static.py UNPACKED/src/wordllama PREPARED packages/memorist-encoder/src/memorist_encoder

The table starts as WordLlama's `l2_supercat_256` (MIT): 32,000 word pieces, each with a vector.
Training moves the similarities of questions and turns towards those of the encoder. Pieces that
are frequent in questions get a second vector for questions, so that "where" is close to places. The
development files are not used for training. It takes two minutes on a GPU and hours on a CPU.

`static.bin` starts with a header, one line of JSON. Then follow the pieces in the order of their
numbers, one per line; the scales of all vectors; the vectors as rows of bytes, those for questions
last; and the numbers of the pieces that have a question vector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from encoder import evaluation
from encoder.conversations import Turn
from encoder.model import embed, padded, quantize_rows
from encoder.samples import Composer, Sample, Samples
from numpy.typing import NDArray
from onnx import numpy_helper
from train_encoder import TRAINING_WEIGHTS, read_tokenizer

from memorist.search.static_embedder import BEFORE_CHARACTERS, IDENTITY, StaticEmbedder

TARGET = (
    Path(__file__).parent.parent
    / "packages"
    / "memorist"
    / "src"
    / "memorist"
    / "search"
    / "static.bin"
)
VECTORS = "weights/l2_supercat_256.safetensors"
PIECES = "tokenizers/l2_supercat_tokenizer_config.json"
DIGESTS = {
    VECTORS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    PIECES: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
SEED = 15
EPOCHS = 10
LEARNING_RATE = 0.01
BATCH_SIZE = 512
TURNS_PER_QUESTION = 8
RANDOM_TURNS = 2048  # added to each batch
COMPARED_TURNS = 1024  # turns of a batch that are compared with one another
SCALE = 20.0  # factor of the encoder's cosines before the softmax
EVIDENCE_WEIGHT = 0.3
TURNS_WEIGHT = 0.5
WARM_UP_STEPS = 50
MIN_OCCURRENCES = 20
"""A piece needs this many occurrences in questions to get a question vector."""
MAX_PIECES = 200  # of a text, in training
WEIGHTS = {**TRAINING_WEIGHTS, "grammar": 0.15}
TOKENS_PER_PASS = 131_072

Matrix = NDArray[np.float32]


class Table:
    """The trained vectors: of pieces, and of pieces in questions."""

    def __init__(self, rows: Matrix, question_pieces: NDArray[np.int64]) -> None:
        self.rows = rows
        self.question_pieces = question_pieces
        self.question_rows = rows[question_pieces]
        self.speaker = 0.5
        self.before = 0.3


def read(package: Path, name: str) -> bytes:
    """Return a file of the package after checking its hash."""
    content = (package / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        sys.exit(f"{package / name} is not the expected file: its SHA-256 differs.")
    return content


def read_vectors(package: Path) -> Matrix:
    """Return the matrix of the safetensors file: a length, a JSON header, and the numbers."""
    file = read(package, VECTORS)
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    (name,) = header.keys() - {"__metadata__"}
    numbers = np.frombuffer(file, np.float16, offset=8 + size)
    return numbers.reshape(header[name]["shape"]).astype(np.float32)


def read_pieces(package: Path) -> list[str]:
    """Return the pieces in the order of their numbers."""
    numbers: dict[str, int] = json.loads(read(package, PIECES))["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


def write(file: Path, pieces: list[str], table: Table) -> None:
    """Write static.bin."""
    text = "\n".join(pieces).encode()
    rows, scales = quantize_rows(np.concatenate([table.rows, table.question_rows]))
    header = {
        "identity": IDENTITY,
        "shape": table.rows.shape,
        "text": len(text),
        "questions": len(table.question_rows),
        "speaker": round(table.speaker, 4),
        "before": round(table.before, 4),
    }
    parts = [
        json.dumps(header).encode() + b"\n",
        text,
        scales.astype("<f4").tobytes(),
        rows.tobytes(),
        table.question_pieces.astype("<u2").tobytes(),
    ]
    file.write_bytes(b"".join(parts))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    print(f"{file.name}: {file.stat().st_size:,} bytes, sha256 {digest}")


class Texts:
    """The pieces of several texts, concatenated in one array."""

    def __init__(self, pieces: list[bytes], torch: Any, device: Any) -> None:
        rows = [np.frombuffer(row, np.uint16)[:MAX_PIECES] for row in pieces]
        lengths = np.array([len(row) for row in rows])
        self._torch = torch
        self._lengths = torch.tensor(lengths, device=device)
        self._starts = torch.tensor(np.cumsum(lengths) - lengths, device=device)
        self._pieces = torch.tensor(np.concatenate(rows).astype(np.int64), device=device)

    def sums(self, vectors: Any, indexes: Any) -> Any:
        """Return the sum of the vectors of each text."""
        torch = self._torch
        lengths = self._lengths[indexes]
        starts = torch.cumsum(lengths, 0) - lengths
        total = int(lengths.sum())
        if not total:
            return torch.zeros(len(indexes), vectors.shape[1], device=vectors.device)
        text = torch.repeat_interleave(torch.arange(len(indexes), device=indexes.device), lengths)
        offset = torch.arange(total, device=indexes.device) - starts[text]
        pieces = self._pieces[self._starts[indexes][text] + offset]
        return torch.nn.functional.embedding_bag(pieces, vectors, starts, mode="sum")


class Turns:
    """Turns with their speakers and the ends of the turns before them."""

    def __init__(self, turns: list[tuple[str, str, str]], torch: Any, device: Any) -> None:
        split = StaticEmbedder().pieces
        self._texts = Texts([split(text) for _, text, _ in turns], torch, device)
        self._speakers = Texts([split(speaker) for speaker, _, _ in turns], torch, device)
        before = [split(text[-BEFORE_CHARACTERS:]) for _, _, text in turns]
        self._before = Texts(before, torch, device)

    def embed(self, weights: dict[str, Any], indexes: Any) -> Any:
        """Return a vector for each turn."""
        return (
            self._texts.sums(weights["rows"], indexes)
            + weights["speaker"] * self._speakers.sums(weights["rows"], indexes)
            + weights["before"] * self._before.sums(weights["rows"], indexes)
        )


class Trainer:
    """Trains a table to reproduce the encoder's similarities."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        self.torch = torch
        self.device = torch.device(arguments.device)
        self._started = time.monotonic()
        self._composer = Composer(read_tokenizer(arguments.encoder / "tokenizer.json"), "before")
        self._encoder = self._read_encoder(arguments.encoder / "model.onnx")
        self._read_samples(arguments.prepared)
        self._evaluated = evaluation.load(arguments.prepared, self._composer)

    def log(self, text: str) -> None:
        """Print a line with the time since the start."""
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", flush=True)

    def _read_encoder(self, file: Path) -> dict[str, Any]:
        """Return the weights of the encoder; bytes are multiplied by their scales."""
        tensors = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in onnx.load(str(file)).graph.initializer
        }
        scaled = {
            name.removesuffix(".int8"): values * tensors[name.replace(".int8", ".scale")]
            for name, values in tensors.items()
            if name.endswith(".int8")
        }
        plain = {name: values for name, values in tensors.items() if not name.endswith(".int8")}
        return {
            name: self.torch.tensor(np.array(values), device=self.device)
            for name, values in {**plain, **scaled}.items()
        }

    def _read_samples(self, prepared: Path) -> None:
        stored = Samples.read(prepared / "samples.json.xz")
        self.samples = [sample for sample in stored.samples if sample.source in WEIGHTS]
        ends = [stored.turns[turn.before].end if turn.before >= 0 else "" for turn in stored.turns]
        turns = [
            (turn.speaker, turn.start, end) for turn, end in zip(stored.turns, ends, strict=True)
        ]
        self.turn_count = len(turns)
        self.turns = Turns(turns, self.torch, self.device)
        split = StaticEmbedder().pieces
        pieces = [split(sample.question) for sample in self.samples]
        self.questions = Texts(pieces, self.torch, self.device)
        counts = np.bincount(np.frombuffer(b"".join(pieces), np.uint16))
        self.question_pieces = np.flatnonzero(counts >= MIN_OCCURRENCES)
        composer = self._composer
        starts = composer.ids(text for _, text, _ in turns)
        before = composer.ids(end for _, _, end in turns)
        rows = [
            composer.turn(speaker, start, end, [])
            for (speaker, _, _), start, end in zip(turns, starts, before, strict=True)
        ]
        self.encoded_turns = self._encode(rows)
        questions = [composer.question(sample.question) for sample in self.samples]
        self.encoded_questions = self._encode(questions)
        self.log(f"{len(self.samples)} questions, {len(turns)} turns")

    def _encode(self, rows: list[list[int]]) -> Any:
        """Return the encoder's vectors of token rows."""
        torch = self.torch
        vectors = torch.zeros(len(rows), 384, device=self.device)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        start = 0
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16):
            while start < len(order):
                longest = len(rows[order[min(start + 2000, len(order) - 1)]])
                indexes = order[start : start + TOKENS_PER_PASS // longest]
                tokens, mask = padded([rows[index] for index in indexes])
                encoded = embed(
                    self._encoder,
                    torch.from_numpy(tokens).to(self.device),
                    torch.from_numpy(mask).to(self.device),
                )
                vectors[torch.tensor(indexes, device=self.device)] = encoded.float()
                start += len(indexes)
        return vectors

    def train(self, table: Table) -> None:
        """Train the table in place."""
        torch = self.torch
        rng = random.Random(SEED)
        numbers = torch.tensor(self.question_pieces, device=self.device)
        rows = torch.tensor(table.rows, device=self.device, requires_grad=True)
        added = torch.zeros(len(numbers), rows.shape[1], device=self.device, requires_grad=True)
        scalars = {
            name: torch.tensor(value, device=self.device, requires_grad=True)
            for name, value in (
                ("speaker", table.speaker),
                ("before", table.before),
                ("scale", float(np.log(SCALE))),
            )
        }
        optimizer = torch.optim.Adam(
            [{"params": [rows, added]}, {"params": list(scalars.values()), "lr": 0.01}],
            lr=LEARNING_RATE,
            betas=(0.9, 0.99),
        )
        batches = self._batches(rng)
        for step, batch in enumerate(batches):
            decay = max(0.02, (len(batches) - step) / len(batches))
            optimizer.param_groups[0]["lr"] = (
                LEARNING_RATE * min(1, (step + 1) / WARM_UP_STEPS) * decay
            )
            weights = {
                "rows": rows,
                "question rows": rows.index_add(0, numbers, added),
                **scalars,
            }
            loss = self._loss(weights, batch, rng)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                self.log(f"step {step}/{len(batches)} loss {float(loss.detach()):.3f}")
        table.rows = rows.detach().cpu().numpy()
        table.question_rows = (rows[numbers] + added).detach().cpu().numpy()
        table.speaker = float(scalars["speaker"].detach())
        table.before = float(scalars["before"].detach())

    def _batches(self, rng: random.Random) -> list[list[int]]:
        chosen: list[int] = []
        for _ in range(EPOCHS):
            epoch: list[int] = []
            for index, sample in enumerate(self.samples):
                weight = WEIGHTS[sample.source]
                epoch += [index] * (int(weight) + (rng.random() < weight % 1))
            rng.shuffle(epoch)
            chosen += epoch
        count = len(chosen) // BATCH_SIZE
        return [chosen[number * BATCH_SIZE : (number + 1) * BATCH_SIZE] for number in range(count)]

    def _loss(self, weights: dict[str, Any], batch: list[int], rng: random.Random) -> Any:
        """Return the distance of the similarities from the encoder's and from the evidence."""
        torch = self.torch
        functional = torch.nn.functional
        indexes = [index for number in batch for index in self._choose(self.samples[number], rng)]
        indexes += [rng.randrange(self.turn_count) for _ in range(RANDOM_TURNS)]
        question_indexes = torch.tensor(batch, device=self.device)
        turn_indexes = torch.tensor(indexes, device=self.device)
        question_sums = self.questions.sums(weights["question rows"], question_indexes)
        questions = functional.normalize(question_sums, dim=-1)
        turns = functional.normalize(self.turns.embed(weights, turn_indexes), dim=-1)
        scale = weights["scale"].exp()
        encoded_turns = self.encoded_turns[turn_indexes]
        scores = scale * questions @ turns.T
        target_scores = SCALE * self.encoded_questions[question_indexes] @ encoded_turns.T
        evidence = torch.arange(len(batch), device=self.device) * TURNS_PER_QUESTION
        sampled = torch.tensor(rng.sample(range(len(indexes)), COMPARED_TURNS), device=self.device)
        diagonal = torch.eye(len(sampled), dtype=torch.bool, device=self.device)
        turn_scores = (scale * turns[sampled] @ turns[sampled].T).masked_fill(diagonal, -1e4)
        target_turns = SCALE * encoded_turns[sampled] @ encoded_turns[sampled].T
        target_turns = target_turns.masked_fill(diagonal, -1e4)
        return (
            self._difference(scores, target_scores)
            + EVIDENCE_WEIGHT * functional.cross_entropy(scores, evidence)
            + TURNS_WEIGHT * self._difference(turn_scores, target_turns)
        )

    def _difference(self, scores: Any, targets: Any) -> Any:
        functional = self.torch.nn.functional
        return functional.kl_div(
            functional.log_softmax(scores, -1),
            functional.log_softmax(targets, -1),
            log_target=True,
            reduction="batchmean",
        )

    def _choose(self, sample: Sample, rng: random.Random) -> list[int]:
        """Return a turn that answers the question, then turns that do not."""
        distractors = rng.sample(sample.distractors, min(3, len(sample.distractors)))
        negatives = [index for index in sample.negatives if index not in distractors]
        rng.shuffle(negatives)
        others = [rng.randrange(self.turn_count) for _ in range(TURNS_PER_QUESTION)]
        chosen = [rng.choice(sample.evidence), *distractors, *negatives, *others]
        return chosen[:TURNS_PER_QUESTION]

    def measure(self, table: Table) -> dict[str, float]:
        """Return the recall of the table alone on the development files."""
        torch = self.torch
        question_rows = table.rows.copy()
        question_rows[table.question_pieces] = table.question_rows
        weights = {
            "rows": torch.tensor(table.rows, device=self.device),
            "speaker": table.speaker,
            "before": table.before,
        }
        split = StaticEmbedder().pieces
        for item in self._evaluated:
            turns: list[tuple[str, str, str]] = []
            previous: Turn | None = None
            for turn in item.conversation.turns:
                before = previous.text if previous and previous.session == turn.session else ""
                turns.append((turn.speaker, turn.text, before))
                previous = turn
            pieces = [split(question.text) for question in item.conversation.questions]
            questions = Texts(pieces, torch, self.device).sums(
                torch.tensor(question_rows, device=self.device),
                torch.arange(len(pieces), device=self.device),
            )
            vectors = Turns(turns, torch, self.device).embed(
                weights, torch.arange(len(turns), device=self.device)
            )
            normalize = torch.nn.functional.normalize
            item.similarities = (normalize(questions) @ normalize(vectors).T).cpu().numpy()
        return evaluation.measure(self._evaluated)


def main() -> None:
    """Parse the command line, train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wordllama", type=Path, help="folder of the unpacked WordLlama package")
    parser.add_argument("prepared", type=Path, help="folder that `train_encoder.py prepare` wrote")
    parser.add_argument("encoder", type=Path, help="folder with model.onnx and tokenizer.json")
    parser.add_argument("--device", default="cuda", help="cuda or cpu; default: %(default)s")
    arguments = parser.parse_args()
    pieces = read_pieces(arguments.wordllama)
    vectors = read_vectors(arguments.wordllama)
    write(TARGET, pieces, Table(vectors, np.zeros(0, np.int64)))  # StaticEmbedder reads the pieces
    trainer = Trainer(arguments)
    table = Table(vectors, trainer.question_pieces)
    trainer.log(f"before: {json.dumps(trainer.measure(table))}")
    trainer.train(table)
    trainer.log(f"after: {json.dumps(trainer.measure(table))}")
    write(TARGET, pieces, table)


if __name__ == "__main__":
    main()
