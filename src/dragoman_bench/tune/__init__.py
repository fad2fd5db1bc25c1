"""Finds the engine settings that serve a recorded or stated workload best on this machine, and says why.

From a trace to `dragoman.toml`: `demand` (what is sent), `ladder` (how many requests at once), `knobs` and `memory` (the
settings that need a server of their own), `trial` (one server started and measured), `final` (against the baselines),
`recommend`, `outputs`. `search` runs them in this order; `watch` looks at a running server.
"""
