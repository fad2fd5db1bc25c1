"""Generates load and measures servers over HTTP. Does not import the server."""
