"""From the command to the open page."""

import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from regard.serving.guard import own_token
from regard.serving.server import bind, names_of
from regard.studio.serve import is_finished, make_studio


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_the_token_is_random_private_and_stays(tmp_path):
    token = own_token()
    assert len(token) == 48 and own_token() == token
    path = tmp_path / "home" / "regard" / "studio-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    recorded = own_token()
    assert recorded != token and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    assert own_token() not in (recorded, "short")


def test_a_home_that_cannot_be_written_to_is_no_reason_to_fail(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert len(own_token()) == 48


def test_hosts_are_those_of_the_address():
    assert names_of("127.0.0.1", 5) == ["127.0.0.1:5", "localhost:5", "[::1]:5"]
    assert names_of("192.0.2.7", 5) == ["192.0.2.7:5"] and names_of("::1", 5)[0] == "[::1]:5"
    assert {"127.0.0.1:5", "localhost:5", f"{socket.gethostname().lower()}:5"} <= set(names_of("0.0.0.0", 5))
    assert "127.0.0.1" in names_of("127.0.0.1", 80)


def test_a_port_that_is_taken_is_left_or_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ValueError, match="Choose another with --port"):
            bind("127.0.0.1", taken.getsockname()[1])
    first, second = bind("127.0.0.1", None), None
    first.listen()
    second = bind("127.0.0.1", None)
    assert second.getsockname()[1] > first.getsockname()[1]
    first.close(), second.close()


def test_folders_that_hold_nothing_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no checkpoint in"):
        make_studio([tmp_path / "empty"])
    with pytest.raises(ValueError, match="is not a folder"):
        make_studio([tmp_path / "nowhere"])


def test_with_nothing_to_look_at_a_demo_begins(monkeypatch, tmp_path):
    from regard.studio import serve

    class Still(serve.DemoTraining):
        def __init__(self, folder):
            super().__init__(folder, (sys.executable, "-c", "import sys; sys.exit('no luck')"))

    monkeypatch.setattr(serve, "DemoTraining", Still)
    studio = make_studio([])
    assert studio.demo_training.folder == tmp_path / "home" / "regard" / "demo"
    for _ in range(100):
        report = studio.demo_training.report()
        if report.problem:
            break
        time.sleep(0.05)
    assert "no luck" in report.problem and report.count == 3 and report.share == 0
    assert "no luck" in studio.demo_training.report().problem
    studio.close()


def test_one_studio_trains_and_another_watches(tmp_path):
    from regard.studio.demo_training import DemoTraining

    still = (sys.executable, "-c", "import sys, time; sys.stderr.write('x' * 300_000); time.sleep(60)")
    first, second = (DemoTraining(tmp_path / "demo", still) for _ in range(2))
    first.start()
    second.start()
    assert first.report() is not None and second.report() is not None and second._process is None
    second.stop()
    assert first.report() is not None
    first.stop()
    # whoever waited goes on in its place
    assert second.report() is not None and second._process is not None
    second.stop()


def test_a_home_that_cannot_be_made_is_told_and_the_page_opens(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    studio = make_studio([])
    assert "no model can be trained" in studio.demo_training.report().problem
    studio.close()


def test_what_trains_in_the_background_ends_with_whoever_began_it(tmp_path):
    from regard.studio.demo_training import ENDS_WITH_PARENT

    child = subprocess.Popen([sys.executable, "-c", ENDS_WITH_PARENT, "studio", "--help"], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    child.stdin.close()
    assert child.wait(30) in (0, 1)


@pytest.mark.parametrize("host", ["", "x" * 70 + "é"])
def test_hosts_that_are_none(host):
    with pytest.raises(ValueError, match="--host"):
        bind(host, None)


def test_the_last_demo_is_opened(folder, tmp_path):
    from regard._utils import DEMO_SYSTEMS, save_last_demo

    demo = tmp_path / "shown"
    demo.mkdir()
    for name in DEMO_SYSTEMS:
        shutil.copytree(folder / name, demo / name)
    save_last_demo(demo)
    assert is_finished(demo)
    cards, _ = make_studio([]).registry.cards()
    assert [card.name for card in cards if not card.fixed_input] == list(DEMO_SYSTEMS)
    shutil.rmtree(demo / "bahdanau")
    (demo / "bahdanau").symlink_to(folder / "bahdanau")
    assert not is_finished(demo)


def test_the_token_can_be_replaced(tmp_path):
    first = own_token()
    second = own_token(new=True)
    assert first != second == own_token() and len(second) == 48
    (tmp_path / "home" / "regard" / "studio-token").unlink()
    (tmp_path / "home" / "regard" / "studio-token" / "x").mkdir(parents=True)
    # the caller must not believe that the old token is refused
    with pytest.raises(ValueError, match="old one is still valid"):
        own_token(new=True)


class OneRequest:
    """A server that ends at once, and what its start left in the user's folder."""

    def __init__(self, app):
        pass

    def run(self, sockets):
        sockets[0].close()


@pytest.mark.parametrize("is_writable", [True, False])
def test_the_token_is_not_on_the_command_line_of_the_browser(folder, monkeypatch, tmp_path, is_writable):
    from regard.studio import serve

    opened, printed, ends = [], [], []
    if not is_writable:
        (tmp_path / "home").write_text("")

    class Now:
        def __init__(self, target, args, daemon):
            self.start = lambda: target(*args)

    def open_browser(address):
        path = Path(address.removeprefix("file://"))
        opened.append((address, path.read_text() if is_writable else "", path))
        if is_writable:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600

    monkeypatch.setattr(serve.threading, "Thread", Now)
    monkeypatch.setattr(serve.webbrowser, "open", open_browser)
    monkeypatch.setattr(serve, "BoundedServer", OneRequest)
    monkeypatch.setattr(serve.os, "_exit", ends.append)
    serve.serve_studio([folder], host="127.0.0.1", port=None, browser=True, show=printed.append)
    ((address, page, path),) = opened
    token = printed[0].partition("token=")[2]
    assert token and token not in address and ends == [0]
    if is_writable:
        assert printed[0] in page and not path.exists(), "the file is removed when the studio ends"
    else:
        assert address.startswith("http://127.0.0.1:") and address.endswith("/")


def half_open(port):
    """A connection with half a header, and without a token."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    return connection


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files")
def test_the_command_serves_the_page_and_the_api_beside_300_half_requests(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "regard", "studio", str(folder), "--no-browser", "--port", str(port)]
    command = ["sh", "-c", f"ulimit -n 256; exec {shlex.join(words)}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        message = server.stdout.readline()
        address = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\w+)", message)
        for _ in range(200):
            try:
                page = httpx.get(address[1])
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        assert "<html" in page.text or "make page" in page.text
        state = httpx.get(f"{address[1]}/api/state", headers={"Authorization": f"Bearer {address[2]}"}).json()
        assert sum(not card["fixed_input"] for card in state["models"]) == 6
        connections = [half_open(port) for _ in range(300)]
        again = httpx.get(f"{address[1]}/api/state", headers={"Authorization": f"Bearer {address[2]}"}, timeout=15)
        assert again.status_code == 200
        for connection in connections:
            connection.close()
    finally:
        server.terminate()
        assert server.wait(timeout=20) in (0, -15)
