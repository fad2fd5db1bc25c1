"""`dragoman tune`: finds the engine settings that serve a demand best under an SLO, by measuring, and says why.

A search says what to measure next and never measures; a driver measures and never decides; a report tells. They share the
nouns of `points`. Imports `bench` and the ground; knows nothing of the server but its command line and what it tells.
"""
