"""vLLM, and the only place that imports it: start, generate, statistics, errors."""
