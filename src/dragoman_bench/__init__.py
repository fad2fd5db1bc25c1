"""Load tests, reports, the journey and the tuner. Speaks HTTP to any server; installed with the extra `bench`."""
