"""Programs of other people as they run on mainnet, from a folder that the environment names.

None of them is part of this repository: `CONTRIBUTING.md` says which files are looked for.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from solward_localnet.market_program import program_account

FOLDER = "SOLWARD_TEST_PROGRAMS"


def real_programs(*addresses: Pubkey) -> dict[Pubkey, Account]:
    """These programs as accounts of a ledger; skips the test where one is not there."""
    named = os.environ.get(FOLDER)
    if not named:
        pytest.skip(f"{FOLDER} names no folder with the programs of mainnet")
    found = {}
    for address in addresses:
        file = Path(named) / f"{address}.so"
        if not file.is_file():
            pytest.skip(f"{FOLDER} has no {file.name}")
        found[address] = program_account(file.read_bytes())
    return found
