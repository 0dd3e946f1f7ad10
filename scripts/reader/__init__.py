"""Training of the fact reader; `scripts/train_reader.py` is its command."""
