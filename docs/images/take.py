"""Takes the dashboard's screenshots for the documentation: `make screenshots`.

Each page, light and dark, on a desktop and a phone, of a service that this script starts with
`--demo` in a folder of its own and stops again. Needs chromium and chromedriver.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from tests.support.browser import Browser
from tests.support.processes import funded_wallet

from solward.settings.access import DEVELOPMENT_SECRET

HERE = Path(__file__).parent
PAGES = (
    *("", "agents", "wallets", "transactions", "payments"),
    *("holds", "policy", "api-keys", "plugins"),
)
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
# Enough for the demo's agent to have transferred, swapped, staked and been refused.
_CYCLES = 14
_MOST_BYTES = 170_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "solward_cli", "up", "--demo", "--no-rpc"]
        process = subprocess.Popen(  # noqa: S603 - our own program and arguments
            [*command, "--port", "0", "--dashboard-port", "0"],
            env={"PATH": os.environ["PATH"], "SOLWARD_HOME": f"{folder}/home"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("Try:"):
                    break
            _something_happens(_address("API", said))
            _take(_address("Dashboard", said))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _address(name: str, said: str) -> str:
    found = re.search(rf"^{name}: +(\S+)", said, re.M)
    assert found is not None, said
    return found[1]


def _something_happens(api: str) -> None:
    headers = {"Authorization": f"Bearer {DEVELOPMENT_SECRET}"}
    with httpx.Client(base_url=api, headers=headers, timeout=60) as client:
        wallet = funded_wallet(client, "payroll", 4)
        to = client.get("/wallets").json()["wallets"][0]["publicKey"]
        client.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 0.4})
        client.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 2.5})
        for name in ("billing", "treasury-bot"):
            grants = ["may transfer up to 2 SOL a day, to anybody"]
            client.post("/keys", json={"name": name, "grants": grants})
        agent = client.get("/agents").json()["agents"][0]["id"]
        while client.get(f"/agents/{agent}/decisions").json()["decisions"][0]["cycle"] < _CYCLES:
            time.sleep(1)


def _take(url: str) -> None:
    browser = Browser(url)
    try:
        for page in PAGES:
            for size, (width, height) in SIZES.items():
                for dark in (False, True):
                    browser.size(width, height)
                    browser.dark(dark)
                    browser.open(f"/{page}")
                    # Its second answer has come by then, and what is drawn is drawn.
                    time.sleep(4)
                    name = f"dashboard-{page or 'overview'}-{size}{'-dark' if dark else ''}.png"
                    _keep(browser.driver.get_screenshot_as_png(), HERE / name)
    finally:
        browser.quit()


def _keep(png: bytes, file: Path) -> None:
    assert len(png) < _MOST_BYTES, f"{file.name} has {len(png)} bytes"
    file.write_bytes(png)
    print(f"{file.name}: {len(png):,} bytes")


if __name__ == "__main__":
    main()
