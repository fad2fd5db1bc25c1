"""Stores keys, usage, glossaries, translation memories and documents, in a SQLite file or in PostgreSQL.

Only this package imports SQLAlchemy.
"""
