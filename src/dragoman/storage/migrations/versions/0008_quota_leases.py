"""What each server has set aside of an account's quota, for requests that are not charged yet."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "quota_leases",
        sa.Column("account_id", sa.String(16), primary_key=True),
        sa.Column("server", sa.String(16), primary_key=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("quota_leases")
