"""The commands that the extra `bench` adds to `dragoman`, through entry points."""
