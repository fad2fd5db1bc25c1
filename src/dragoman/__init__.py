"""dragoman: a translation server that feeds vLLM's continuous batching, measures its traffic and sizes its engine to it."""

__version__ = "0.1.0"
