"""Which regard this is: checkpoints say by which one they were written."""

VERSION = "0.1.0"
