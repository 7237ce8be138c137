"""The paths of the API, each a few lines around what does the work."""
