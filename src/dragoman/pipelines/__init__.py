"""How sequences reach an engine: one contract (`base`), `continuous` and a fake; packages may register others."""
