"""Importers of other systems' formats: one module for each, found by its entry point."""
