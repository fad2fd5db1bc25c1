"""Language tags: parsing, normalising, matching against what a model serves, and names.

Tags are BCP-47. Knows nothing of any model's own names for languages: those are a profile's data.
"""
