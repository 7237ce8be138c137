"""The studio: a local web page that shows attention at work, and the API behind it."""
