"""The owners of glossaries. Those of before, and those that a server of before stores, are the server's, which all keys see.

Their names stay unique as they were. One of a key has its name in another column; `Collections` says why.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_INDEX = "ix_glossaries_own_name"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("glossaries", sa.Column("account_id", sa.String(16), nullable=False, server_default="anonymous"))
    op.add_column("glossaries", sa.Column("own_name", sa.String(200)))
    op.create_index(_INDEX, "glossaries", ["account_id", "own_name"], unique=True)


def downgrade() -> None:
    """Drop the columns. The name of a key's glossary gets its id behind it."""
    op.execute("UPDATE glossaries SET name = substr(own_name, 1, 160) || ' ' || id WHERE own_name IS NOT NULL")
    op.drop_index(_INDEX, "glossaries")
    op.drop_column("glossaries", "own_name")
    op.drop_column("glossaries", "account_id")
