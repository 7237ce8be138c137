"""Briefly trained models, and clients with the token."""

from pathlib import Path

import pytest
from rich.console import Console

from regard._utils import override, write_text
from regard.checkpoint import RunFolder
from regard.contracts import LengthLimit
from regard.recipes import make_run
from regard.tasks import fit, write_report
from tests.shared_folders import make_once
from tests.small_models import LANGUAGE, SENTENCES, TEXTS, train_small_models

pytest.importorskip("fastapi", reason="the studio is an extra")

from fastapi.testclient import TestClient

from regard.studio.app import make_app
from regard.studio.model_registry import ModelRegistry
from regard.studio.state import Studio

NAMES = ("seq2seq", "bahdanau", "luong", "lstmn", "conv_seq2seq", "transformer")
SMALL = ("data.count=64", "data.held_out=8", "data.content.max_dates=1", "training.every.validate=2")
TOKEN, HOST = "a" * 32, "127.0.0.1:1"
TEXT = "5 May 2024"


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Six systems, one of them with an evaluation."""

    def train(root: Path) -> None:
        for name in NAMES:
            run = override(make_run("dates", name, steps=2), *SMALL, "validation.sentences=0")
            fitted = fit(run, root / name, console=Console(quiet=True))
            if name == "bahdanau":
                report = fitted.system.evaluate(run.data.read("test"), split="test", beam=1)
                write_text(RunFolder(root / name).evaluation("test"), write_report(report))

    return make_once(tmp_path_factory, "registry", train)


@pytest.fixture(scope="session")
def studio(folder) -> Studio:
    return Studio(registry=ModelRegistry([folder]))


@pytest.fixture(scope="session")
def client(studio) -> TestClient:
    app = make_app(studio, token=TOKEN, hosts=[HOST])
    with TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as test_client:
        yield test_client


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory) -> Path:
    """Language models, classifiers and a translation model, all briefly trained."""

    def train(root: Path) -> None:
        (root / "runs").mkdir()
        train_small_models(root / "runs", (*LANGUAGE, *SENTENCES), steps=2)
        run = override(make_run("dates", "bahdanau", steps=2), *SMALL, "validation.sentences=0")
        fit(run, root / "runs" / "bahdanau", console=Console(quiet=True))

    return make_once(tmp_path_factory, "small", train) / "runs"


@pytest.fixture(scope="session")
def small_studio(small_folder) -> Studio:
    return Studio(registry=ModelRegistry([small_folder]))


@pytest.fixture(scope="session")
def small_client(small_studio) -> TestClient:
    """A client of a studio with these models."""
    app = make_app(small_studio, token=TOKEN, hosts=[HOST])
    with TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as test_client:
        yield test_client


@pytest.fixture(scope="session")
def inspect_small(small_client):
    """Inspect one of these models."""

    def post(model, text=None):
        answer = small_client.post("/api/inspections", json={"model": model, "text": text or TEXTS[model]})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return post


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """A limit on the length: briefly trained models do not end their outputs."""
    monkeypatch.setattr("regard.tasks.translation.inspection.LIMIT", LengthLimit(factor=1.0, extra=0))


@pytest.fixture
def inspect(client):
    """Inspect a translation model."""

    def post(model, text=TEXT, **more):
        answer = client.post("/api/inspections", json={"model": model, "text": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return post


@pytest.fixture
def weights(client):
    """The exact weights of a head."""
    import numpy as np

    def fetch(inspection, site, head):
        where = f"/api/inspections/{inspection['id']}"
        shape = client.get(f"{where}/weights", params={"site": site, "head": head}).headers
        rows = [
            client.get(
                f"/api/inspections/{inspection['id']}/row", params={"site": site, "head": head, "query": query}
            ).content
            for query in range(int(shape["x-queries"]))
        ]
        return np.stack([np.frombuffer(row, "<f4") for row in rows])

    return fetch
