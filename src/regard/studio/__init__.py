"""The studio: a local web page that shows the attention of models, and its API."""

from regard.studio.app import is_built
from regard.studio.serve import serve_studio

__all__ = [
    "is_built",
    "serve_studio",
]
