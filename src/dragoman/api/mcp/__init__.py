"""`/mcp`: translation as tools of agents, by the Model Context Protocol over streamable HTTP.

`endpoint.py` is the route and imports no library of the protocol: the first request does, in a thread. `server.py` is all that
the official SDK sees and is seen of, and `tools.py` the tools, which use the service as the native API's routes do.
"""
