"""Benchmarks: one harness, one file a question, results as data with the machine they came from."""
