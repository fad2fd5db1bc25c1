"""Replicas behind one address, which Ray Serve starts, balances, restarts and updates. Only this package imports ray."""
