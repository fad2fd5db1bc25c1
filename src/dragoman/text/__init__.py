"""Processing of texts before and after the model: formats, language detection, segments, checks. No models, no HTTP."""
