"""The journey: measures each way of feeding an engine, from one worker process to continuous batching, on this machine.

`steps` defines the servers and loads, `claims` the statements of the story (a team's report on such a change) as data;
`measure` runs the steps, and `page` writes the results, also the comparison of dragoman with `vllm serve`.
"""
