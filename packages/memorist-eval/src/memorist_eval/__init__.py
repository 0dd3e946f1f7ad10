"""Evaluation: search and answers on LoCoMo, LongMemEval and BEAM files of the user."""
