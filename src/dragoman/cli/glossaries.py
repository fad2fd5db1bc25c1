"""`dragoman glossaries`: whose each stored glossary is."""

from __future__ import annotations

from dragoman.cli.owners import OwnedKind, commands
from dragoman.service.stack import glossaries

command = commands(
    OwnedKind("glossary", "glossaries", "dictionaries", lambda database, settings: glossaries(database)),
    """List stored glossaries with their owners, share them with all keys, give them to a key, and delete them.

    GLOSSARY is a name or an id. A glossary is of the key that stored it, which alone sees and changes it; all keys see those
    that are shared, and only operators change them. Running servers know of changes at once.
    """,
)
