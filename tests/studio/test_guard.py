"""Who may ask, and what happens to the hostile."""

import pytest
from fastapi.testclient import TestClient

from regard.studio.app import make_app
from tests.studio.conftest import HOST, TOKEN

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def stranger(studio):
    """A client without a token."""
    return TestClient(make_app(studio, token=TOKEN, hosts=[HOST]), base_url=f"http://{HOST}")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer b"}, {"Authorization": TOKEN}, {"Cookie": TOKEN}])
@pytest.mark.parametrize("path", ["/api/state", "/api/openapi.json", "/api/inspections/x/weights", "/api/nothing"])
def test_without_the_token_there_is_no_answer(stranger, headers, path):
    answer = stranger.get(path, headers=headers)
    assert answer.status_code == 401 and "regard studio" in answer.json()["detail"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:1", "127.0.0.1.evil:1", "127.0.0.1@evil.example:1", "[::2]:1", ""]
)
@pytest.mark.parametrize("path", ["/", "/api/state"])
def test_another_host_is_refused_whatever_it_knows(stranger, host, path):
    answer = stranger.get(path, headers=ALLOWED | {"Host": host})
    assert answer.status_code == 400 and answer.text == "Invalid host header"
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "127.0.0.1:80"])
def test_the_port_may_be_that_of_a_tunnel(stranger, host):
    assert stranger.get("/api/state", headers=ALLOWED | {"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("allowed", "host"), [("[::1]:5", "[::1]:5"), ("[::1]", "[::1]:5"), ("Machine:5", "machine:5")]
)
def test_hosts_are_names_or_addresses(studio, allowed, host):
    client = TestClient(make_app(studio, token=TOKEN, hosts=[allowed]), base_url=f"http://{HOST}", headers=ALLOWED)
    assert client.get("/api/state", headers={"Host": host}).status_code == 200
    assert client.get("/api/state").status_code == 400


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/nothing", "/nothing.js"])
def test_every_answer_is_kept_in(client, path):
    headers = client.get(path, headers={"Origin": "https://evil.example"}).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert "script-src 'self';" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert not [name for name in headers if name.startswith("access-control")]


def test_a_preflight_gets_no_permission(client):
    request = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/inspections", headers=request)
    assert answer.status_code == 405 and "access-control-allow-origin" not in answer.headers


def test_a_body_of_ten_megabytes_is_refused(client):
    body = b'{"model": "bahdanau", "text": "' + b"x" * 10_000_000 + b'"}'
    answer = client.post("/api/inspections", content=body)
    assert answer.status_code == 413 and "Send less" in answer.json()["detail"]


def test_so_is_one_that_does_not_say_how_long_it_is(client):
    def drip():
        yield b'{"model": "bahdanau", "text": "'
        for _ in range(20):
            yield b"x" * 100_000

    assert client.post("/api/inspections", content=drip()).status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2f..%2fapp.py", "/api/runs/lines?name=../../etc",
     "/api/runs/lines?name=%2fetc%2fpasswd", "/\x00", "/api/inspections/..%2f..%2fx/heads", "/assets//etc/passwd"],
)  # fmt: skip
def test_no_path_leads_outside(client, path):
    answer = client.get(path.replace("\x00", "%00"))
    assert answer.status_code in (400, 404, 405) and "root:" not in answer.text


@pytest.mark.parametrize(
    "text",
    ["\x00", "a\x00b", "\u202eabc", "\u200b", "<script>alert(1)</script>", "👩‍👩‍👧‍👦", "ﷺ" * 300, "\ufeff\uffff"],
)
def test_strange_letters_are_letters(client, text):
    answer = client.post("/api/inspections", json={"model": "bahdanau", "text": text})
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert answer.headers["content-type"] == "application/json" and answer.json()["input"] == text


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"model": 1}', b'{"model": "x", "text": "\\ud800"}', b'{"model":"x","text":"","y":1}',
     b'{"model": "bahdanau", "text": NaN}', b"\xff\xfe", b'{"model": "bahdanau", "text": "' + b"x" * 4001 + b'"}',
     b'{"model": "\\u0000", "text": "a"}', b"[" * 100_000],
)  # fmt: skip
def test_bodies_that_are_none(client, body):
    answer = client.post("/api/inspections", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500 and isinstance(answer.json()["detail"], str)


def test_a_bug_of_ours_is_no_sentence_of_the_users(studio, monkeypatch):
    def broken(*_):
        raise ValueError("2 is not in list")

    monkeypatch.setattr("regard.studio.routes.inspections.heads.all_heads", broken)
    app = make_app(studio, token=TOKEN, hosts=[HOST])
    client = TestClient(app, base_url=f"http://{HOST}", headers=ALLOWED, raise_server_exceptions=False)
    inspection = client.post("/api/inspections", json={"model": "bahdanau", "text": "5 May 2024"}).json()
    assert client.get(f"/api/inspections/{inspection['id']}/heads").status_code == 500
