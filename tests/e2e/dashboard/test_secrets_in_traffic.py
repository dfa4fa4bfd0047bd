"""Everything the browser received over every page and action, searched for every secret."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium.common.exceptions import WebDriverException
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from tests.support.agents import agent_body
from tests.support.browser import Browser, Pages
from tests.support.processes import SECRET, Service, funded_wallet
from tests.support.vendors.process import vendor_process

from solward.settings.access import DEVELOPMENT_SECRET

pytestmark = pytest.mark.more

PASSPHRASE = "a passphrase nobody else has thought of"
VENDOR_KEY = "sk-canary-7f3c1b9a5e2d4806"
PASSWORD = "the dashboard's own password"
PATHS = (
    "/",
    "/agents",
    "/wallets",
    "/transactions",
    "/api-keys",
    "/plugins",
    "/audit",
    "/settings",
)


@pytest.fixture(scope="module")
def pair() -> Keypair:
    """A key that this test knows, and the service signs with."""
    return Keypair()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, pair: Keypair) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with vendor_process() as vendor:
        yield from _served(folder, pair, vendor.base_urls)


def _served(folder: Path, pair: Keypair, vendors: dict[str, str]) -> Iterator[Service]:
    service = Service(
        folder / "home",
        KEYSTORE_PASSPHRASE=PASSPHRASE,
        # Its vendor refuses the key, so what is told of that is shown.
        OPENAI_API_KEY=f"{VENDOR_KEY}~401",
        **vendors,
    )
    file = folder / "id.json"
    file.write_text(json.dumps(list(bytes(pair))))
    command = [sys.executable, "-m", "solward_cli", "wallet", "import", str(file)]
    done = subprocess.run(
        [*command, "--name", "imported"],
        env=service.environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield service.start()
    service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def pages(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    api = f"http://127.0.0.1:{service.port}"
    folder = tmp_path_factory.mktemp("dashboard")
    pages = Pages(api, folder, KEYSTORE_PASSPHRASE=PASSPHRASE, DASHBOARD_PASSWORD=PASSWORD).start()
    yield pages
    pages.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def browser(pages: Pages) -> Iterator[Browser]:
    browser = Browser(pages.url, traffic=True)
    browser.driver.execute_cdp_cmd("Network.enable", {"maxTotalBufferSize": 200_000_000})
    yield browser
    browser.quit()


class Received:
    """What came in, response by response and frame by frame."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.texts: list[str] = []
        self.frames = 0
        self.bodies = 0

    def collect(self) -> None:
        """Before a page is left: its bodies go with it."""
        for event in self._browser.traffic():
            method, told = event["method"], event["params"]
            if method == "Network.webSocketFrameReceived":
                self.frames += 1
                self._keep(told["response"]["payloadData"], told["response"]["opcode"] != 1)
            elif method.startswith(("Network.responseReceived", "Network.webSocketHandshake")):
                self.texts.append(json.dumps(told))
            elif method == "Network.loadingFinished":
                self._body(told["requestId"])
        self.texts.append(self._browser.driver.page_source)
        self.texts.append(json.dumps(self._browser.driver.get_cookies()))

    def _body(self, request_id: str) -> None:
        try:
            body = self._browser.driver.execute_cdp_cmd(
                "Network.getResponseBody", {"requestId": request_id}
            )
        except WebDriverException:
            # An answer without a body, such as a redirect's.
            return
        self.bodies += 1
        self._keep(body["body"], body["base64Encoded"])

    def _keep(self, text: str, in_base64: bool) -> None:
        self.texts.append(base64.b64decode(text).decode("latin-1") if in_base64 else text)

    def with_any(self, needles: dict[str, str]) -> list[str]:
        """The names of what is found."""
        return sorted(
            name for name, needle in needles.items() if any(needle in text for text in self.texts)
        )


def spelled(name: str, secret: bytes) -> dict[str, str]:
    """A key of 32 or 64 bytes in every spelling of it."""
    base58 = str(Pubkey(secret) if len(secret) == 32 else Signature.from_bytes(secret))
    return {
        f"{name} in base58": base58,
        f"{name} in base64": base64.b64encode(secret).decode().rstrip("="),
        f"{name} in hexadecimal": secret.hex(),
        f"{name} as numbers": ",".join(map(str, secret)),
        f"{name} as spaced numbers": ", ".join(map(str, secret)),
    }


def needles(pair: Keypair, home: Path) -> dict[str, str]:
    """All that must not be found."""
    found = {
        "the API secret": SECRET,
        "the API secret in base64": base64.b64encode(SECRET.encode()).decode().rstrip("="),
        "the development secret": DEVELOPMENT_SECRET,
        "the passphrase": PASSPHRASE,
        "the vendor's key": VENDOR_KEY,
        "the dashboard's password": PASSWORD,
        **spelled("the private key", bytes(pair)),
        **spelled("the seed", bytes(pair)[:32]),
    }
    for file in home.rglob("*"):
        if file.is_file() and "key" in file.name and file.stat().st_size in (32, 64):
            found |= spelled(file.name, file.read_bytes())
    return found


def test_no_secret_reaches_the_browser(
    browser: Browser, service: Service, api: httpx.Client, pair: Keypair
) -> None:
    received = Received(browser)
    browser.driver.get(browser.url)
    browser.one("input[type=password]").send_keys(PASSWORD + "\n")
    browser.wait_for("Recent decisions")
    received.collect()
    wallet = funded_wallet(api, "rich", 4)
    (imported,) = (w for w in api.get("/wallets").json()["wallets"] if w["name"] == "imported")
    agent = api.post(
        "/agents",
        json=agent_body(wallet, "openai", name="thinker", llmModel="m", strategy="Wait."),
    ).json()["id"]
    for path in PATHS:
        browser.open(path)
        browser.until(lambda: not browser.all('[data-testid="banner"]'), "an answer")
        if path == "/agents":
            browser.wait_for("thinker")
        received.collect()

    browser.open(f"/wallets/{imported['id']}")
    browser.click("Airdrop")
    browser.press("run-airdrop")
    browser.wait_for("Airdrop confirmed")
    received.collect()

    browser.open(f"/wallets/{wallet}")
    browser.fill("To", imported["publicKey"])
    # More than the limit, so that a refusal of the service is told.
    browser.fill("Amount", "3")
    browser.press("run-transfer")
    browser.wait_for("Refused by max_per_tx")
    received.collect()
    browser.click("Cancel")
    browser.wait_gone("Refused by max_per_tx")

    browser.click("Swap")
    swap = '.q-tab-panel:has([data-testid="run-swap"])'
    browser.fill("Buy", "USDC", within=swap)
    browser.fill("Amount", "0.1", within=swap)
    browser.press("run-swap")
    browser.wait_for("Arrives")
    browser.press("confirm")
    browser.wait_for("Swap confirmed")
    for says in ("unfreeze", "freeze"):
        browser.press("freeze")
        browser.press("confirm")
        browser.until(
            lambda says=says: browser.marked("freeze").text.casefold().split()[-1:] == [says], says
        )
    received.collect()

    api.post(f"/agents/{agent}/start")
    browser.open("/agents")
    browser.until(
        lambda: api.get(f"/agents/{agent}/decisions").json()["decisions"], "a decision", 60
    )
    browser.click("thinker", within=".ag-row")
    browser.wait_for("Cycle 1")
    # Its vendor refuses the key here, too.
    browser.click("Chat with thinker")
    browser.fill("Message", "what is your key?")
    browser.click("Send")
    browser.until(lambda: browser.marked("send").is_enabled(), "the end of the answer", 60)
    browser.click("Close")
    received.collect()
    browser.click("Delete thinker")
    browser.press("confirm")
    browser.wait_gone("thinker")
    received.collect()

    browser.open("/api-keys")
    browser.click("New key")
    browser.fill("Name", "shown-once")
    browser.press("create")
    key = browser.marked("key").text
    assert key.startswith("sk-")
    received.collect()
    assert received.with_any({"the new key": key}) == ["the new key"]
    browser.click("I copied it")
    browser.until(lambda: key not in browser.driver.page_source, "the key to go")
    browser.errors()
    later = Received(browser)
    list(browser.traffic())
    for path in PATHS:
        browser.open(path)
        later.collect()
    assert later.with_any({"the key after its one time": key}) == []

    service.stop(signal.SIGKILL)
    browser.one('[data-testid="banner"]')
    later.collect()

    everything = received.texts + later.texts
    received.texts = everything
    assert received.frames > 20
    assert received.bodies > 50
    # What is looked for would be found: the address, which is public, is.
    assert received.with_any({"the address": str(pair.pubkey())}) == ["the address"]
    assert received.with_any(needles(pair, service.home)) == []


def test_no_secret_is_in_what_the_processes_were_started_with(pages: Pages) -> None:
    assert pages.process is not None
    arguments = Path(f"/proc/{pages.process.pid}/cmdline").read_bytes().decode()
    assert SECRET not in arguments
    assert PASSWORD not in arguments
    assert os.fsencode(SECRET) not in (pages.folder / "dashboard.log").read_bytes()
