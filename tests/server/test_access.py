"""Who gets in, and as whom."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar, Request, Response, get, post
from litestar.datastructures import State

from dashcam.errors import AccessDenied, DashcamError, SettingsError
from dashcam.server.access import (
    BEARER_OR_BASIC,
    Caller,
    Doorman,
    check_start,
    headers_of,
    list_projects,
)
from dashcam.server.origins import is_loopback
from dashcam.store.control import Control

ALL = frozenset(("ingest", "read", "admin"))
KEYLESS = frozenset(("ingest", "read"))
LOCAL = {"host": "localhost:4680"}
UNKNOWN = "dck_" + "x" * 43


@pytest.fixture
def control(data: Path) -> Iterator[Control]:
    with Control(data) as opened:
        yield opened


@pytest.fixture
def local(control: Control) -> Doorman:
    """At the door of a server for this machine, where no key is needed."""
    return Doorman(control, host="127.0.0.1", project="default", require_key=False)


@pytest.fixture
def public(control: Control) -> Doorman:
    """At the door of a server that others can reach."""
    return Doorman(control, host="0.0.0.0", project="default", require_key=False)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def refusal(doorman: Doorman, headers: dict[str, str], right: str = "read", **more: Any) -> AccessDenied:
    """How the doorman refuses this. The caller learns what to do next."""
    with pytest.raises(AccessDenied) as caught:
        doorman.admit(headers, right, **more)
    assert "dashcam keys create" in str(caught.value)
    return caught.value


WAYS = {
    "bearer": lambda key: {"authorization": f"Bearer {key}"},
    "bearer in other case": lambda key: {"authorization": f"bEARER  {key} "},
    "basic": lambda key: {"authorization": basic("pk-whatever", key)},
    "basic without a user": lambda key: {"authorization": basic("", key)},
    "raw": lambda key: {"authorization": key},
    "x-api-key": lambda key: {"x-api-key": key},
    "x-api-key beside credentials of somebody else": lambda key: {"x-api-key": key, "authorization": basic("a", "b")},
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


# A key, wherever the server is


@ways
@pytest.mark.parametrize("door", ["local", "public"])
def test_a_key_brings_its_project_and_its_rights(
    way: Any, door: str, control: Control, request: pytest.FixtureRequest
) -> None:
    doorman: Doorman = request.getfixturevalue(door)
    key, text = control.create("shop", ["read"])
    expected = Caller(project="shop", rights=frozenset({"read"}), key_id=key.id)
    assert doorman.admit(way(text), "read") == expected  # without a Host header: containers call us by any name
    assert doorman.admit(way(text) | {"host": "dashcam.internal"}, "read", "shop") == expected
    for right in ("ingest", "admin"):
        assert refusal(doorman, way(text), right).status == 403
    assert refusal(doorman, way(text), "read", project="default").status == 403
    assert refusal(doorman, way(text), "read", project="../shop").status == 403


@ways
@pytest.mark.parametrize("door", ["local", "public"])
def test_a_key_of_ours_that_is_not_valid_is_refused_even_where_none_is_needed(
    way: Any, door: str, control: Control, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    doorman: Doorman = request.getfixturevalue(door)
    revoked, revoked_text = control.create("p", ["admin"])
    control.revoke(revoked.id)
    _, ended = control.create("p", ["admin"], expires_at=int(time.time() * 1000) + 60_000)
    monkeypatch.setattr("dashcam.store.control._now", lambda: int(time.time() * 1000) + 61_000)
    for text in (UNKNOWN, revoked_text, ended, "dck_", "dck_short", f"{UNKNOWN}x"):
        error = refusal(doorman, way(text) | LOCAL)
        assert (error.status, error.headers) == (401, {"WWW-Authenticate": "Bearer"})
        assert text == "dck_" or text not in str(error)


def test_rights_are_what_the_key_has_and_admin_has_all(public: Doorman, control: Control) -> None:
    granted = {("ingest",): {"ingest"}, ("ingest", "read"): {"ingest", "read"}, ("admin",): ALL}
    for rights, may in granted.items():
        _, text = control.create("p", rights)
        for right in ALL:
            if right in may:
                assert public.admit({"x-api-key": text}, right).rights == may
            else:
                assert refusal(public, {"x-api-key": text}, right).status == 403


def test_the_user_of_basic_credentials_says_nothing(public: Doorman, control: Control) -> None:
    mine, text = control.create("mine", ["read"])
    theirs, other = control.create("theirs", ["read"])
    assert public.admit({"authorization": basic(theirs.id, text)}, "read").key_id == mine.id
    assert refusal(public, {"authorization": basic(text, "")}).status == 401
    assert public.admit({"authorization": f"Bearer {text}", "x-api-key": other}, "read").key_id == mine.id


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic !",
        "Basic dck_" + "x" * 43,
        "Basic " + "A" * 5,
        "Basic //79",
        "Basic é",
        "Bearer",
        "",
        "Digest x",
    ],
)
def test_credentials_that_cannot_be_read_are_none(local: Doorman, public: Doorman, header: str) -> None:
    assert refusal(public, {"authorization": header}).status == 401
    assert local.admit({"authorization": header} | LOCAL, "read").key_id is None


# Without a key


@pytest.mark.parametrize("right", sorted(KEYLESS))
def test_on_this_machine_no_key_is_needed(local: Doorman, right: str) -> None:
    assert local.admit(LOCAL, right) == Caller(project="default", rights=KEYLESS, key_id=None)
    assert local.admit(LOCAL, right, "shop").project == "shop"


def test_without_a_key_nobody_makes_keys(local: Doorman) -> None:
    """One made so would open the door long after."""
    assert refusal(local, LOCAL, "admin").status == 403


@ways
@pytest.mark.parametrize("dummy", ["sk-lf-1234", "pylf_v1_us_x", "none", "DCK_" + "x" * 43])
def test_a_key_of_something_else_is_as_good_as_none(way: Any, dummy: str, local: Doorman, public: Doorman) -> None:
    assert local.admit(way(dummy) | LOCAL, "ingest").key_id is None
    error = refusal(public, way(dummy), "ingest")
    assert error.status == 401
    assert dummy not in str(error)


@pytest.mark.parametrize("project", ["", "..", "../x", "a/b", "a\0", ".hidden", "x" * 65, "control.db"])
def test_what_is_no_name_of_a_project_is_refused(local: Doorman, project: str) -> None:
    with pytest.raises(SettingsError, match="can't name a project") as caught:
        local.admit(LOCAL, "read", project)
    assert caught.value.status == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.com", ""])
def test_beyond_this_machine_a_key_is_needed(control: Control, host: str) -> None:
    doorman = Doorman(control, host=host, project="default", require_key=False)
    error = refusal(doorman, LOCAL)
    assert (error.status, error.headers) == (401, {"WWW-Authenticate": "Bearer"})


def test_a_key_can_be_required_on_this_machine_too(control: Control) -> None:
    doorman = Doorman(control, host="127.0.0.1", project="default", require_key=True)
    assert refusal(doorman, LOCAL).status == 401
    _, text = control.create("p", ["read"])
    assert doorman.admit({"x-api-key": text}, "read").project == "p"


def test_a_route_for_clients_that_know_only_basic_asks_for_it(public: Doorman) -> None:
    error = refusal(public, {}, challenge=BEARER_OR_BASIC)
    assert error.headers == {"WWW-Authenticate": 'Bearer, Basic realm="dashcam"'}


def test_who_was_refused_is_counted_by_status(public: Doorman, control: Control) -> None:
    _, text = control.create("p", ["read"])
    for headers in ({}, {"x-api-key": UNKNOWN}, {"x-api-key": text}):
        refusal(public, headers, "admin")
    public.admit({"x-api-key": text}, "read")
    assert public.refused == {401: 2, 403: 1}


# Names and pages of others

HOSTS = [
    "localhost",
    "LocalHost:4680",
    "localhost:80",
    "127.0.0.1",
    "127.0.0.1:4680",
    "127.9.9.9:1",
    "[::1]",
    "[::1]:4680",
]
FOREIGN_HOSTS = [
    "", "evil.example", "evil.example:4680", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.1.4:4680",
    "0.0.0.0:4680", "[::]:4680", "[fe80::1]", "::1", "localhost:", "localhost:4680:1", "user@localhost", "localhost/",
    "localhost,evil.example", "local host", "[::1", "127.1", "2130706433", "localhost\n", "localhost:999999", "l\u03bfcalhost",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_key_the_server_answers_to_its_own_names(local: Doorman, host: str) -> None:
    assert local.admit({"host": host}, "read").key_id is None


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_without_a_key_no_other_name_will_do(local: Doorman, host: str) -> None:
    assert refusal(local, {"host": host}).status == 403


def test_without_a_key_a_name_must_be_said(local: Doorman) -> None:
    assert refusal(local, {}).status == 403


SAME = [
    {"host": "localhost:4680", "origin": "http://localhost:4680"},
    {"host": "localhost:4680", "origin": "http://LOCALHOST:4680", "sec-fetch-site": "same-origin"},
    {"host": "localhost", "origin": "http://localhost"},
    {"host": "localhost:80", "origin": "http://localhost"},
    {"host": "localhost", "origin": "https://localhost:443"},
    {"host": "[::1]:4680", "origin": "http://[::1]:4680"},
    {"host": "127.0.0.1:4680", "sec-fetch-site": "none"},
]
FOREIGN = [
    {"host": "localhost:4680", "origin": "http://evil.example"},
    {"host": "localhost:4680", "origin": "http://localhost:3000"},
    {"host": "localhost:4680", "origin": "http://localhost"},
    {"host": "localhost:4680", "origin": "http://127.0.0.1:4680"},
    {"host": "localhost:4680", "origin": "http://localhost:4680.evil.example"},
    {"host": "localhost:4680", "origin": "null"},
    {"host": "localhost:4680", "origin": ""},
    {"host": "localhost:4680", "origin": "localhost:4680"},
    {"host": "localhost:4680", "origin": "chrome-extension://localhost:4680"},
    {"host": "localhost:4680", "origin": "http://localhost:4680/"},
    {"host": "localhost:4680", "origin": "http://localhost:4680, http://evil.example"},
    {"host": "localhost:4680", "sec-fetch-site": "cross-site"},
    {"host": "localhost:4680", "sec-fetch-site": "same-site"},
    {"host": "localhost:4680", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},  # a form
    {"host": "localhost:4680", "origin": "http://localhost:4680", "sec-fetch-site": "cross-site"},
    {"host": "localhost:4680", "origin": "http://evil.example", "content-type": "text/plain"},
]


@pytest.mark.parametrize("headers", SAME, ids=str)
def test_a_page_of_our_own_passes(local: Doorman, headers: dict[str, str]) -> None:
    assert local.admit(headers, "ingest").key_id is None


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_site_gets_nothing_done(local: Doorman, control: Control, headers: dict[str, str]) -> None:
    assert refusal(local, headers, "ingest").status == 403
    # Browsers send Basic credentials along by themselves, whoever made them send the request.
    _, text = control.create("p", ["admin"])
    assert refusal(local, headers | {"authorization": basic("", text)}, "ingest").status == 403
    # A script that has the key itself needs no browser to help it.
    for explicit in ({"authorization": f"Bearer {text}"}, {"authorization": text}, {"x-api-key": text}):
        assert local.admit(headers | explicit, "ingest").project == "p"


def test_a_link_on_another_site_may_be_followed_but_not_fetched(local: Doorman) -> None:
    link = LOCAL | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert local.admit(link, "read", method="GET").key_id is None
    assert refusal(local, link | {"sec-fetch-mode": "no-cors"}, method="GET").status == 403
    assert refusal(local, link, method="POST").status == 403


# What never counts


@pytest.mark.parametrize("right", sorted(KEYLESS))
def test_an_id_in_a_header_never_changes_who_the_caller_is(
    local: Doorman, public: Doorman, control: Control, right: str
) -> None:
    _, text = control.create("p", ["read"])
    loud = {
        "x-session-id": text,
        "x-trace-id": text,
        "x-project": "p",
        "x-langfuse-public-key": text,
        "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
        "baggage": f"session.id=chat-42,dashcam.project=p,authorization={text}",
        "cookie": f"authorization={text}",
        "proxy-authorization": f"Bearer {text}",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-host": "localhost",
        "x-forwarded-user": "admin",
        "x-real-ip": "127.0.0.1",
        "forwarded": "for=127.0.0.1;host=localhost",
        "referer": f"http://localhost:4680/?key={text}",
    }
    assert refusal(public, loud, right).status == 401
    assert refusal(local, loud, right).status == 403  # still nobody has said Host: localhost
    assert refusal(local, loud | {"host": "evil.example"}, right).status == 403
    assert local.admit(loud | LOCAL, right) == local.admit(LOCAL, right)
    _, own = control.create("own", ["admin"])
    assert public.admit(loud | {"x-api-key": own}, right) == public.admit({"x-api-key": own}, right)


class Watched(dict[str, str]):
    """Headers that know which of them were asked for."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def test_only_these_headers_are_ever_asked(local: Doorman, public: Doorman, control: Control) -> None:
    _, text = control.create("p", ["read"])
    asked = set()
    for doorman in (local, public):
        for sent in (LOCAL, {"authorization": basic("", text), **FOREIGN[0]}, {"x-api-key": text}, {}):
            headers = Watched(sent)
            with suppress(AccessDenied):
                doorman.admit(headers, "read", method="GET")
            asked |= headers.asked
    assert asked == {"authorization", "x-api-key", "host", "origin", "sec-fetch-site", "sec-fetch-mode"}


NAMES = ["authorization", "x-api-key", "host", "origin", "sec-fetch-site", "sec-fetch-mode"]
ODD = st.text() | st.sampled_from(
    ["Bearer ", "Basic ", "Basic Og==", "localhost", "[", "http://[", "http://localhost:99999999", "null", UNKNOWN]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.dictionaries(st.sampled_from(NAMES), st.lists(ODD, min_size=1, max_size=3).map("".join)),
    right=st.sampled_from(sorted(ALL)),
    method=st.sampled_from(["GET", "POST", "é"]),
)
def test_whatever_the_headers_say_it_is_in_or_denied(
    local: Doorman, public: Doorman, headers: dict[str, str], right: str, method: str
) -> None:
    with pytest.raises(AccessDenied):
        public.admit(headers, right, method=method)
    try:
        caller = local.admit(headers, right, method=method)
    except AccessDenied as error:
        assert error.status in (401, 403)
        assert UNKNOWN not in str(error)
    else:
        assert caller == Caller(project="default", rights=ALL, key_id=None)


# gRPC


def test_a_grpc_call_brings_its_key_as_metadata(local: Doorman, public: Doorman, control: Control) -> None:
    _, text = control.create("p", ["ingest"])
    called: list[tuple[str, str | bytes]] = [
        ("user-agent", "grpc-python"),
        ("Authorization", f"Bearer {text}"),
        ("grpc-trace-bin", b"\xff"),
    ]
    assert public.admit(headers_of(called), "ingest").project == "p"
    assert local.admit(headers_of(called[:1]), "ingest").key_id is None
    assert refusal(public, headers_of([*called[:1], ("authorization", b"x"), ("host", "localhost")])).status == 401


# Starting


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_these_reach_only_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "example.com", "localhost.evil", "[", "é"]
)
def test_these_reach_further_or_nobody_knows(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("resolved", [["127.0.0.1", "10.0.0.1"], ["8.8.8.8"], []])
def test_localhost_must_mean_this_machine_alone(resolved: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # What the machine's own resolver says can't be changed from here.
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in resolved]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answers)
    assert not is_loopback("localhost")


def test_beyond_this_machine_the_server_does_not_start_without_a_key(control: Control) -> None:
    check_start("127.0.0.1", control, False)
    key, _ = control.create("p", ["ingest"])
    check_start("0.0.0.0", control, False)
    check_start("127.0.0.1", control, True)
    control.revoke(key.id)
    for host, require_key in (("0.0.0.0", False), ("192.168.1.4", True), ("example.com", False), ("localhost", True)):
        with pytest.raises(SettingsError, match="dashcam keys create"):
            check_start(host, control, require_key)


def test_projects_are_the_folders_with_a_store(data: Path) -> None:
    assert list_projects(data) == []
    for name in ("shop", "default", ".hidden", "empty"):
        (data / name).mkdir(parents=True)
    for name in ("shop", "default", ".hidden"):
        (data / name / "sessions.db").touch()
    (data / "sessions.db").touch()
    assert list_projects(data) == ["default", "shop"]


# A route


def admitted(request: Request[Any, Any, Any], right: str, **more: str) -> Caller:
    doorman: Doorman = request.app.state.doorman
    return doorman.admit(request.headers, right, request.query_params.get("project"), method=request.method, **more)


@get("/who")
async def who(request: Request[Any, Any, Any]) -> dict[str, str | None]:
    caller = admitted(request, "read")
    return {"project": caller.project, "key_id": caller.key_id}


@post("/in")
async def take(request: Request[Any, Any, Any]) -> dict[str, str]:
    return {"project": admitted(request, "ingest", challenge=BEARER_OR_BASIC).project}


def tell(_: Request[Any, Any, Any], error: DashcamError) -> Response[str]:
    return Response(str(error), status_code=error.status, headers=getattr(error, "headers", {}))


@contextmanager
def served(doorman: Doorman) -> Iterator[httpx.Client]:
    app = Litestar([who, take], state=State({"doorman": doorman}), exception_handlers={DashcamError: tell})
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.slow
def test_a_route_knows_its_caller(local: Doorman, control: Control) -> None:
    key, text = control.create("shop", ["read"])
    bearer = {"Authorization": f"Bearer {text}"}
    with served(local) as client:
        assert client.get("/who").json() == {"project": "default", "key_id": None}
        assert client.get("/who?project=other").json()["project"] == "other"
        assert client.get("/who", headers=bearer).json() == {"project": "shop", "key_id": key.id}
        assert client.get("/who?project=other", headers=bearer).status_code == 403
        assert client.get("/who?project=..%2Fx").status_code == 400
        assert client.get("/who", headers={"Host": "evil.example"}).status_code == 403
        assert client.post("/in", headers={"Origin": "http://evil.example"}).status_code == 403
        assert client.post("/in", headers=bearer).status_code == 403
        assert client.get("/who", params={"key": text, "api_key": text}).json()["key_id"] is None


@pytest.mark.slow
def test_a_route_of_a_public_server_asks_for_a_key_and_takes_none_from_the_address(
    public: Doorman, control: Control
) -> None:
    key, text = control.create("shop", ["ingest"])
    with served(public) as client:
        unknown = client.get(f"/who?key={text}&api_key={text}&project=shop")
        assert (unknown.status_code, unknown.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert text not in unknown.text
        assert client.post("/in").headers["WWW-Authenticate"] == BEARER_OR_BASIC
        assert client.post("/in", auth=(key.id, text)).json() == {"project": "shop"}
        control.revoke(key.id)
        assert client.post("/in", auth=(key.id, text)).status_code == 401
