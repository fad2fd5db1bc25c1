"""Translation memories, their entries, and the jobs by which DeepL's clients import and export them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "memories",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("account_id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("account_id", "name"),
    )
    op.create_table(
        "memory_entries",
        sa.Column("memory_id", sa.String(36), sa.ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("source", sa.String(64), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), primary_key=True),
        sa.Column("target", sa.String(64), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("translation", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
    )
    op.create_index("ix_memory_entries_version", "memory_entries", ["memory_id", "version"])
    op.create_table(
        "memory_jobs",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("account_id", sa.String(16), nullable=False, index=True),
        sa.Column("operation", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("memory_id", sa.String(36)),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("content_type", sa.String(127), nullable=False),
        sa.Column("content_length", sa.BigInteger, nullable=False),
        sa.Column("skipped", sa.Integer, nullable=False),
        sa.Column("error_message", sa.Text),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False, index=True),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("memory_jobs")
    op.drop_table("memory_entries")
    op.drop_table("memories")
