"""The story, measured: each way of feeding an engine, one after another, on this machine and with this model.

`steps` lists the servers and loads, `claims` the story's statements, both as data; `measure` runs them, `page` reports what was
found, also of dragoman beside `vllm serve`.
"""
