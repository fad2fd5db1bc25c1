"""The story, measured: every way of feeding an engine, one after another, on this machine and model.

`route` says which servers are measured under which loads, `walk` does it, `claims` judges what came out, `story` holds the
numbers it is set beside, `ending` writes the report.
"""
