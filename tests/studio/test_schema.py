"""The page's copy of the schema is up to date, and no request that fits it gives a server error."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from regard.studio.openapi import document
from tests.studio.conftest import HOST, TOKEN

schemathesis = pytest.importorskip("schemathesis")

WEB = Path(__file__).parents[2] / "web"


def test_the_page_has_the_schema_of_the_server():
    assert (WEB / "openapi.json").read_text() == document(), "python -m regard.studio.openapi > web/openapi.json"


OPERATIONS = [
    operation.ok() for operation in schemathesis.openapi.from_dict(json.loads(document())).get_all_operations()
]


def set_parameters(case, inspection):
    """Replace invented names of a case by existing ones."""
    if "/inspections/{name}" in case.path:
        case.path_parameters["name"] = inspection["id"]
    if "site" in (case.query or {}):
        case.query["site"] = inspection["sites"][1]["path"]
    if isinstance(case.body, dict):
        parameters = {"model": inspection["model"], "site": inspection["sites"][1]["path"]}
        case.body |= {name: value for name, value in parameters.items() if name in case.body}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_no_request_gives_a_server_error(operation, client, inspect):
    # an experiment would run on after the test
    if operation.method == "post" and "experiments" in operation.path:
        pytest.skip("starts work of minutes")
    inspection = inspect("bahdanau")
    cases = (operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode)

    @settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True, database=None)
    @given(case=strategies.one_of(*cases), aimed=strategies.booleans())
    def ask(case, aimed):
        if aimed:
            set_parameters(case, inspection)
        sent = case.as_transport_kwargs(base_url=f"http://{HOST}")
        sent["headers"] = {**sent.get("headers", {}), "Authorization": f"Bearer {TOKEN}"}
        sent.pop("cookies", None)
        answer = client.request(**sent)
        assert answer.status_code < 500, answer.text

    ask()
