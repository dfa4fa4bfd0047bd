"""Documents of grants: read exactly, or refused by the path of what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.promises import promise
from tests.support.examples import examples
from tests.vault.grants.names import (
    BONK,
    PEPE,
    POCKET,
    SCOUT,
    STRANGER,
    USDC,
    VENDOR,
    documents,
    known_names,
)

from solward.operations.policies.grant_documents import (
    GrantPolicy,
    grant_json,
    named_mints,
    policy_json,
    read_book,
    read_grant,
    read_grants,
    read_policy,
)
from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, WRAPPED_SOL_MINT
from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Operation
from solward.vault.grants.model import (
    AssetLimit,
    Grant,
    Hours,
    NewRecipient,
    SwapBounds,
    Window,
    from_stored,
    grant_id,
    stored_form,
)
from solward.vault.grants.spelling import quoted

KNOWN = known_names()
HOUR, DAY = 3_600_000, 86_400_000

PLAIN: dict[str, Any] = {
    "who": "agent:scout",
    "may": ["transfer"],
    "assets": {"USDC": {"per": {"24h": "20"}}},
}
SAID = "Agent scout may transfer up to 20 USDC a day, to anybody."
WHOLE: dict[str, Any] = {
    "who": "agent:scout",
    "wallet": "pocket",
    "may": ["transfer", "swap"],
    "assets": {
        "USDC": {"perTx": "5", "per": {"1h": "8", "24h": "20"}, "hold": "2"},
        "*": {"usd": {"perTx": "1", "per": {"24h": "3"}}},
    },
    "to": ["@vendors"],
    "new": "hold",
    "costs": "0.02",
    "rate": {"1m": 5},
    "hours": "07:00-22:00 UTC",
    "until": "2026-12-31T00:00:00Z",
    "swap": {"slippageBps": 100, "impactBps": 200, "into": ["SOL"]},
}
PAYING: dict[str, Any] = {
    "who": "agent:scout",
    "may": ["pay"],
    "assets": {"USDC": {"perTx": "0.05", "per": {"24h": "1"}}},
}
EXPECTED_SITE = (
    "a host in lower case and ASCII, with :port where that is not 443, such as api.example.com or "
    "127.0.0.1:4021, is expected"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def read(document: object) -> Grant:
    return read_grant(document, "grants[3]", KNOWN)


def refusal(reader: Callable[[], object]) -> str | None:
    try:
        reader()
    except InvalidRequest as error:
        return str(error)
    return None


def changed(path: str, value: object) -> dict[str, Any]:
    """`WHOLE` with another value at a path such as `assets/USDC/perTx`."""
    document = copy.deepcopy(WHOLE)
    *parents, last = path.split("/")
    at: Any = document
    for each in parents:
        at = at[each]
    at[last] = value
    return document


def test_every_field_is_read_into_integers_mints_and_ids() -> None:
    grant = read(WHOLE)
    assert grant == Grant(
        id=grant.id,
        who=SCOUT,
        may=frozenset({Operation.TRANSFER, Operation.SWAP}),
        wallet=POCKET,
        assets={
            USDC: AssetLimit(
                asset=USDC,
                decimals=6,
                windows=(Window(HOUR, 8_000_000), Window(DAY, 20_000_000)),
                per_tx=5_000_000,
                hold=2_000_000,
            ),
            "*": AssetLimit("*", 6, (Window(DAY, 3_000_000),), per_tx=1_000_000),
        },
        to=("@vendors",),
        new=NewRecipient.HOLD,
        costs_lamports=20_000_000,
        rates=(Window(60_000, 5),),
        hours=Hours(7 * 60, 22 * 60),
        until_ms=1_798_675_200_000,
        swap=SwapBounds(100, 200, frozenset({"SOL"})),
    )


@settings(max_examples=examples(30))
@given(document=documents(KNOWN))
def test_14_every_grant_is_the_same_read_from_its_json_and_from_its_stored_form(
    document: dict[str, Any],
) -> None:
    grant = read(document)
    assert read(grant_json(grant, KNOWN)) == grant
    stored = jsontext.loads(jsontext.dumps(stored_form(grant)))
    assert from_stored(stored) == grant
    assert stored["id"] == grant_id(grant) == grant.id


OTHER: dict[str, Any] = {
    "who": "agent:other",
    "may": frozenset({Operation.SWAP}),
    "approves": True,
    "wallet": "w2",
    "assets": {},
    "to": ("own",),
    "new": NewRecipient.REFUSE,
    "costs_lamports": 0,
    "rates": (Window(60_000, 6),),
    "hours": None,
    "until_ms": None,
    "swap": None,
    "via": ("site:a.example",),
}


def test_every_field_of_a_grant_is_in_its_id_and_in_its_stored_form() -> None:
    grant = read(WHOLE)
    assert OTHER.keys() == {each.name for each in structs.fields(Grant)} - {"id"}
    changes = [structs.replace(grant, **{field: value}) for field, value in OTHER.items()]
    limit = grant.assets[USDC]
    for changed_limit in (
        structs.replace(limit, decimals=7),
        structs.replace(limit, windows=limit.windows[:1]),
        structs.replace(limit, per_tx=None),
        structs.replace(limit, hold=None),
    ):
        changes.append(structs.replace(grant, assets={**grant.assets, USDC: changed_limit}))
    assert len({grant_id(each) for each in (grant, *changes)}) == len(changes) + 1
    assert all(from_stored(stored_form(each)) == each for each in changes)


@promise("older-grants-unchanged")
def test_a_grant_stored_before_there_were_sites_is_the_same_grant() -> None:
    # As the release before wrote it.
    stored = {
        "id": "71b4395bec2cc095",
        "who": SCOUT,
        "may": ["transfer", "burn"],
        "approves": False,
        "wallet": None,
        "assets": [{"asset": USDC, "decimals": 6, "per": [[DAY, 20_000_000]], "perTx": None,
                    "hold": None}],
        "to": ["any"],
        "new": "allow",
        "costs": 10_000_000,
        "rate": [],
        "hours": None,
        "until": None,
        "swap": None,
    }  # fmt: skip
    grant = from_stored(stored)
    assert grant == read({**PLAIN, "may": ["transfer", "burn"]})
    assert stored_form(grant) == stored


def test_what_is_written_otherwise_and_says_the_same_is_the_same_grant() -> None:
    other = {
        "assets": {"usdc": {"per": {"1d": "20.00"}}},
        "may": ["transfer"],
        "who": SCOUT,
        "to": ["any"],
        "new": "allow",
        "costs": "0.01",
    }
    assert read(other) == read(PLAIN)
    assert read(PLAIN | {"assets": {USDC: {"per": {"1440m": "20"}}}}) == read(PLAIN)


@promise("lookalike-asset-is-none")
@pytest.mark.parametrize("word", ["SOL", "sol", WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT])
def test_wrapped_sol_is_sol(word: str) -> None:
    grant = read(PLAIN | {"assets": {word: {"per": {"1h": "1.000000001"}}}})
    assert grant.assets["SOL"].windows == (Window(HOUR, 1_000_000_001),)


def test_a_mint_of_no_list_is_written_by_its_address_with_the_services_decimals() -> None:
    grant = read(PLAIN | {"assets": {PEPE: {"per": {"1h": "1.25"}}}})
    assert grant.assets[PEPE] == AssetLimit(PEPE, 2, (Window(HOUR, 125),))
    assert named_mints([PLAIN, grant_json(grant, KNOWN), {"swap": {"into": [BONK, "SOL"]}}]) == {
        PEPE,
        BONK,
    }


@promise("amounts-are-exact-strings")
@pytest.mark.parametrize(
    "text",
    [
        *("1e3", "1E3", "+1", "-1", " 1", "1 ", "1\n", ".5", "5.", "01", "1,5", "1_000", "0x10"),
        *("", "NaN", "nan", "Infinity", "inf", "١", "1.١", "１", "²", "1.5.1", "--1", "1/2", "$1"),
    ],
)
def test_23_an_amount_is_a_plain_decimal_string(text: str) -> None:
    for path in ("assets/USDC/perTx", "assets/USDC/hold", "assets/USDC/per/24h", "costs"):
        with pytest.raises(InvalidRequest, match=r"a decimal string of \w+ such as") as refused:
            read(changed(path, text))
        assert str(refused.value).startswith(f"grants[3].{path.replace('/', '.')}: ")


@promise("amounts-are-exact-strings")
@pytest.mark.parametrize(
    "value", [5, 5.0, Decimal("5"), float("nan"), True, None, ["5"], {"units": "5"}]
)
def test_23_an_amount_is_no_json_number(value: object) -> None:
    for path in ("assets/USDC/perTx", "assets/*/usd/per/24h", "costs"):
        with pytest.raises(InvalidRequest, match=r"such as \"1.5\" is expected, not ") as refused:
            read(changed(path, value))
        assert str(refused.value).startswith(f"grants[3].{path.replace('/', '.')}: ")


@promise("amounts-are-exact-strings")
@pytest.mark.parametrize(
    ("asset", "most", "more", "finer"),
    [
        ("SOL", "4611686018.427387904", "4611686018.427387905", "0.0000000001"),
        ("USDC", "4611686018427.387904", "4611686018427.387905", "1.0000000"),
        (PEPE, "46116860184273879.04", "46116860184273879.05", "0.001"),
    ],
)
def test_23_an_amount_is_held_to_the_mints_decimals_and_to_what_can_be_counted(
    asset: str, most: str, more: str, finer: str
) -> None:
    def with_amount(text: str) -> dict[str, Any]:
        return PLAIN | {"assets": {asset: {"per": {"1h": text}}}}

    assert read(with_amount(most)).assets[asset if asset != "USDC" else USDC].windows == (
        Window(HOUR, 2**62),
    )
    for text, expected in ((more, f"at most {most} is expected"), (finer, "decimals are expected")):
        with pytest.raises(InvalidRequest) as refused:
            read(with_amount(text))
        assert str(refused.value).startswith(f"grants[3].assets.{asset}.per.1h: at most ")
        assert str(refused.value).endswith(expected)


LOOKALIKES = {
    "USDС": "Cyrillic Es",
    "USDC\u200b": "with a zero-width space",
    "ＵＳＤＣ": "full width",
    "uſdc": "long s, which is S in upper case",
    "ЅOL": "Cyrillic Dze",
    "ВОNК": "Cyrillic",
    " USDC": "with a space",
    "USD": "no symbol",
    "USDT": "not listed on this network",
}


# What looks like a symbol is refused with the mint it has, other text with the symbols there are.
LISTED_ONE = "but is spelled differently; (USDC|SOL|BONK) is the mint|a known symbol"


@promise("lookalike-asset-is-none", "lookalike-symbol-refused")
@pytest.mark.parametrize("symbol", LOOKALIKES, ids=LOOKALIKES.values())
def test_23_a_symbol_that_looks_like_a_listed_one_is_none(symbol: str) -> None:
    for document, path in (
        (PLAIN | {"assets": {symbol: {"per": {"24h": "1"}}}}, "grants[3].assets"),
        (changed("swap/into", [symbol]), "grants[3].swap.into[0]"),
    ):
        with pytest.raises(InvalidRequest, match=LISTED_ONE) as refused:
            read(document)
        assert str(refused.value).startswith(path)
        assert str(refused.value).isprintable()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no object": ([], "grants[3]: an object is expected, not an array"),  # type: ignore[dict-item]
    "unknown field": (
        WHOLE | {"maximum": "5"},
        "grants[3].maximum: is not a field; the fields are who, wallet, may, assets, to, new, "
        "via, costs, rate, hours, until, swap",
    ),
    "a field with a line end": (
        WHOLE | {"a\nb": 1},
        'grants[3]["a\\nb"]: is not a field; the fields are who, wallet, may, assets, to, new, '
        "via, costs, rate, hours, until, swap",
    ),
    "no who": ({**WHOLE, "who": None}, "grants[3].who: a string is expected, not null"),
    "who without a kind": (
        WHOLE | {"who": "scout"},
        "grants[3].who: one of wallet:, agent:, key:, schedule:, plugin:, skill:, site: and an "
        "id or a name is expected",
    ),
    "nobody": (
        WHOLE | {"who": "agent:ghost"},
        'grants[3].who: no agent has the id or name "ghost"',
    ),
    "a site that transfers": (
        WHOLE | {"who": "site:api.example.com"},
        'grants[3].may[0]: for a site pay is expected, not "transfer"',
    ),
    "a site that approves": (
        changed("may", ["pay", "approve"]) | {"who": "site:api.example.com"},
        "grants[3].may[1]: only a key may approve",
    ),
    "a site in capitals": (
        WHOLE | {"who": "site:API.example.com"},
        f"grants[3].who: {EXPECTED_SITE}",
    ),
    "two of a name": (
        WHOLE | {"wallet": "till"},
        'grants[3].wallet: 2 have the name "till"; an id is expected',
    ),
    "via beside other operations": (
        changed("may", ["pay", "transfer"]) | {"via": ["site:api.example.com"]},
        'grants[3].via: ["pay"] is expected as the only value of may',
    ),
    "via of one that approves": (
        changed("may", ["pay", "approve"]) | {"who": "key:k1", "via": ["site:api.example.com"]},
        'grants[3].via: ["pay"] is expected as the only value of may',
    ),
    "via of a site": (
        PAYING | {"who": "site:b.example", "via": ["site:api.example.com"]},
        "grants[3].via: is not expected if who is a site",
    ),
    "via as text": (
        PAYING | {"via": "site:api.example.com"},
        "grants[3].via: an array is expected, not a string",
    ),
    "via nothing": (PAYING | {"via": []}, "grants[3].via: at least one site is expected"),
    "via of more than 100": (
        PAYING | {"via": [f"site:s{number}.example" for number in range(101)]},
        "grants[3].via: at most 100 items are expected",
    ),
    "via no text": (
        PAYING | {"via": ["site:a.example", 7]},
        "grants[3].via[1]: a string is expected, not a number",
    ),
    "via a bare host": (
        PAYING | {"via": ["api.example.com"]},
        "grants[3].via[0]: site: and a host such as site:api.example.com is expected, not "
        '"api.example.com"',
    ),
    "via a plugin": (
        PAYING | {"via": ["plugin:solward-weather"]},
        "grants[3].via[0]: site: and a host such as site:api.example.com is expected, not "
        '"plugin:solward-weather"',
    ),
    "via the same twice": (
        PAYING | {"via": ["site:a.example", "site:a.example"]},
        "grants[3].via[1]: the same site stands twice",
    ),
    "may nothing": (
        changed("may", []),
        "grants[3].may: at least one of transfer, fund, pay, swap, stake, wrap, burn, launch, "
        "approve is expected",
    ),
    "may something else": (
        changed("may", ["transfer", "steal"]),
        "grants[3].may[1]: one of transfer, fund, pay, swap, stake, wrap, burn, launch, approve "
        'is expected, not "steal"',
    ),
    "may twice": (changed("may", ["swap", "swap"]), "grants[3].may[1]: swap stands twice"),
    "an agent that approves": (
        changed("may", ["swap", "approve"]),
        "grants[3].may[1]: only a key may approve",
    ),
    "no assets": (
        {"who": "agent:scout", "may": ["launch", "burn"]},
        "grants[3].assets: is required, because may has burn",
    ),
    "assets of nothing": (
        changed("assets", {}),
        "grants[3].assets: 1 to 100 assets are expected",
    ),
    "assets as a list": (
        changed("assets", ["USDC"]),
        "grants[3].assets: an object is expected, not an array",
    ),
    "an asset twice": (
        changed("assets", {"USDC": {"per": {"1h": "1"}}, USDC: {"per": {"1h": "1"}}}),
        f"grants[3].assets.{USDC}: the same asset stands twice",
    ),
    "an unknown mint": (
        changed("assets", {VENDOR: {"per": {"1h": "1"}}}),
        f"grants[3].assets.{VENDOR}: no known mint has this address",
    ),
    "an asset without windows": (
        changed("assets/USDC", {"perTx": "5"}),
        'grants[3].assets.USDC.per: is required, such as {"24h": "20"}',
    ),
    "an asset's unknown field": (
        changed("assets/USDC/max", "1"),
        "grants[3].assets.USDC.max: is not a field; the fields are perTx, per, hold",
    ),
    "dollars of a token": (
        changed("assets/USDC", {"usd": {"per": {"1h": "1"}}}),
        "grants[3].assets.USDC.usd: is not a field; the fields are perTx, per, hold",
    ),
    "others, not in dollars": (
        changed("assets/*", {"per": {"1h": "1"}}),
        "grants[3].assets.*.per: is not a field; the fields are usd",
    ),
    "others, of nothing": (
        changed("assets/*", {}),
        "grants[3].assets.*.usd: an object is expected, not null",
    ),
    "no window": (
        changed("assets/USDC/per", {}),
        'grants[3].assets.USDC.per: 1 to 4 windows such as "24h" are expected',
    ),
    "five windows": (
        changed("assets/USDC/per", {f"{each}h": "1" for each in range(1, 6)}),
        'grants[3].assets.USDC.per: 1 to 4 windows such as "24h" are expected',
    ),
    "a window twice": (
        changed("assets/USDC/per", {"24h": "1", "1d": "2"}),
        "grants[3].assets.USDC.per.1d: the same window stands twice",
    ),
    "an address and any": (
        changed("to", ["any", VENDOR]),
        "grants[3].to: any is expected as the only recipient",
    ),
    "nobody to": (changed("to", []), "grants[3].to: at least one recipient is expected"),
    "a recipient as text": (
        changed("to", "@vendors"),
        "grants[3].to: an array is expected, not a string",
    ),
    "a name that no book has": (
        changed("to", ["@friends"]),
        'grants[3].to[0]: the address book has no "friends"',
    ),
    "a recipient by name": (
        changed("to", ["@vendors", "vendors"]),
        "grants[3].to[1]: any, own, an address or @name of the address book is expected, not "
        '"vendors"',
    ),
    "a short address": (
        changed("to", [VENDOR[:-4]]),
        "grants[3].to[0]: any, own, an address or @name of the address book is expected, not "
        f'"{VENDOR[:-4]}"',
    ),
    "a recipient twice": (
        changed("to", [VENDOR, VENDOR]),
        "grants[3].to[1]: the same recipient stands twice",
    ),
    "new": (changed("new", "ask"), "grants[3].new: one of allow, hold, refuse is expected"),
    "rate as text": (
        changed("rate", {"1m": "5"}),
        "grants[3].rate.1m: a whole number of 1 to 1,000,000 is expected",
    ),
    "rate of none": (
        changed("rate", {"1m": 0}),
        "grants[3].rate.1m: a whole number of 1 to 1,000,000 is expected",
    ),
    "hours in another zone": (
        changed("hours", "07:00-22:00"),
        'grants[3].hours: hours such as "07:00-22:00 UTC" are expected',
    ),
    "hours of nothing": (
        changed("hours", "07:00-07:00 UTC"),
        "grants[3].hours: two different times are expected",
    ),
    "slippage": (
        changed("swap/slippageBps", "100"),
        "grants[3].swap.slippageBps: a whole number of 0 to 10,000 is expected",
    ),
    "impact": (
        changed("swap/impactBps", 10_001),
        "grants[3].swap.impactBps: a whole number of 0 to 10,000 is expected",
    ),
    "a truth as a number": (
        changed("swap/impactBps", True),
        "grants[3].swap.impactBps: a whole number of 0 to 10,000 is expected",
    ),
    "swap's unknown field": (
        changed("swap/from", []),
        "grants[3].swap.from: is not a field; the fields are slippageBps, impactBps, into",
    ),
    "swap of nothing": (
        changed("swap", {}),
        "grants[3].swap: slippageBps, impactBps or into is expected",
    ),
    "into nothing": (
        changed("swap/into", []),
        "grants[3].swap.into: at least one asset is expected",
    ),
    "into anything": (
        changed("swap/into", ["*"]),
        "grants[3].swap.into[0]: a symbol or a mint is expected",
    ),
    "into twice": (
        changed("swap/into", ["SOL", "sol"]),
        "grants[3].swap.into[1]: the same asset stands twice",
    ),
}


@promise("grants-refuse-unknown-fields", "via-only-with-pay")
@pytest.mark.parametrize(("document", "error"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_named_by_its_path_and_what_was_expected(
    document: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(document)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "text", ["0m", "31d", "721h", "1", "h", "1s", "1w", "1.5h", "-1h", "１h", "1H", "24 h", "01h"]
)
def test_a_window_is_of_a_minute_to_30_days(text: str) -> None:
    for path in ("assets/USDC/per", "assets/*/usd/per", "rate"):
        with pytest.raises(
            InvalidRequest, match='a window of "1m" to "30d" is expected'
        ) as refused:
            read(changed(path, {text: 1}))
        assert str(refused.value).startswith(f"grants[3].{path.replace('/', '.')}")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-12-31T00:00:00Z", 1_798_675_200_000),
        ("2026-12-31T02:00:00+02:00", 1_798_675_200_000),
        ("2026-12-30T18:30:00.25-05:30", 1_798_675_200_250),
        ("2026-12-31", None),
        ("2026-12-31T00:00:00", None),
        ("2026-13-31T00:00:00Z", None),
        ("2026-02-30T00:00:00Z", None),
        ("1969-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00+23:00", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("2026-12-31T00:00:00.1234Z", None),
        ("２026-12-31T00:00:00Z", None),
        ("2026-W01-1T00:00:00Z", None),
        ("tomorrow", None),
    ],
)
def test_until_is_a_time_with_its_zone(text: str, ms: int | None) -> None:
    if ms is not None:
        assert read(changed("until", text)).until_ms == ms
        return
    with pytest.raises(InvalidRequest, match=r"grants\[3\]\.until: a time with zone such as "):
        read(changed("until", text))


@given(value=JSON)
def test_15_whatever_it_is_given_a_reader_refuses_by_name_or_reads(value: object) -> None:
    for reader in (
        lambda: read_grants(value, "grants", KNOWN),
        lambda: read_grants([value], "grants", KNOWN, SCOUT),
        lambda: read_book(value, "grants"),
    ):
        error = refusal(reader)
        assert error is None or error.startswith("grants")
    named_mints(value)


@promise("grants-refuse-unknown-fields")
@settings(max_examples=examples(30))
@given(document=documents(KNOWN), data=st.data(), value=JSON)
def test_a_grant_with_anything_in_any_place_is_refused_by_name_or_read(
    document: dict[str, Any], data: st.DataObject, value: object
) -> None:
    at: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        at = inner
    if isinstance(at, dict) and data.draw(st.booleans()):
        key = data.draw(st.text())
    at[key] = value
    error = refusal(lambda: read(document))
    if error is None:
        grant = read(document)
        assert read(grant_json(grant, KNOWN)) == grant
    else:
        assert error.startswith("grants[3]")
        assert error.isprintable()


def test_grants_of_one_principal_need_not_name_it_and_name_no_other() -> None:
    nameless = {each: PLAIN[each] for each in ("may", "assets")}
    assert read_grants([nameless], "grants", KNOWN, "key:new")[0].who == "key:new"
    named = read_grants([nameless | {"who": "key:new"}], "grants", KNOWN, "key:new")
    assert named[0].who == "key:new"
    with pytest.raises(InvalidRequest, match=r"^grants\[0\]\.who: is required$"):
        read_grants([nameless], "grants", KNOWN)
    with pytest.raises(InvalidRequest, match=r"^grants\[1\]\.who: is not the principal of the "):
        read_grants([nameless, PLAIN], "grants", KNOWN, "key:new")
    assert read_grants([], "grants", KNOWN, "key:new") == ()


@promise("grants-refuse-unknown-fields")
def test_a_principal_has_at_most_100_grants_and_none_twice() -> None:
    def many(count: int, who: str) -> list[dict[str, Any]]:
        return [
            PLAIN | {"who": who, "assets": {"USDC": {"per": {"24h": str(each)}}}}
            for each in range(count)
        ]

    hundreds = many(100, "agent:scout") + many(100, "key:ci")
    assert len(read_grants(hundreds, "grants", KNOWN)) == 200
    with pytest.raises(InvalidRequest, match=r"^grants\[200\]: at most 100 grants of a principal"):
        read_grants([*hundreds, many(101, "key:ci")[-1]], "grants", KNOWN)
    with pytest.raises(InvalidRequest) as refused:
        read_grants([PLAIN, WHOLE, PLAIN | {"new": "allow"}], "grants", KNOWN)
    assert str(refused.value) == f"grants[2]: is the same grant as grants[0]: {SAID}"


def test_an_address_book_is_read_and_written() -> None:
    document = {"vendors": [VENDOR, STRANGER], "staff": [VENDOR]}
    book = read_book(document, "book")
    assert book == {"vendors": (VENDOR, STRANGER), "staff": (VENDOR,)}
    assert policy_json(GrantPolicy({}, book), KNOWN)["book"] == document


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([], "book: an object is expected, not an array"),
        ({"Vendors": []}, "book.Vendors: a name of 1 to 32 characters of a-z, 0-9 and - is expect"),
        ({"-a": []}, "book.-a: a name of 1 to 32 characters"),
        ({"a" * 33: []}, f"book.{'a' * 33}: a name of 1 to 32 characters"),
        ({"vendоrs": []}, 'book["vend\\u043ers"]: a name of 1 to 32 characters'),
        ({"a": []}, "book.a: at least one address is expected"),
        ({"a": VENDOR}, "book.a: an array is expected, not a string"),
        ({"a": [VENDOR, "x"]}, "book.a[1]: an address, base58 of 32 bytes, is expected"),
        # A contact's name is none: a document that is put again would let another be paid.
        ({"a": ["Landlord"]}, "book.a[0]: an address, base58 of 32 bytes, is expected"),
        ({"a": [{"address": VENDOR}]}, "book.a[0]: an address, base58 of 32 bytes, is expected"),
        ({"a": [VENDOR, STRANGER, VENDOR]}, "book.a[2]: the same address stands twice"),
        ({"a": [VENDOR] * 1001}, "book.a: at most 1,000 items are expected"),
        ({f"n{each}": [VENDOR] for each in range(1001)}, "book: at most 1,000 names are expected"),
    ],
)
def test_an_address_book_is_refused_by_the_path_of_what_is_wrong(
    document: object, error: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_book(document, "book")
    assert str(refused.value).startswith(error)


POLICY: dict[str, Any] = {
    "version": 7,
    "book": {"friends": [VENDOR]},
    "grants": [PLAIN | {"to": ["@friends"]}, {"who": "key:ci", "may": ["launch"]}, PLAIN],
    "readOnly": ["wallet:w2"],
}


def test_a_policy_is_read_and_written_whole() -> None:
    policy = read_policy(POLICY, KNOWN)
    assert [(who, len(grants)) for who, grants in policy.sets.items()] == [
        (SCOUT, 2),
        ("key:k1", 1),
        ("wallet:w2", 0),
    ]
    assert (policy.version, policy.book) == (7, {"friends": (VENDOR,)})
    assert read_policy(policy_json(policy, KNOWN), KNOWN) == policy
    assert read_policy({}, KNOWN) == GrantPolicy({}, {})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": "7"}, "version: a whole number of 0 to 9,007,199,254,740,992 is expected"),
        ({"limits": []}, "limits: is not a field; the fields are version, book, grants, readOnly"),
        ({"book": {}}, 'grants[0].to[0]: the address book has no "friends"'),
        # The service's own book does not count: the document replaces it.
        ({"grants": [WHOLE]}, 'grants[0].to[0]: the address book has no "vendors"'),
        ({"grants": [PLAIN, PLAIN]}, f"grants[1]: is the same grant as grants[0]: {SAID}"),
        ({"readOnly": ["key:ci"]}, "readOnly[0]: has grants"),
        ({"readOnly": ["wallet:w2", "wallet:w2"]}, "readOnly[1]: stands twice"),
        ({"readOnly": ["key:ghost"]}, 'readOnly[0]: no key has the id or name "ghost"'),
        ({"readOnly": {}}, "readOnly: an array is expected, not an object"),
    ],
)
def test_a_policy_is_refused_by_the_path_of_what_is_wrong(
    change: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_policy(POLICY | change, KNOWN)
    assert str(refused.value) == error


@given(text=st.text(st.characters(exclude_categories=())))
def test_quoted_text_is_one_printable_line_that_ends_at_its_quote(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    if not any("\ud800" <= each <= "\udfff" for each in text):
        assert jsontext.loads(shown) == text
