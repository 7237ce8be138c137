"""The OpenAPI document, from which the page's types are generated: `python -m regard.studio.openapi`."""

import json
import sys

from regard.studio.app import make_app
from regard.studio.model_registry import ModelRegistry
from regard.studio.state import Studio


def document() -> str:
    # no model, token or host changes the schema
    app = make_app(Studio(registry=ModelRegistry([])), token="", hosts=())
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
