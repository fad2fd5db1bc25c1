"""APIs of others, spoken so that their clients need no change but the address: one module each.

A module turns its wire format into a `TranslationRequest` and back, and nothing else: admission, accounts, glossaries and
translation are those of the native API. It has a `router`, and `ERROR_FORMATS`: by the beginning of a path the function
that answers a fault as its API does. `api/app.py` lists them with what else they are to the app.
"""

RETRY_GRACE_S = 5.0
"""How long the work of a client that has given up goes on: the clients of these APIs wait for 5 to 10 s and try again."""
