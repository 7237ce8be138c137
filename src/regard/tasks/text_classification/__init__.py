"""Text classification: a text to one of a few classes."""
