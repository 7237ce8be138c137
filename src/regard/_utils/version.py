"""The version of regard, which checkpoints record."""

VERSION = "0.1.0"
