"""The story, measured: each way of feeding an engine, one after another, on this machine and with this model.

`route` lists the servers and loads, `run` measures them, `claims` and `judging` give the verdicts, `page` writes the report;
`versus` compares dragoman with `vllm serve`.
"""
