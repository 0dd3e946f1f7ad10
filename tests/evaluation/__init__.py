"""Tests of the evaluation on benchmark files."""
