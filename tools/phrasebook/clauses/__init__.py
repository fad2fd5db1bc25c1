"""Clauses that combine: verb phrases, adjectives, nouns, subjects and times, inflected into sentences of four languages.

`data/clauses/*.tsv` holds aligned units and the frames that join them. Each language has one module with its morphology, so
that combinations that were never written by hand come out right.
"""
