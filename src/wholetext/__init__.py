"""Byte-exact texts and files: finds what people read in a file, and puts other texts in its place. All else stays as it was.

It knows no server, no model, no network and no settings, and imports nothing of `dragoman`.
"""
