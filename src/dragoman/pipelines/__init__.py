"""How sequences reach an engine: one contract (`base`), `continuous`, two baselines and a fake."""
