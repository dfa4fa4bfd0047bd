"""A page's own script and the API on another port: who may, in a real browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.browser import Browser
from tests.support.http import Handler, served_in_thread
from tests.support.processes import SECRET, Service

pytestmark = pytest.mark.more

# The page's script asks as a dashboard in the browser would: JSON, a credential, no cache.
FETCH = """
const [url, method, secret, body] = arguments; const done = arguments[4];
const headers = {Authorization: `Bearer ${secret}`, "Content-Type": "application/json"};
const options = {method, headers, credentials: "include", cache: "no-store"};
fetch(url, body === null ? options : {...options, body}).then(
  async (answer) => done({status: answer.status, body: await answer.json()}),
  (error) => done({refused: String(error)}));
"""


class Page(Handler):
    """A static page on a port of its own, which is an origin of its own."""

    def get(self) -> None:
        self.reply(200, b"<!doctype html><title>page</title>", {"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """The dashboard's origin, and somebody else's."""
    with served_in_thread(Page) as ours, served_in_thread(Page) as theirs:
        yield int(ours.rpartition(":")[2]), int(theirs.rpartition(":")[2])


@pytest.fixture(scope="module")
def api(ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    port, _ = ports
    origins = f"http://localhost:{port},http://127.0.0.1:{port}"
    home = tmp_path_factory.mktemp("api") / "home"
    service = Service(home, CORS_ORIGINS=origins).start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    browser = Browser("")
    yield browser
    browser.quit()


def fetched(
    tab: Browser, api: Service, path: str, method: str = "GET", body: str | None = None
) -> Any:
    return tab.driver.execute_async_script(FETCH, f"{api.url}{path}", method, SECRET, body)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_dashboards_origin_may_read_and_write(
    tab: Browser, api: Service, ports: tuple[int, int], name: str
) -> None:
    tab.driver.get(f"http://{name}:{ports[0]}/")
    made = fetched(tab, api, "/wallets", "POST", f'{{"name": "from-{name}"}}')
    assert made["status"] == 200
    listed = fetched(tab, api, "/wallets")
    assert f"from-{name}" in [each["name"] for each in listed["body"]["wallets"]]
    key = fetched(tab, api, "/keys", "POST", '{"name": "k"}')["body"]["id"]
    assert fetched(tab, api, f"/keys/{key}", "DELETE")["status"] == 200


def test_its_refusals_can_be_read_too(tab: Browser, api: Service, ports: tuple[int, int]) -> None:
    tab.driver.get(f"http://127.0.0.1:{ports[0]}/")
    assert fetched(tab, api, "/wallets/nobody/balance") == {
        "status": 404,
        "body": {"error": "Wallet not found"},
    }


def test_another_origin_may_neither_read_nor_write(
    tab: Browser, api: Service, ports: tuple[int, int]
) -> None:
    tab.driver.get(f"http://127.0.0.1:{ports[1]}/")
    with api.client() as client:
        before = client.get("/wallets").json()
        assert "refused" in fetched(tab, api, "/wallets")
        assert "refused" in fetched(tab, api, "/wallets", "POST", '{"name": "stolen"}')
        assert client.get("/wallets").json() == before
