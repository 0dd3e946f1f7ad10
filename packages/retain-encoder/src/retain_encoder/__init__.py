"""The weights of retain's sentence encoder: `model.onnx` and `tokenizer.json` beside this file."""
