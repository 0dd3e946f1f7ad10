"""The weights of memorist's sentence encoder: `model.onnx` and `tokenizer.json` beside this file."""
