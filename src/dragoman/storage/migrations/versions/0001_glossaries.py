"""Glossaries and their entries."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "glossaries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "glossary_entries",
        sa.Column("glossary_id", sa.String(36), sa.ForeignKey("glossaries.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("target", sa.String(64), primary_key=True),
        sa.Column("term", sa.String(500), primary_key=True),
        sa.Column("translation", sa.String(500), nullable=False),
    )


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("glossary_entries")
    op.drop_table("glossaries")
