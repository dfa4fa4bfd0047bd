"""An address that the product knows stands in one place: `solward.solana`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from solders.pubkey import Pubkey

from solward.solana import programs
from solward.solana.token_list import token_list

ROOT = Path(__file__).parents[2]
HOMES = {ROOT / "framework/solward/solana" / name for name in ("programs.py", "token_list.py")}
BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")


def known_addresses() -> dict[str, str]:
    named = {
        value: name
        for name, value in vars(programs).items()
        if name.isupper() and isinstance(value, str)
    }
    for network in ("mainnet-beta", "devnet", "localnet"):
        named |= {token.mint: f"{token.symbol} on {network}" for token in token_list(network)}
    return named


def test_every_known_address_is_one() -> None:
    assert len(known_addresses()) > 20
    assert [text for text in known_addresses() if len(bytes(Pubkey.from_string(text))) != 32] == []


@pytest.mark.more
def test_no_known_address_is_written_out_a_second_time() -> None:
    known, second = known_addresses(), []
    for root in ("framework", "plugins", "server"):
        for path in sorted((ROOT / root).rglob("*.py")):
            if path in HOMES:
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    second += [
                        f"{path.relative_to(ROOT)}:{node.lineno}: {known[text]}"
                        for text in BASE58.findall(node.value)
                        if text in known
                    ]
    assert second == []


def test_addresses_need_no_library() -> None:
    code = "import sys, solward.solana.programs; print('solders' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
