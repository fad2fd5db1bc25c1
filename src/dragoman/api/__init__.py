"""HTTP: wire formats become `TranslationRequest`s here, and results and errors become wire formats again."""
