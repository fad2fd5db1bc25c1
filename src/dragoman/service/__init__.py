"""From a `TranslationRequest` to translations: accounts, admission, the translator, documents as jobs, a server's life.

Knows no wire format.
"""
