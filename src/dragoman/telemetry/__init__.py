"""What the server knows about itself: engine statistics, request rates, Prometheus metrics."""
