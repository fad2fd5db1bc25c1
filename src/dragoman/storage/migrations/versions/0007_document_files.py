"""Where the files of a document are, files and segments in the database, and the servers that translate documents."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the tables. The files of documents that are there are in a folder that is not known."""
    op.add_column("documents", sa.Column("place", sa.String(64), nullable=False, server_default=""))
    op.create_table(
        "document_servers",
        sa.Column("owner", sa.String(100), primary_key=True),
        sa.Column("place", sa.String(64), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "document_files",
        sa.Column("blob", sa.String(32), primary_key=True),
        sa.Column("document_id", sa.String(32), nullable=False, index=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("is_complete", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "document_chunks",
        sa.Column("blob", sa.String(32), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "document_segments",
        sa.Column("document_id", sa.String(32), primary_key=True),
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("source", sa.LargeBinary, nullable=False),
        sa.Column("place", sa.LargeBinary, nullable=False),
        sa.Column("context", sa.LargeBinary, nullable=False),
        sa.Column("follows", sa.Boolean, nullable=False),
        sa.Column("translation", sa.LargeBinary),
        sa.Column("confidence", sa.Float),
        sa.Column("warnings", sa.Text, nullable=False),
        sa.Column("doubtful", sa.Boolean, nullable=False),
        sa.Column("edited", sa.Boolean, nullable=False),
        sa.Column("memory", sa.Boolean, nullable=False),
        sa.Column("equal", sa.Integer, nullable=False),
    )
    op.create_index("ix_document_segments_doubtful", "document_segments", ["document_id", "doubtful", "n"])


def downgrade() -> None:
    """Drop the tables, with the documents whose files are in them."""
    op.execute("DELETE FROM documents WHERE place = 'database'")
    op.drop_table("document_segments")
    op.drop_table("document_chunks")
    op.drop_table("document_files")
    op.drop_table("document_servers")
    op.drop_column("documents", "place")
