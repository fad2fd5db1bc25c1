"""The unmodified clients of other APIs against a real server: `make clients`."""
