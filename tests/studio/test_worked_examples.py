"""Worked examples can be inspected, computed and swapped without a trained model."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from regard.studio.app import make_app
from regard.studio.lessons import apple
from regard.studio.model_registry import ModelRegistry
from regard.studio.state import Studio
from regard.studio.worked_examples import EXAMPLES
from tests.studio.conftest import HOST, TOKEN
from tests.studio.test_numbers import printed


@pytest.fixture(scope="module")
def bare():
    """A studio with an empty registry."""
    app = make_app(Studio(registry=ModelRegistry([])), token=TOKEN, hosts=[HOST])
    with TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as inspection:
        yield inspection


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_inspected_and_swapped(name, bare):
    assert name in [card["name"] for card in bare.get("/api/state").json()["models"]]
    inspection = bare.post("/api/inspections", json={"model": name, "text": "whatever was typed"}).json()
    assert inspection["id"] == bare.post("/api/inspections", json={"model": name, "text": ""}).json()["id"]
    assert inspection["input"] == EXAMPLES[name].text and inspection["output"] == ""
    request = {"site": "attention", "query": 1}
    values = bare.get(f"/api/inspections/{inspection['id']}/compute", params=request).json()
    assert sum(values["weights"]) == pytest.approx(1, abs=1e-5)
    for quantity in ("score", "weight", "context"):
        number = bare.get(f"/api/inspections/{inspection['id']}/number", params=request | {"quantity": quantity}).json()
        assert printed(number["snippet"]) == pytest.approx(number["value"], abs=1e-6)
    result = bare.post(f"/api/inspections/{inspection['id']}/swap", json={"site": "attention", "align": "hard"}).json()
    assert result["before"] is None and result["after"] is None and max(result["entropy_after"]) == 0
    assert (
        bare.post(f"/api/inspections/{inspection['id']}/ablate", json={"site": "attention", "head": 0}).status_code
        == 422
    )
    assert bare.get(f"/api/inspections/{inspection['id']}/page", params={"site": "attention"}).status_code == 200
    assert bare.post("/api/predict", json={"model": name, "text": "x"}).status_code == 422


def test_the_apple_has_the_weights_of_its_lesson(bare):
    inspection = bare.post("/api/inspections", json={"model": "example:apple", "text": ""}).json()
    rows = [
        np.frombuffer(
            bare.get(f"/api/inspections/{inspection['id']}/row", params={"site": "attention", "query": query}).content,
            "<f4",
        )
        for query in range(4)
    ]
    shares = apple.SHARES.numpy()
    np.testing.assert_allclose(np.stack(rows), shares / shares.sum(1, keepdims=True), atol=1e-6)
