"""What makes the package's data; not installed."""
