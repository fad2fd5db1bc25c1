"""The traffic recorder: when texts arrived, how long they were and how long they took. No text by default.

`recorder` writes them to disk, `entry` is the format and reads it, `summary` makes distributions, `export` makes a workload
that `dragoman bench --replay` sends again.
"""
