"""`dragoman memories`: whose each stored translation memory is. What a key has in its own is for `dragoman memory`."""

from __future__ import annotations

from dragoman.cli.owners import OwnedKind, commands
from dragoman.service.stack import memory_store

command = commands(
    OwnedKind("memory", "memories", "pairs", memory_store),
    """List stored translation memories with their owners, share them with all keys, give them to a key, and delete them.

    MEMORY is a name or an id. A memory is of the key that filled it, which alone sees, uses and changes it; all keys see and
    use those that are shared, and only operators change them. Running servers know of changes within auth.refresh_s. A key's
    own memories are imported and exported on a running server: dragoman memory.
    """,
)
