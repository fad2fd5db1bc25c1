"""The order in which a glossary's dictionaries were created. Those of before keep the order of their languages."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("glossary_entries", sa.Column("dictionary", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("glossary_entries", "dictionary")
