"""Tests the quality of translations: scores against references, hard inputs with structure, checks of a model."""
