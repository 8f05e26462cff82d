"""The work of each command, in a file with its name; the options are in ``cli/commands/``."""
