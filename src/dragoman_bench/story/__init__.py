"""The story's pipelines, `workers` and `static_batch`: how models were served before continuous batching, for the journey.

The server finds them by entry points (group `dragoman.pipelines`). This package alone of the load tests imports the engine and
the pipelines' contract: it runs within the server, and in worker processes that the server starts.
"""
