"""Alembic's entry point: migrations run over the connection, and in the transaction, that `Database` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
