"""The containers. The tests read Containerfiles with a module of scripts/."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
