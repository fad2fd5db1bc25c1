"""The command line, one file a command. Talks to people; decides nothing that a library user would miss."""
