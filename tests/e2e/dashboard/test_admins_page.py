"""Admin credentials on the dashboard: made and revoked, logged in with, and what each role sees."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from tests.promises import promise
from tests.support.browser import Browser, Pages
from tests.support.processes import Service

pytestmark = pytest.mark.more

PASSWORD = "open sesame, please"


@pytest.fixture(scope="module")
def guarded(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    address = f"http://127.0.0.1:{service.port}"
    pages = Pages(address, tmp_path_factory.mktemp("guarded"), DASHBOARD_PASSWORD=PASSWORD)
    yield pages.start()
    pages.stop(signal.SIGKILL)


@pytest.fixture
def login(guarded: Pages) -> Iterator[Callable[[str], Browser]]:
    """A browser that logged in with a password or a credential."""
    opened: list[Browser] = []

    def log_in(secret: str) -> Browser:
        browser = Browser(guarded.url)
        opened.append(browser)
        browser.driver.get(guarded.url)
        browser.one("input[type=password]").send_keys(secret, Keys.ENTER)
        browser.wait_for("Overview")
        return browser

    yield log_in
    for each in opened:
        each.quit()


def made(api: httpx.Client, name: str, role: str) -> Any:
    answer = api.post("/admins", json={"name": name, "role": role})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_one_is_made_shown_once_and_revoked(browser: Browser, api: httpx.Client) -> None:
    browser.answered("/admins")
    browser.wait_for("No admin credential yet")
    browser.click("New admin credential")
    browser.fill("Name", "ana")
    browser.press("create")
    secret = browser.marked("secret").text
    assert secret.startswith("sa-")
    headers = {"Authorization": f"Bearer {secret}"}
    wallets = f"{str(api.base_url).rstrip('/')}/wallets"
    assert httpx.get(wallets, headers=headers).status_code == 200
    browser.click("I copied it")
    browser.wait_gone(secret)
    browser.wait_for("read: sees everything but secrets")
    assert secret not in browser.driver.page_source
    browser.click("Revoke ana")
    browser.press("confirm")
    browser.wait_for("ana is revoked")
    browser.wait_for("No admin credential yet")
    assert httpx.get(wallets, headers=headers).status_code == 401
    assert browser.errors() == []


@promise("login-with-credential")
@pytest.mark.parametrize(
    ("role", "offered"),
    [
        pytest.param("read", set(), marks=pytest.mark.long),
        ("operate", {"Freeze"}),
        pytest.param(
            "policy",
            {"Freeze", "New wallet", "New key", "Add a grant", "New agent", "Admins"},
            marks=pytest.mark.long,
        ),
    ],
    ids=["read", "operate", "policy"],
)
def test_a_role_is_offered_what_it_may_do(
    login: Callable[[str], Browser],
    api: httpx.Client,
    role: str,
    offered: set[str],
) -> None:
    wallet = api.post("/wallets", json={"name": f"of {role}"}).json()["walletId"]
    credential = made(api, f"{role}-er", role)
    browser = login(credential["adminSecret"])
    assert credential["adminSecret"] not in browser.driver.page_source
    for path, name in (
        (f"/wallets/{wallet}", "Freeze"),
        ("/wallets", "New wallet"),
        ("/api-keys", "New key"),
        ("/policy", "Add a grant"),
        ("/agents", "New agent"),
    ):
        browser.answered(path)
        shown = [each for each in browser.all("button") if name.lower() in each.text.lower()]
        assert bool(shown) == (name in offered), (role, name)
    links = [each.get_attribute("href") for each in browser.all("nav a")]
    assert any(str(each).endswith("/admins") for each in links) == ("Admins" in offered)
    if role == "operate":
        browser.answered(f"/wallets/{wallet}")
        browser.press("freeze")
        browser.press("confirm")
        # What it did is its own, and lifting it is not offered.
        browser.until(lambda: not browser.all('[data-testid="freeze"]'), "Unfreeze to go")
        entries = api.get("/audit?limit=50").json()["entries"]
        (frozen,) = [each["data"] for each in entries if each["event"] == "switch:frozen"]
        assert (frozen["credential"], frozen["walletId"]) == ("operate-er", wallet)


@promise("login-ends-with-credential", "dashboard-guesses-bounded")
def test_a_revoked_credentials_session_ends(
    login: Callable[[str], Browser], api: httpx.Client, guarded: Pages
) -> None:
    credential = made(api, "leaver", "policy")
    browser = login(credential["adminSecret"])
    browser.answered("/wallets")
    assert api.delete(f"/admins/{credential['id']}").status_code == 200
    browser.wait_for("Your credential is no longer valid")
    cookie = browser.driver.get_cookie("solward_dashboard")
    assert cookie is not None
    session = {"solward_dashboard": str(cookie["value"])}
    answer = httpx.get(f"{guarded.url}/wallets", cookies=session)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    browser.driver.get(f"{guarded.url}/wallets")
    browser.one("input[type=password]").send_keys(credential["adminSecret"], Keys.ENTER)
    browser.wait_for("This is neither the password nor")


def test_two_who_are_logged_in_act_each_by_his_own(
    login: Callable[[str], Browser], api: httpx.Client
) -> None:
    reader = login(made(api, "reader", "read")["adminSecret"])
    everything = login(PASSWORD)
    everything.answered("/wallets")
    reader.answered("/wallets")
    for browser, offered in ((everything, True), (reader, False)):
        shown = [each for each in browser.all("button") if "new wallet" in each.text.lower()]
        assert bool(shown) == offered
    used = {each["name"]: each["lastUsedAt"] for each in api.get("/admins").json()["admins"]}
    assert used["reader"] is not None


def test_an_api_key_opens_no_page(api: httpx.Client, guarded: Pages) -> None:
    key = api.post("/keys", json={"name": "program"}).json()["apiKey"]
    for guess in (key, "sa-" + "0" * 48, "sa-", "sa-\r\nX: y"):
        answer = httpx.post(f"{guarded.url}/login", data={"password": guess}, timeout=30)
        assert answer.status_code == 403, guess
