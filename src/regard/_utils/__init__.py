"""Helpers that belong to no package; they import nothing of ours."""
