"""Several whole servers behind one address, placed, balanced, restarted and updated by Ray Serve. The only importer of ray."""
