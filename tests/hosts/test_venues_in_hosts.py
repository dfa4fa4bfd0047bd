"""A third party's venue in its plugin host: an address, a key, pools and a ledger of its own."""

from __future__ import annotations

import asyncio
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.test_egress import API, LISTEN, Site, authority
from tests.hosts.test_plugin_secrets import Sites, echo, opened, sites, value
from tests.promises import promise
from tests.support.hosts import Hosted, Opened
from tests.support.plugins import HEAD, Shelf, shelf

from solward.operations.venues import Venue
from solward.plugins.load import check_manifest, check_venue
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import SkillError
from solward.types.manifest import Manifest, Rejected, Secret
from solward.types.venue import FUNDS_FIRST, Quote, QuoteRequest, VenueSpec
from solward_localnet.market import POOLS

pytestmark = pytest.mark.samples(
    "test_a_venue_has_an_address_a_key_pools_and_a_ledger_of_its_own",
    "test_what_is_wrong_in_a_declaration_is_told",
    "test_what_is_right_passes",
)

__all__ = ["authority", "opened", "shelf", "sites", "value"]

POOL = POOLS[0]
USDC = str(POOL.mint)
REQUEST = QuoteRequest(WRAPPED_SOL_MINT, USDC, 10**9, 50)

# Asks its address with its key, and reads what the pool's vaults hold.
VENUE = f"""{HEAD}
from decimal import Decimal
from solward import Manifest, Quote, Secret, SkillError, VenueSpec

@hookimpl
def venue_spec():
    return VenueSpec("acme", manifest=Manifest(
        sites=({API!r},), secrets=(Secret("ACME_KEY", {API!r}),)),
        base_url="https://{API}", base_url_env="ACME_BASE_URL",
        secret_env="ACME_KEY", pools_env="ACME_POOLS")

@hookimpl
async def venue_quote(request, context):
    told = await context.http.get("/quote", headers={{"X-Key": context.secret("ACME_KEY")}})
    found = await context.ledger.accounts(context.pools)
    sizes = [len(each.data) for each in found.values()]
    return Quote(request.input_mint, request.output_mint, request.amount, 2, 2,
        request.slippage_bps, Decimal(0),
        raw={{"told": told.text, "pools": list(context.pools), "sizes": sizes,
             "sends": hasattr(context.ledger, "send")}})

@hookimpl
async def venue_instructions(quote, taker, destination, max_accounts, context):
    raise SkillError("funds_first", "a taker with funds is wanted")
"""


@pytest.fixture
def installed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf.install("acme", {"acme": VENUE}, "solward.venues")
    monkeypatch.setenv("ACME_POOLS", f"{POOL.address}, {POOL.sol_vault}")
    monkeypatch.setenv("JUPITER_API_KEY", "sk-of-jupiter")
    return shelf


def venue_of(hosted: Hosted) -> Venue:
    [found] = [
        each for each in hosted.stand.service.operations.venues.loaded if each.name == "acme"
    ]
    return found


async def asked(hosted: Hosted) -> dict[str, Any]:
    venue = venue_of(hosted)
    assert venue.lacks is None
    return dict((await venue.plugin.quote(REQUEST, venue.context)).raw)


@promise("venue-has-own-client")
async def test_a_venue_has_an_address_a_key_pools_and_a_ledger_of_its_own(
    installed: Shelf, opened: Opened, sites: Sites, value: str
) -> None:
    async with opened(jupiter_api_key="sk-of-jupiter") as hosted:
        found = await asked(hosted)
    assert found["pools"] == [str(POOL.address), str(POOL.sol_vault)]
    assert found["sizes"] == [64, 165]
    assert not found["sends"]
    # The key reached its site, and not the plugin, which the site told of it.
    [request] = sites.api.requests
    assert request.line.startswith("GET /quote")
    assert request.header("x-key") == value
    assert value not in str(found)
    assert "sk-of-jupiter" not in str(request.headers)


async def test_that_a_venue_wants_funds_first_reaches_the_plan_of_a_swap(
    installed: Shelf, opened: Opened
) -> None:
    async with opened() as hosted:
        venue = venue_of(hosted)
        quote = Quote(WRAPPED_SOL_MINT, USDC, 10**9, 2, 2, 50, Decimal(0))
        taker = str(POOL.address)
        with pytest.raises(SkillError, match="a taker with funds is wanted") as caught:
            await venue.plugin.instructions(quote, taker, taker, venue.context)
    assert caught.value.code == FUNDS_FIRST


async def test_the_operators_address_gets_the_key_instead_of_the_vendors(
    installed: Shelf,
    opened: Opened,
    sites: Sites,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operators = Site(echo)
    server = await asyncio.start_server(operators.serve, LISTEN, 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("ACME_BASE_URL", f"http://{LISTEN}:{port}")
    async with server, opened() as hosted:
        assert value not in str(await asked(hosted))
    [request] = operators.requests
    assert request.header("x-key") == value
    assert sites.api.requests == []


@pytest.mark.parametrize(
    ("variable", "text", "reason"),
    [
        ("ACME_POOLS", "", "set ACME_POOLS to the addresses of its pools"),
        ("ACME_POOLS", "sk-another-plugins", "ACME_POOLS must be addresses of pools"),
        ("ACME_POOLS", f"{USDC},{USDC}", "ACME_POOLS must be addresses of pools"),
        ("ACME_BASE_URL", "ftp://x", "ACME_BASE_URL must be an http:// or https:// address"),
    ],
)
async def test_one_that_is_not_configured_is_not_asked_and_says_what_it_lacks(
    installed: Shelf,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    text: str,
    reason: str,
) -> None:
    monkeypatch.setenv(variable, text)
    async with opened() as hosted:
        lacks = str(venue_of(hosted).lacks)
        names = [each.name for each in hosted.stand.service.operations.venues.enabled()]
    assert reason in lacks
    assert "sk-another" not in lacks
    assert "acme" not in names


KEYED = Manifest((API,), secrets=(Secret("ACME_KEY", API),))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (VenueSpec("best"), "name must not be 'best'"),
        (VenueSpec("v", base_url="https://a.example"), "base_url must be None: without a manifest"),
        (VenueSpec("v", secret_env="ACME_KEY"), "secret_env must be None: without a manifest"),
        (
            VenueSpec("v", KEYED, base_url="https://other.example"),
            "base_url must be an https:// address of",
        ),
        (
            VenueSpec("v", KEYED, base_url=f"http://{API}"),
            "base_url must be an https:// address of",
        ),
        (VenueSpec("v", KEYED, base_url=f"https://{API}/?a=b"), "base_url must have no query"),
        (VenueSpec("v", KEYED, base_url_env="JUPITER_API_URL"), "base_url_env must not be"),
        (VenueSpec("v", KEYED, secret_env="JUPITER_API_KEY"), "secret_env must not be"),
        (VenueSpec("v", KEYED, secret_env="ACME_OTHER"), "manifest.secrets must name ACME_OTHER"),
        (VenueSpec("v", pools_env="ACME_KEY"), "pools_env must be an environment variable's name"),
        (VenueSpec("v", pools_env="acme_POOLS"), "pools_env must be an environment variable's"),
        (
            VenueSpec("v", Manifest((API,), secrets=(Secret("ACME_POOLS", API),))),
            "manifest.secrets[0].env must not be ACME_POOLS",
        ),
    ],
)
def test_what_is_wrong_in_a_declaration_is_told(spec: VenueSpec, reason: str) -> None:
    found = []
    for check in (check_venue, check_manifest):
        try:
            check(spec)
        except Rejected as rejected:
            found.append(rejected.detail)
    assert reason in found[0]


def test_what_is_right_passes() -> None:
    every = VenueSpec("v", KEYED, f"https://{API}/v1", "ACME_BASE_URL", "ACME_KEY", "ACME_POOLS")
    for spec in (VenueSpec("v"), every):
        check_venue(spec)
        check_manifest(spec)


async def test_two_venues_share_no_client(
    installed: Shelf, opened: Opened, tmp_path: Path, value: str
) -> None:
    assert os.environ["ACME_KEY"] == value
    async with opened() as hosted:
        every = hosted.stand.service.operations.venues.loaded
        clients = {id(each.context.http) for each in every}
        assert len(clients) == len(every) > 1
        held = [each.context.http for each in every]
    assert all(each.is_closed for each in held)
