"""What the server keeps: keys, usage and glossaries, in a SQLite file or in PostgreSQL. SQLAlchemy is imported here alone."""
