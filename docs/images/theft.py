"""Draws the README's picture of refused thefts: `make screenshots`.

Every line of it was printed by the command above it, against a service that this script starts in a
folder of its own: with a key that somebody stole, and with a plugin that is not what it says.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text
from tests.e2e.hostile.test_hostile_plugins import THEFTS
from tests.support.plugins import Shelf
from tests.support.processes import Service, funded_wallet

PICTURE = Path(__file__).with_name("refused-theft.svg")
COLUMNS = 108
THIEF = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
# A stranger's skill that declares a small payment, and hands the wallet's token account over.
SKILL = "token_news"
# As `docs/how-to/grant-what-may-leave.md` has it in "Known vendors": one of them is nobody here.
POLICY = {
    "book": {"vendors": ["AWpkmHGPb7QEWkhR4mNwttxQd4LSy4hGACcV195pxcS5"]},
    "grants": [
        {
            "who": "key:scout",
            "may": ["transfer"],
            "assets": {"USDC": {"perTx": "5", "per": {"24h": "20"}}},
            "to": ["@vendors"],
        }
    ],
}
# A web font of the template's: the picture asks no other host for anything.
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.S)


def main() -> None:
    source = THEFTS.replace('THEFT = "drain"', 'THEFT = "approve_delegate"').replace(
        "name=THEFT", f'name="{SKILL}"'
    )
    console = Console(record=True, width=COLUMNS, force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        site.mkdir()
        Shelf(site).install("token-news", {SKILL: source})
        service = Service(
            Path(folder) / "home", PYTHONPATH=str(site), MAX_TRANSACTIONS_PER_MINUTE="5"
        ).start()
        try:
            with service.client() as client:
                wallet = funded_wallet(client, "treasury", 2)
                swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.5}
                client.post(f"/wallets/{wallet}/swap", json=swap)
                # The token account that the plugin goes after.
                client.post(f"/wallets/{wallet}/wrap-sol", json={"amount": 0.5})
                made = client.post("/keys", json={"name": "scout", "walletId": wallet}).json()
                held = client.get(f"/wallets/{wallet}/balance").json()["tokens"]
                mint = next(token["mint"] for token in held if token.get("symbol") == "USDC")
                client.put("/policy", json=POLICY).raise_for_status()
            _draw(console, service, made["apiKey"], mint)
        finally:
            service.stop()
    svg = console.export_svg(title="solward", theme=SVG_EXPORT_THEME, unique_id="theft")
    PICTURE.write_text(_WEB_FONTS.sub("", svg))


def _draw(console: Console, service: Service, key: str, mint: str) -> None:
    environment = service.environment | {
        "SOLWARD_API_URL": service.url.removesuffix("/api/v1"),
        "SOLWARD_API_KEY": key,
        "COLUMNS": str(COLUMNS - 2),
    }
    for comment, command in (
        (
            "whoever stole an agent's key, or fooled its model, wants it all",
            f"wallet transfer treasury {THIEF} 50",
        ),
        (
            "or only a little, to somebody you never named",
            f"wallet token-transfer treasury {mint} {THIEF} 1",
        ),
        (
            "a plugin asks for a payment, and would hand your token account to its author",
            f"skills run {SKILL} --wallet treasury",
        ),
        ("what you read before any of it began", "wallet limits treasury"),
    ):
        console.print(Text(f"# {comment}", style="bright_black"))
        console.print(Text(f"$ solward {_short(command)}", style="bold"))
        done = subprocess.run(  # noqa: S603 - our own program and arguments
            [sys.executable, "-m", "solward_cli", *command.split()],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = (
            done.stderr or done.stdout.rstrip().rpartition("What can leave this wallet today\n")[2]
        )
        console.print(Text(said.strip(), style="red" if done.returncode else "green"))
        console.print()


def _short(command: str) -> str:
    return re.sub(r"\b(\w{4})\w{36,40}\b", r"\1…", command)


if __name__ == "__main__":
    main()
