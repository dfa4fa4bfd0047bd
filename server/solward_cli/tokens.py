"""`solward tokens refresh|list|show|clear`: which tokens are known by symbol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from solward.solana.token_list import KnownToken, token_list
from solward.support.clock import iso, now_ms
from solward.types.errors import ConfigError
from solward_cli.entrypoint import home_command, inspected_database, offline_wallets, read_audit_key
from solward_cli.render import fields, table, visible
from solward_cli.render import show as print_out

if TYPE_CHECKING:
    from solward.database.database import Database
    from solward.service.token_refresh import CheckedList, StoredList
    from solward.settings import Settings
    from solward.solana.token_list import KnownToken

# A published list of all tokens has some megabytes.
_MOST_BYTES = 64 * 1024 * 1024
_FETCH_S = 30.0
_JUPITER_LIST = "/tokens/v2/tag?query=verified"


@click.group()
def tokens() -> None:
    """List and update the tokens known by symbol."""


@tokens.command()
@click.argument("source", required=False)
@click.option(
    "--only",
    multiple=True,
    metavar="SYMBOL",
    help="Store only this token; may be given more than once.",
)
@click.option("--yes", is_flag=True, help="Store the list without asking.")
@home_command
async def refresh(settings: Settings, source: str | None, only: tuple[str, ...], yes: bool) -> None:
    """Store the verified tokens of a published list, while the service is stopped.

    SOURCE is a file or an https:// address in the format of Jupiter's token API (version 2) or of
    a Solana token list; on mainnet it defaults to Jupiter's verified tokens. Each mint is compared
    with the chain at every node of SOLANA_RPC_URL. Symbols that resemble another token's are
    refused. The changes are shown, and stored once you confirm them.
    """
    from solward.service.cluster import open_cluster
    from solward.service.token_refresh import check_published, parse_published

    network = settings.solana_network
    offered, unread = parse_published(await _read_source(settings, source), network)
    async with offline_wallets(settings, begins=True) as (database, _):
        before = _stored_tokens(await _read_stored(settings, database))
        async with open_cluster(settings) as cluster:
            await cluster.verify()
            nodes = cluster.ledger.nodes()
            checked = await check_published(offered, network, before, nodes, only)
        _print_changes(checked, before)
        for reason in unread:
            click.echo(f"! {reason}; it is left out")
        if set(checked.tokens) == set(before):
            click.echo("The stored list is already up to date.")
            return
        question = f"Store these {len(checked.tokens)} tokens for {network}?"
        if not yes and not click.confirm(question):
            raise ConfigError("Nothing was stored")
        await _store(settings, database, checked.tokens)
    click.echo("Stored. A service uses the list from its next start.")


@tokens.command("list")
@home_command
async def listing(settings: Settings) -> None:
    """List the tokens known by symbol."""
    stored = await _inspect_stored(settings)
    built_in = set(token_list(settings.solana_network))
    rows = (
        (each.symbol, each.decimals, each.mint, "built in" if each in built_in else "list")
        for each in token_list(settings.solana_network, _stored_tokens(stored))
    )
    print_out(table(("SYMBOL", ">DECIMALS", "MINT", "FROM"), rows, ""))
    if stored is not None:
        click.echo(f"The list was stored {iso(stored.stored_ms)}.")


@tokens.command()
@click.argument("token")
@home_command
async def show(settings: Settings, token: str) -> None:
    """Show one token, by its symbol or by any mint's address.

    If SOLANA_RPC_URL is set, the issuer's rights are read from the chain.
    """
    from solward.service.cluster import open_cluster
    from solward.solana.tokens import read_mint
    from solward.vault.guardrails.comparison import issuers_rights

    built_in = set(token_list(settings.solana_network))
    every = token_list(settings.solana_network, _stored_tokens(await _inspect_stored(settings)))
    address = every.resolve(token, "TOKEN")
    known = next((each for each in every if each.mint == address), None)
    values: dict[str, object] = {
        "Symbol": every.symbol_of(address) or "-",
        "Mint": address,
        "Decimals": known and known.decimals,
        "Known": "built in" if known in built_in else "from the stored list",
    }
    if known is None:
        values["Known"] = "by its address alone"
    if settings.rpc_urls:
        async with open_cluster(settings) as cluster:
            mint = await read_mint(cluster.ledger, address, "TOKEN")
        values |= {
            "Decimals": mint.decimals,
            "Program": mint.program_name,
            "Mint authority": mint.mint_authority or "none",
            "Freeze authority": mint.freeze_authority or "none",
            "Issuer's rights": ", ".join(issuers_rights(mint)) or "none",
        }
    print_out(fields(values))


@tokens.command()
@home_command
async def clear(settings: Settings) -> None:
    """Delete the stored list, but not the built-in tokens, while the service is stopped."""
    async with offline_wallets(settings) as (database, _):
        await _store(settings, database, ())
    click.echo(f"No list is stored for {settings.solana_network} any more.")


def _print_changes(checked: CheckedList, before: Sequence[KnownToken]) -> None:
    from solward.vault.guardrails.comparison import issuers_rights

    now = {each.mint for each in checked.tokens}
    for each in before:
        if each.mint not in now:
            click.echo(f"- {each.symbol} {each.mint}")
    known = set(before)
    for token, mint in zip(checked.tokens, checked.mints, strict=True):
        sign = " " if token in known else "+"
        rights = ", ".join(issuers_rights(mint))
        note = f"; its issuer has {rights} (see REGULATED_MINTS)" if rights else ""
        click.echo(f"{sign} {token.symbol} {token.mint}, {token.decimals} decimals{note}")
    for refused in checked.refused:
        click.echo(f"! {visible(refused.symbol)} {refused.mint} refused: {refused.reason}")
    click.echo(
        f"{len(checked.tokens)} accepted, {len(checked.refused)} refused, {checked.built_in}"
        f" already built in, {checked.unverified} not verified."
    )


async def _inspect_stored(settings: Settings) -> StoredList | None:
    """Read the stored list; a service may be running."""
    from solward.database.database import database_file

    file = database_file(settings.database_url, settings.solward_home)
    if file is not None and not file.is_file():
        return None
    async with inspected_database(settings) as database:
        await read_audit_key(settings, database)
        return await _read_stored(settings, database)


async def _read_stored(settings: Settings, database: Database) -> StoredList | None:
    from solward.service.token_refresh import read_list

    async with database.read() as connection:
        return await read_list(connection, settings.solana_network, database.audit_key)


def _stored_tokens(stored: StoredList | None) -> tuple[KnownToken, ...]:
    return () if stored is None else stored.tokens


async def _store(settings: Settings, database: Database, tokens: Sequence[KnownToken]) -> None:
    from solward.service.token_refresh import write_list

    async with database.write() as connection:
        await write_list(connection, settings.solana_network, tokens, database.audit_key, now_ms())


async def _read_source(settings: Settings, source: str | None) -> bytes:
    from solward.service.cluster import JUPITER_API_URL

    jupiter = settings.jupiter_api_url or JUPITER_API_URL
    if source is None:
        if not settings.mainnet:
            raise ConfigError(
                f"SOURCE must be given: no published list of {settings.solana_network} is known"
            )
        source = jupiter + _JUPITER_LIST
    if "://" in source:
        is_jupiters = urlsplit(source).netloc == urlsplit(jupiter).netloc
        return await _fetch_source(
            source, settings.key_for("jupiter_api_key", "jupiter_api_url") if is_jupiters else None
        )
    try:
        with click.open_file(source, "rb") as file:
            return bytes(file.read())
    except OSError as error:
        raise ConfigError(f"SOURCE {source} cannot be read: {error.strerror}") from None


async def _fetch_source(url: str, key: str | None) -> bytes:
    import httpx

    from solward.settings.addresses import is_protected

    if urlsplit(url).scheme not in ("http", "https") or not is_protected(url):
        raise ConfigError("SOURCE must be a file or an https:// address")
    headers = {} if key is None else {"x-api-key": key}
    found = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=_FETCH_S, headers=headers) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ConfigError(f"SOURCE answered with the status {response.status_code}")
            async for part in response.aiter_bytes():
                found += part
                if len(found) > _MOST_BYTES:
                    raise ConfigError(f"SOURCE is larger than {_MOST_BYTES} bytes")
    except httpx.HTTPError as error:
        raise ConfigError(f"SOURCE did not answer: {type(error).__name__}") from None
    return bytes(found)
