"""A winner, made ready for use."""
