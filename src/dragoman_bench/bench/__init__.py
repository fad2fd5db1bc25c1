"""Load generation and measurement over HTTP, against any server. Imports nothing of the server itself."""
