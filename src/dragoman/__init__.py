"""dragoman: a translation server that feeds vLLM's continuous batching, measures its traffic and sizes its engine to it."""

from dragoman.version import version as _version

__version__: str


def __getattr__(name: str) -> str:
    """Find the version when it is asked for: in a source tree that runs git, which processes that ask for none do not need."""
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
