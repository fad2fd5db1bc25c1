"""APIs of others, spoken so that their clients need no change but the address: one module each.

A module turns its wire format into a `TranslationRequest` and back, and nothing else: admission, accounts, glossaries and
translation are those of the native API. It has a `router`, and `ERROR_FORMATS`: by the beginning of a path the function
that answers a fault as its API does.
"""
