"""How sequences reach an engine: one contract (`contract`), three real ways and a fake."""
