"""Stores keys, usage and glossaries in a SQLite file or in PostgreSQL. Only this package imports SQLAlchemy."""
