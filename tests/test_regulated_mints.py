"""REGULATED_MINTS: mints that the operator lets move though their issuer can reach them."""

from __future__ import annotations

import pytest
from solders.pubkey import Pubkey
from tests.promises import promise

from solward.service.limits import regulated_mints
from solward.settings import Settings
from solward.solana.token_list import token_list
from solward.types.errors import ConfigError

MAINNET = token_list("mainnet-beta")
OTHER = str(Pubkey.new_unique())


@promise("unknown-mint-stops-start")
def test_what_the_setting_names_is_a_mint_or_stops_the_start() -> None:
    def named(text: str) -> frozenset[str]:
        return regulated_mints(Settings(_env_file=None, regulated_mints=text), MAINNET)

    assert named("") == frozenset()
    assert named(f"pyusd, {OTHER},") == {MAINNET.resolve("PYUSD", "mint"), OTHER}
    for wrong, text in (
        ("NOPE", "^REGULATED_MINTS: each must be a mint address or a known symbol"),
        ("PYUS\u0501", "^REGULATED_MINTS: each looks like PYUSD but is spelled differently"),
    ):
        with pytest.raises(ConfigError, match=text):
            named(f"PYUSD,{wrong}")
