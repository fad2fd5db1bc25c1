"""Reports of results: one HTML page that needs no network, and PNGs for a README."""
