"""Training of retain's own sentence encoder: data, samples, model and export."""
