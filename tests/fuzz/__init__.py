"""Fuzzing of every parser of bytes that a client sends: one table (`targets.py`), and a command that
runs as many cases as one wishes:

    python -m tests.fuzz --cases 100000 --seed 7

A case is a seed file of the format, changed (`tests/hostile_files/mutations.py`), given to a parser in this process. A parser
may refuse it by one of its errors, or read it; anything else is a finding: another exception, or more CPU time than
`LONGEST_S`. The number of a case and the run's seed make it again.
"""
