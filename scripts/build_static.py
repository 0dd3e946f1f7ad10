"""Make the data of the built-in embedder from the weights in the PyPI package `wordllama` 0.4.0.post1 (MIT).

    pip download --no-deps wordllama==0.4.0.post1      # any wheel of it; unpack it
    python scripts/build_static.py UNPACKED/wordllama

The package has 32,000 pieces of words with a vector of 256 half-precision numbers each. Here each vector becomes 256 bytes
and one scale: half the room, and no difference in what is found that could be measured. `static.bin` is one line of JSON
that says what follows, the pieces in the order of their numbers (one a line), the scales, and the rows.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent.parent / "src" / "retain" / "search" / "static.bin"
WEIGHTS = "weights/l2_supercat_256.safetensors"
PIECES = "tokenizers/l2_supercat_tokenizer_config.json"
DIGESTS = {
    WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    PIECES: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}


def read(package: Path, name: str) -> bytes:
    """Return a file of the package after checking its hash."""
    content = (package / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        sys.exit(f"{package / name} is not the expected file: its hash differs")
    return content


def vectors(file: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the matrix of a safetensors file: a length, a JSON header, and the numbers."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    (name,) = header.keys() - {"__metadata__"}
    assert header[name]["dtype"] == "F16"
    rows, columns = header[name]["shape"]
    return (
        np.frombuffer(file, np.float16, offset=8 + size).reshape(rows, columns).astype(np.float32)
    )


def main() -> None:
    """Write the file."""
    package = Path(sys.argv[1])
    matrix = vectors(read(package, WEIGHTS))
    numbers = json.loads(read(package, PIECES))["model"]["vocab"]
    pieces = sorted(numbers, key=numbers.__getitem__)
    assert [numbers[piece] for piece in pieces] == list(range(len(matrix)))
    assert not any("\n" in piece for piece in pieces)
    text = "\n".join(pieces).encode()
    scales = abs(matrix).max(axis=1) / 127
    rows = np.rint(matrix / scales[:, None]).astype(np.int8)
    header = {"identity": f"static-{matrix.shape[1]}@1", "shape": matrix.shape, "text": len(text)}
    parts = [
        json.dumps(header).encode() + b"\n",
        text,
        scales.astype("<f4").tobytes(),
        rows.tobytes(),
    ]
    TARGET.write_bytes(b"".join(parts))
    print(
        f"{TARGET.name}: {TARGET.stat().st_size:,} bytes, sha256 {hashlib.sha256(TARGET.read_bytes()).hexdigest()}"
    )


if __name__ == "__main__":
    main()
