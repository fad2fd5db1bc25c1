"""Documents that are translated, one row each. Their files are in a folder."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "documents",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account_id", sa.String(16), nullable=False, index=True),
        sa.Column("secret_digest", sa.String(64), nullable=False),
        sa.Column("api", sa.String(16), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64)),
        sa.Column("detected", sa.Boolean, nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("characters_done", sa.BigInteger, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("segments_done", sa.Integer, nullable=False),
        sa.Column("doubtful", sa.Integer, nullable=False),
        sa.Column("edits", sa.Integer, nullable=False),
        sa.Column("seconds_remaining", sa.Float),
        sa.Column("report", sa.Text, nullable=False),
        sa.Column("error_code", sa.String(32)),
        sa.Column("error_message", sa.Text),
        sa.Column("charged", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False, index=True),
        sa.Column("owner", sa.String(100)),
        sa.Column("heartbeat_at", sa.DateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retry_at", sa.DateTime),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("documents")
