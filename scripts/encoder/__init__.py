"""Training of memorist's own sentence encoder: data, samples, model and export."""
