"""Accounts with their keys, and what they have used."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("characters_per_month", sa.BigInteger),
        sa.Column("requests_per_s", sa.Float),
        sa.Column("languages", sa.String(2000), nullable=False),
        sa.Column("priority", sa.String(16), nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime),
        sa.Column("revoked_at", sa.DateTime),
    )
    op.create_table(
        "account_keys",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(16), sa.ForeignKey("accounts.id"), nullable=False, index=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime),
    )
    op.create_table(
        "usage",
        sa.Column("account_id", sa.String(16), sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("month", sa.String(7), primary_key=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "usage_batches",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("added_at", sa.DateTime, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("usage_batches", "usage", "account_keys", "accounts"):
        op.drop_table(table)
