"""The verbs of the command line as functions: same names, meanings and defaults."""
