"""Finds the engine settings that serve a recorded or specified workload best on this machine, with reasons.

The steps from a trace to `dragoman.toml` are `demand` (the load), `search` (the ladder of concurrent requests, then settings
that need a restart) with `compare` and `memory`, `trial` (starts and measures a server), `final` (comparison with baselines,
and recommendation) and `outputs`. `run` calls them in order; `outcome` defines their data.
"""
