"""Model profiles and prompts: turns a segment into token ids for a given model. Knows nothing of engines."""
