"""The studio: a local web page that shows attention at work, and the API behind it."""

from regard.studio.app import is_built
from regard.studio.serve import serve_studio

__all__ = [
    "is_built",
    "serve_studio",
]
