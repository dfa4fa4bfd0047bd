"""What the words of grants stand for in tests, and generators of grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from solders.keypair import Keypair

from solward.solana.programs import LOCALNET_USDC_MINT
from solward.solana.token_list import token_list
from solward.support.clock import iso
from solward.types.money import format_amount, from_units
from solward.vault.grants.model import ANY_ASSET, MAX_UNITS, USD_DECIMALS
from solward.vault.grants.spelling import Names, window_text

SCOUT = "agent:8a6c7a44-9be0-4b1f-8f6d-1f6f5d9c5a01"
POCKET = "3f0f1f9e-2f7b-49a8-9a44-0a7a58d7a001"
USDC = LOCALNET_USDC_MINT
BONK = token_list("localnet").resolve("BONK", "mint")
PEPE = str(Keypair.from_seed(b"p" * 32).pubkey())
"""A mint of 2 decimals that no list has."""
VENDOR, STRANGER = (str(Keypair.from_seed(seed * 32).pubkey()) for seed in (b"v", b"s"))


def known_names(named: Mapping[str, Mapping[str, str]] | None = None) -> Names:
    """A service with these wallets, agents, keys and plugins: kind -> id -> name."""
    rows = {
        "agent": {SCOUT.partition(":")[2]: "scout"},
        "wallet": {POCKET: "pocket", "w2": "till", "w3": "till"},
        "key": {"k1": "ci"},
        "plugin": {"solward-weather": "solward-weather"},
        "skill": {"transfer": "transfer"},
        "site": {each: each for each in SITES},
    }
    tokens = token_list("localnet")
    return Names(
        tokens, rows if named is None else named, {PEPE: 2}, frozenset(("vendors", "staff"))
    )


DECIMALS = {"SOL": 9, "USDC": 6, "BONK": 5, PEPE: 2, ANY_ASSET: USD_DECIMALS}
"""What documents of `documents()` say of assets, with their decimals."""
OPERATIONS = ["transfer", "fund", "pay", "swap", "stake", "wrap", "burn", "launch"]
SITES = [
    "api.example.com",
    "b.example:8443",
    "127.0.0.1:4021",
    "[2001:db8::1]",
    "xn--80ak6aa92e.com",
]
"""As grants spell them."""
_FIRST_MINUTES = st.integers(1, 60 * 24 * 30)


def amounts(decimals: int) -> st.SearchStrategy[str]:
    """Every amount that a document may say."""
    units = st.one_of(st.integers(0, 10_000), st.integers(0, MAX_UNITS), st.just(MAX_UNITS))
    return units.map(lambda each: format_amount(from_units(each, decimals)))


def windows(most: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """One to four windows."""
    common = st.sampled_from([1, 60, 24 * 60, 7 * 24 * 60, 30 * 24 * 60, 2 * 24 * 60, 90])
    minutes = st.sets(st.one_of(common, _FIRST_MINUTES), min_size=1, max_size=4)
    texts = minutes.map(lambda found: [window_text(each * 60_000) for each in sorted(found)])
    return texts.flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, most)))


def limits(asset: str) -> st.SearchStrategy[dict[str, Any]]:
    """Limits of an asset."""
    amount = amounts(DECIMALS[asset])
    found = st.fixed_dictionaries(
        {"per": windows(amount)}, optional={"perTx": amount, "hold": amount}
    )
    return found.map(lambda each: {"usd": each}) if asset == ANY_ASSET else found


def assets(least: int) -> st.SearchStrategy[dict[str, Any]]:
    """Limits of some assets."""
    names = st.sets(st.sampled_from(sorted(DECIMALS)), min_size=least)
    return names.flatmap(
        lambda found: st.fixed_dictionaries({each: limits(each) for each in found})
    )


@st.composite
def documents(draw: st.DrawFn, known: Names) -> dict[str, Any]:
    """A grant as people write it, with any of its fields, of any of the known principals."""
    kind = draw(st.sampled_from(sorted(kind for kind, names in known.rows.items() if names)))
    who = f"{kind}:{draw(st.sampled_from(sorted(known.rows[kind])))}"
    operations = st.lists(st.sampled_from(OPERATIONS), unique=True, min_size=int(kind != "key"))
    may = ["pay"] if kind == "site" or draw(st.booleans()) else draw(operations)
    if kind == "key" and (not may or draw(st.booleans())):
        may.append("approve")
    document: dict[str, Any] = {"who": who, "may": may}
    needs = bool(set(may) - {"launch", "approve"})
    if needs or draw(st.booleans()):
        document["assets"] = draw(assets(1))
    recipients = st.sampled_from(["own", "@vendors", "@staff", VENDOR, STRANGER])
    bps = st.integers(0, 10_000)
    into = st.lists(st.sampled_from(["SOL", "USDC", PEPE]), unique=True, min_size=1)
    bounds = st.fixed_dictionaries(
        {}, optional={"slippageBps": bps, "impactBps": bps, "into": into}
    ).filter(bool)
    minutes = st.lists(st.integers(0, 1439), unique=True, min_size=2, max_size=2)
    ms = st.one_of(st.integers(0, 10**13), st.integers(0, 10**10).map(lambda each: each * 1000))
    further: dict[str, st.SearchStrategy[Any]] = {
        "to": st.one_of(st.just(["any"]), st.lists(recipients, unique=True, min_size=1)),
        "new": st.sampled_from(["allow", "hold", "refuse"]),
        "costs": amounts(9),
        "rate": windows(st.integers(1, 1_000_000)),
        "hours": minutes.map(lambda each: f"{_time(each[0])}-{_time(each[1])} UTC"),
        "until": ms.map(iso),
    }
    if known.rows["wallet"]:
        further["wallet"] = st.sampled_from(sorted(known.rows["wallet"]))
    if may == ["pay"] and kind != "site":
        sites = st.sampled_from([f"site:{each}" for each in SITES])
        further["via"] = st.lists(sites, unique=True, min_size=1)
    if "swap" in may:
        further["swap"] = bounds
    return document | draw(st.fixed_dictionaries({}, optional=further))


def _time(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
