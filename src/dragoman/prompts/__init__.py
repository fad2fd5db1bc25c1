"""Model profiles: how a segment becomes token ids for a given model. Knows no engine."""
