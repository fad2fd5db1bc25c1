"""The traffic recorder: what came, how long it was and how long it took, on disk and over the last hour. No text by default.

`recorder` writes, `reader` reads, `window` holds the last hour in memory, `summary` makes distributions of either, `trace`
makes a workload that `dragoman bench --replay` sends again.
"""
