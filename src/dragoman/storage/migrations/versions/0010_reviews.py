"""What people have done with a document's segments: reviewed them, or edited the machine's translation, which is kept; and what
their marks look like.

What was edited before counts as reviewed; what the machine had written there is not known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("document_segments", sa.Column("machine", sa.LargeBinary))
    op.add_column("document_segments", sa.Column("reviewed", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("document_segments", sa.Column("examples", sa.Integer, nullable=False, server_default="0"))
    op.add_column("document_segments", sa.Column("best_similarity", sa.Float))
    op.add_column("document_segments", sa.Column("looks", sa.Text, nullable=False, server_default="{}"))
    op.execute("UPDATE document_segments SET reviewed = edited")


def downgrade() -> None:
    """Drop the columns. What was reviewed alone counts as edited, as it did before, so that it is not doubtful."""
    op.execute("UPDATE document_segments SET edited = reviewed WHERE reviewed")
    for name in ("machine", "reviewed", "examples", "best_similarity", "looks"):
        op.drop_column("document_segments", name)
