"""What the server keeps: stored glossaries, in a SQLite file or in PostgreSQL. SQLAlchemy is imported here alone."""
