"""Classifying sentences: files to learn from, runs over them, and a classifier out of what was learned."""
