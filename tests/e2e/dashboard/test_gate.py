"""The gate of a real dashboard: strange hosts and origins, the login, and what it writes."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from tests.support.browser import Browser, Pages
from tests.support.processes import Service
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

pytestmark = pytest.mark.samples("test_the_password_is_asked_for_and_opens_the_pages")

PASSWORD = "open sesame, please"
PATHS = (
    *("/", "/agents", "/wallets", "/transactions", "/payments"),
    *("/holds", "/policy", "/api-keys", "/admins", "/plugins"),
)
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


@pytest.fixture(scope="module")
def guarded(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """A dashboard that others can reach."""
    api = f"http://127.0.0.1:{service.port}"
    pages = Pages(api, tmp_path_factory.mktemp("guarded"), DASHBOARD_PASSWORD=PASSWORD)
    pages.start("--host", "0.0.0.0")
    yield pages
    pages.stop(signal.SIGKILL)


def opened(port: int, **headers: str) -> bool:
    """Whether a socket of these headers is taken."""
    origin = headers.pop("Origin", None)
    host = headers.pop("Host", f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port)) as raw:
        try:
            with connect(
                f"ws://{host}{SOCKET}", sock=raw, origin=origin, additional_headers=headers
            ) as ws:
                return str(ws.recv(10)).startswith("0{")
        except InvalidStatus:
            return False


def test_a_socket_is_for_this_dashboards_own_pages(pages: Pages) -> None:
    own = f"127.0.0.1:{pages.port}"
    assert opened(pages.port, Origin=f"http://{own}")
    assert not opened(pages.port, Origin="http://evil.example")
    assert not opened(pages.port, Origin=f"http://evil.example:{pages.port}")
    assert not opened(pages.port, Origin="http://127.0.0.1:1")
    assert not opened(
        pages.port,
        Host=f"evil.example:{pages.port}",
        Origin=f"http://evil.example:{pages.port}",
    )


def test_polling_of_another_origin_is_refused_too(pages: Pages) -> None:
    url = f"{pages.url}/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    assert httpx.get(url, headers={"Origin": pages.url}).status_code == 200
    assert httpx.get(url, headers={"Origin": "http://evil.example"}).status_code == 400
    answer = httpx.get(url, headers={"Host": f"evil.example:{pages.port}"})
    assert answer.status_code == 403


@pytest.mark.parametrize("path", PATHS)
def test_every_page_works_under_its_strict_headers(browser: Browser, path: str) -> None:
    answer = httpx.get(browser.url + path)
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    browser.open(path)
    browser.until(lambda: browser.all("main"), "the page")
    # What the policy refuses is told on the console.
    assert browser.errors() == []


def test_a_page_cannot_send_anything_elsewhere(browser: Browser) -> None:
    browser.open("/")
    refused = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "document.addEventListener('securitypolicyviolation', e => done(e.violatedDirective));"
        "fetch('http://127.0.0.1:1/').catch(() => {});"
    )
    assert refused == "connect-src"
    browser.errors()


def test_the_password_is_asked_for_and_opens_the_pages(guarded: Pages) -> None:
    browser = Browser(guarded.url)
    try:
        browser.driver.get(f"{guarded.url}/wallets")
        field = browser.one("input[type=password]")
        assert browser.driver.current_url.endswith("/login")
        field.send_keys("guess", Keys.ENTER)
        browser.wait_for("This is neither the password nor")
        browser.one("input[type=password]").send_keys(PASSWORD, Keys.ENTER)
        browser.wait_for("Recent decisions")
        browser.open("/")
        browser.wait_for("No agent has decided anything yet.")
        # The wrong guess was answered with 403, and said so on the console.
        assert all("403" in each for each in browser.errors())
        browser.click("Log out")
        browser.one("input[type=password]")
        browser.driver.get(guarded.url)
        browser.one("input[type=password]")
    finally:
        browser.quit()


def test_no_socket_without_the_password(guarded: Pages) -> None:
    origin = f"http://127.0.0.1:{guarded.port}"
    assert not opened(guarded.port, Origin=origin)
    assert not opened(guarded.port, Origin=origin, Cookie="solward_dashboard=guessed")
    with httpx.Client(base_url=origin) as client:
        client.post("/login", data={"password": PASSWORD})
        session = client.cookies["solward_dashboard"]
    assert opened(guarded.port, Origin=origin, Cookie=f"solward_dashboard={session}")


def test_a_socket_is_for_pages_of_its_own_login_and_ends_with_it(guarded: Pages) -> None:
    origin = f"http://127.0.0.1:{guarded.port}"
    with httpx.Client(base_url=origin) as mine, httpx.Client(base_url=origin) as other:
        cookies = []
        for client in (mine, other):
            client.post("/login", data={"password": PASSWORD})
            cookies.append({"Cookie": f"solward_dashboard={client.cookies['solward_dashboard']}"})
        text = mine.get("/holds").text
        found = re.search(r"client_id\W{1,12}([0-9a-f]{8}-[0-9a-f-]{27})", text)
        assert found is not None
        page = {"client_id": found[1], "tab_id": "t", "document_id": "d"}
        url = f"ws://127.0.0.1:{guarded.port}{SOCKET}"
        for headers, answer in zip(reversed(cookies), ("[false]", "[true]"), strict=True):
            with connect(url, origin=Origin(origin), additional_headers=headers) as ws:
                ws.recv(10)
                ws.send("40")
                ws.send("421" + json.dumps(["handshake", page]))
                assert next(each for each in ws if str(each).startswith("431")) == f"431{answer}"
                if headers is cookies[0]:
                    mine.get("/logout")
                    ws.send("422" + json.dumps(["handshake", page]))
                    assert not any(str(each).startswith("432") for each in ws)


def test_no_file_is_left_behind(pages: Pages, browser: Browser) -> None:
    browser.open("/")
    assert [each.name for each in pages.folder.iterdir()] == ["dashboard.log"]
    # The strangers of the tests above, and nothing else.
    for line in (pages.folder / "dashboard.log").read_text().splitlines():
        assert "not an accepted origin" in line
