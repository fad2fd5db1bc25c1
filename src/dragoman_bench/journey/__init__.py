"""The story, measured: each way of feeding an engine, one after another, on this machine and with this model.

`steps` lists the servers and loads, `measure` runs them, `claims` has the story and judges it, `page` writes the report;
`versus` compares dragoman with `vllm serve`.
"""
