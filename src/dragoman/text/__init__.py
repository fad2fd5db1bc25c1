"""Processing of texts before and after the model: language detection, checks, confidence, glossaries. No models, no HTTP."""
