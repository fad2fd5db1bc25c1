"""Tries to make a server lose, double or mix up what clients sent: load, faults, and a ledger of every call."""
