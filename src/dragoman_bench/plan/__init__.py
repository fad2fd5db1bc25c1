"""Capacity planning: how many replicas a recorded traffic needs, from measurements of one. Nothing is measured here."""
