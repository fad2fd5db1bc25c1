"""Quality of translations: scores against references, hard inputs that must come back whole, and checkpoints."""
