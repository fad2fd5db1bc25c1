"""The command line, one file for each command: options, output and exit codes. Other packages do the work."""
