"""What the server records and reports of itself: calls and their texts, metrics, rates, traces, logs, traffic."""
