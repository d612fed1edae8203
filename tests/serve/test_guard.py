"""Who may talk to the server, and what it makes of requests that make no sense."""

import asyncio
import http.client
import json
import urllib.parse

import pytest

from azjax.serve.app import Server, make_app
from azjax.serve.guard import LONGEST_BODY, Guard
from azjax.serve.runs import Folders
from azjax.training.checkpoint import RunError
from tests.serve.conftest import GAME

HEX3 = {"game": "hex", "size": 3}


def call(app, path="/api/status", method="POST", body=b"{}", **headers):
    """(status, headers, answer) of one request to an application, without a network."""
    headers = {"host": "localhost:8477", "content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (name.encode(), value.encode("latin-1")) for name, value in headers.items() if value is not None
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8477),
        "scheme": "http",
        "root_path": "",
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, answer


@pytest.fixture(scope="module")
def app():
    return make_app(Server(Folders([]), GAME))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "[::1]:8477"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8477"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": None}, 421),
        ({"origin": "http://localhost:8477"}, 200),
        ({"origin": "http://localhost:1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "http://[::bad]"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_length": str(LONGEST_BODY + 1)}, 413),
        ({"content_length": "9" * 30}, 413),
        ({"content_length": "-1"}, 400),
    ],
)
def test_other_hosts_and_origins_and_forms_are_refused(app, headers, status):
    found, _, answer = call(app, **headers)
    assert found == status
    assert (status == 200) == ("error" not in json.loads(answer))


def test_bodies_that_grow_beyond_the_limit_are_refused(app):
    assert call(app, "/api/position", body=b" " * (LONGEST_BODY + 1))[0] == 413


def test_a_token_is_taken_from_the_address_a_cookie_or_a_header_and_nothing_else_will_do():
    app = make_app(Server(Folders([]), GAME), hosts=["lab.example"], token="correct-horse-battery")
    at = {"host": "lab.example:8477"}
    assert call(app, "/", "GET", **at)[0] == 401
    assert (
        call(app, "/", "GET", host="192.168.1.5:8477")[0] == 401
    )  # an address is a name that nobody can forge
    assert call(app, "/", "GET", host="other.example")[0] == 421
    assert call(app, "/?token=wrong", "GET", **at)[0] == 401
    assert call(app, "/?token=", "GET", **at)[0] == 401
    status, headers, _ = call(app, "/?token=correct-horse-battery", "GET", **at)
    assert (
        status == 200 and "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]
    )
    assert call(app, cookie="a=b; azjax_token=correct-horse-battery", **at)[0] == 200
    assert call(app, authorization="Bearer correct-horse-battery", **at)[0] == 200
    assert call(app, authorization="Bearer caf\xe9", **at)[0] == 401


def test_the_page_runs_no_foreign_script(app):
    status, headers, page = call(app, "/", "GET")
    assert status == 200 and b"http://" not in page and b"https://" not in page
    assert "script-src 'self'" in headers["content-security-policy"]
    for name in ("page.js", "board.js", "style.css", "board.css"):
        status, _, text = call(app, f"/{name}", "GET")
        addresses = [word for word in text.split(b'"') if word.startswith((b"http:", b"https:"))]
        assert status == 200 and set(addresses) <= {b"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/static/app.py",
        "/app.py",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/index.html/../app.py",
    ],
)
def test_no_other_file_is_ever_sent(app, path):
    status, _, answer = call(app, urllib.parse.unquote(path), "GET")
    assert status == 404 and "error" in json.loads(answer)


@pytest.mark.parametrize(
    "text",
    [
        "gtp:touch /tmp/x",
        "human",
        "az:/etc",
        "az:../tiny",
        "az:tiny/../tiny?sims=1",
        "/etc/passwd",
        "net:.",
        "uct:99999999",
        "uct:100?playouts=9999",
        "az:tiny?sims=100000",
        "alphabeta?depth=50",
        "hexy?width=100",
        "perfect?seconds=9999",
        "random?" + "x" * 600,
        "",
        7,
        None,
    ],
)
def test_agents_that_would_run_programs_read_elsewhere_or_never_end_are_refused(server, ask, text):
    status, told = ask("move", HEX3 | {"agent": text})
    assert status in (400, 404) and told["error"] and not server.office.status().count({"agent": text})


def test_agents_that_search_until_they_are_done_are_given_a_time(server):
    assert server.resolve("hexy") == "hexy?seconds=5"
    assert server.resolve("perfect?all_moves=1") == "perfect?all_moves=1&seconds=5"
    assert server.resolve("alphabeta?seconds=2") == "alphabeta?seconds=2"


@pytest.mark.parametrize(
    "what", ["position", "move", "analyse", "truth", "tree", "graph", "read", "write", "suite"]
)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"nonsense",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"game": "hex", "size": 3, "moves": [1e999]}',
        b'{"game": "hex", "size": 3, "moves": {"a": 1}}',
        b'{"game": ["hex"], "agent": "random"}',
        b'{"size": 99999999999999999999}',
    ],
)
def test_garbage_is_answered_with_a_sentence(ask, what, body):
    status, told = ask(what, body)
    assert 400 <= status < 500 and isinstance(told["error"], str) and told["error"]


@pytest.mark.parametrize(
    ("what", "fields"),
    [
        ("analyse", {"maxVisits": 0}),
        ("analyse", {"maxVisits": 10**9}),
        ("analyse", {"maxVisits": True}),
        ("analyse", {"analyzeTurns": [5]}),
        ("analyse", {"analyzeTurns": [0] * 5000}),
        ("analyse", {"includePolicy": 1}),
        ("analyse", {"id": [1]}),
        ("analyse", {"action": "format_disk"}),
        ("move", {"simulations": -1}),
        ("move", {"seconds": 1e9}),
        ("move", {"seed": "x"}),
        ("tree", {"simulations": 10**6}),
        ("truth", {"seconds": float("inf")}),
        ("truth", {"from": 9}),
        ("write", {"players": ["a"]}),
        ("run", {"run": "../tiny"}),
        ("run", {"run": "/etc"}),
        ("selfplay", {"run": ""}),
        ("suite", {"suite": "/etc/passwd"}),
    ],
)
def test_numbers_and_names_are_bounded(ask, what, fields):
    status, told = ask(what, HEX3 | {"agent": "uct:3"} | fields)
    assert status in (400, 404) and told["error"]


def test_an_error_tells_field_and_id(ask):
    status, told = ask("analyse", HEX3 | {"id": "q7", "agent": "uct:3", "moves": ["z9"]})
    assert status == 400 and told["id"] == "q7" and told["field"] == "moves"


def test_folders_without_runs_are_refused(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        Folders([tmp_path])
    with pytest.raises(RunError, match="no folder"):
        Folders([tmp_path / "nowhere"])


def test_a_link_in_a_folder_of_runs_leads_nowhere(run_folder, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text((run_folder / "tiny" / "config.json").read_text())
    (tmp_path / "link").symlink_to(run_folder / "tiny")
    assert list(Folders([tmp_path]).all()) == ["own"]


def test_a_thousand_clients_and_garbage_on_the_line_are_survived(address):
    port = urllib.parse.urlsplit(address).port
    body = json.dumps(HEX3 | {"moves": ["a1"]}).encode()
    request = (
        b"POST /api/position HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
    )
    garbage = [
        b"\x00\xff" * 50,
        b"GET",
        b"POST /api/move HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
    ]

    async def talk(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request if number % 10 else garbage[number // 10 % 3])
        await writer.drain()
        if number % 10 == 0:
            writer.close()
            return None
        answer = await reader.read()
        writer.close()
        return answer

    async def everybody():
        return await asyncio.wait_for(asyncio.gather(*map(talk, range(1000))), 60)

    answers = [answer for answer in asyncio.run(everybody()) if answer is not None]
    assert len(answers) == 900
    assert all(answer.startswith(b"HTTP/1.1 200") and b'"pieces":[[0,0]]' in answer for answer in answers)
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    line.request("GET", "/")
    assert line.getresponse().status == 200
    line.close()


def test_the_guard_lets_no_other_protocol_through():
    async def nothing(*_):
        raise AssertionError("reached the application")

    asyncio.run(Guard(nothing)({"type": "websocket"}, nothing, nothing))
