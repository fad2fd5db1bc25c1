"""What makes the work of a request bounded: folded texts of memories, counts of entries, a glossary's dictionary as one row.

The entries of a memory are searched in their folded form, and counted where they are written, by pair of languages. The terms
of a dictionary, which are read and replaced together, become one JSON object.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from dragoman.storage.folding import folded

revision = "0006"
down_revision = "0005"

_BATCH = 500


def _columns(*names: str) -> list[sa.ColumnClause[Any]]:
    return [sa.column(name) for name in names]


_KEYS = ("memory_id", "source", "digest", "target")
_entries = sa.table(
    "memory_entries",
    *_columns(*_KEYS, "text", "translation", "folded_text", "folded_translation"),
)
_terms = sa.table(
    "glossary_entries",
    *_columns("glossary_id", "source", "target", "term", "translation", "dictionary"),
)
_dictionaries = sa.table(
    "glossary_dictionaries",
    *_columns("glossary_id", "source", "target", "number", "entry_count", "entries"),
)
_OF_DICTIONARY = ("glossary_id", "source", "target")


def upgrade() -> None:
    """Add the columns and tables, and fill them."""
    op.add_column("memory_entries", sa.Column("folded_text", sa.Text))
    op.add_column("memory_entries", sa.Column("folded_translation", sa.Text))
    op.create_table(
        "memory_pairs",
        sa.Column("memory_id", sa.String(36), sa.ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("target", sa.String(64), primary_key=True),
        sa.Column("entry_count", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "glossary_dictionaries",
        sa.Column("glossary_id", sa.String(36), sa.ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("target", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("entry_count", sa.Integer, nullable=False),
        sa.Column("entries", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    _fold(connection)
    _count(connection)
    _join_terms(connection)
    op.drop_table("glossary_entries")


def _fold(connection: sa.Connection) -> None:
    """By batches, so that a large memory needs little of the server's."""
    keys = [_entries.c[name] for name in _KEYS]
    same = sa.and_(*(_entries.c[name] == sa.bindparam(f"at_{name}") for name in _KEYS))
    changed = sa.update(_entries).where(same)
    changed = changed.values(folded_text=sa.bindparam("new_text"), folded_translation=sa.bindparam("new_translation"))
    query = sa.select(*keys, _entries.c.text, _entries.c.translation).order_by(*keys).limit(_BATCH)
    after = query
    while rows := connection.execute(after).all():
        values = [
            {
                **{f"at_{name}": getattr(row, name) for name in _KEYS},
                "new_text": folded(row.text),
                "new_translation": folded(row.translation),
            }
            for row in rows
        ]
        connection.execute(changed, values)
        last = tuple(sa.literal(getattr(rows[-1], name)) for name in _KEYS)
        after = query.where(sa.tuple_(*keys) > sa.tuple_(*last))


def _count(connection: sa.Connection) -> None:
    size = "octet_length({})" if connection.dialect.name == "postgresql" else "length(CAST({} AS BLOB))"
    sizes = f"{size.format('text')} + {size.format('translation')}"
    connection.execute(
        sa.text(
            "INSERT INTO memory_pairs (memory_id, source, target, entry_count, bytes) "
            f"SELECT memory_id, source, target, count(*), sum({sizes}) FROM memory_entries GROUP BY memory_id, source, target"
        )
    )


def _join_terms(connection: sa.Connection) -> None:
    keys = [_terms.c[name] for name in _OF_DICTIONARY]
    number = sa.func.min(_terms.c.dictionary).label("number")
    for row in connection.execute(sa.select(*keys, number).group_by(*keys)).all():
        own = [column == value for column, value in zip(keys, row, strict=False)]
        rows = connection.execute(sa.select(_terms.c.term, _terms.c.translation).where(*own)).all()
        entries = dict(sorted((term, translation) for term, translation in rows))
        new = {"number": row.number, "entry_count": len(entries), "entries": json.dumps(entries, ensure_ascii=False)}
        connection.execute(sa.insert(_dictionaries), [dict(zip(_OF_DICTIONARY, row, strict=False)) | new])


def downgrade() -> None:
    """Put the terms back in rows of their own, and drop the rest."""
    op.create_table(
        "glossary_entries",
        sa.Column("glossary_id", sa.String(36), sa.ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("target", sa.String(64), primary_key=True),
        sa.Column("term", sa.String(500), primary_key=True),
        sa.Column("translation", sa.String(500), nullable=False),
        sa.Column("dictionary", sa.Integer, nullable=False, server_default="0"),
    )
    connection = op.get_bind()
    keys = [_dictionaries.c[name] for name in _OF_DICTIONARY]
    for row in connection.execute(sa.select(*keys, _dictionaries.c.number)).all():
        own = [column == value for column, value in zip(keys, row, strict=False)]
        entries = json.loads(connection.execute(sa.select(_dictionaries.c.entries).where(*own)).scalar_one())
        head = dict(zip(_OF_DICTIONARY, row, strict=False)) | {"dictionary": row.number}
        rows = [{**head, "term": term, "translation": translation} for term, translation in entries.items()]
        if rows:
            connection.execute(sa.insert(_terms), rows)
    op.drop_table("glossary_dictionaries")
    op.drop_table("memory_pairs")
    op.drop_column("memory_entries", "folded_translation")
    op.drop_column("memory_entries", "folded_text")
