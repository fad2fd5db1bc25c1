"""Reports of results: one HTML page that needs no network, Markdown with the same tables, PNGs for a README."""
