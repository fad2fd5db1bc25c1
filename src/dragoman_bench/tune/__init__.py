"""Finds the engine settings that serve a recorded or stated workload best on this machine, and says why.

From a trace to `dragoman.toml`: `demand` (what is sent), `search` (the ladder: how many requests at once; then settings that
need a server of their own) with `compare` and `memory`, `trial` (one server started and measured), `final` (against the
baselines, and what is recommended), `outputs`. `run` has their order, `outcome` their data.
"""
