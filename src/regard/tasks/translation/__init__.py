"""Translation: a source sentence to a target sentence."""
