"""Which XLIFF file the translation of a document's segment was taken from, and what that file had replaced."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column."""
    op.add_column("document_segments", sa.Column("base", sa.String(21)))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("document_segments", "base")
