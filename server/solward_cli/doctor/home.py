"""Checks of what is on this machine: `settings`, `database`, `keystore`, and `limits`."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from solward.types.errors import ConfigError, KeystoreError, StoreError
from solward.types.money import format_amount, format_sol
from solward_cli.doctor.report import Line, fail, ok, warn
from solward_cli.doctor.subject import NotThisVersion

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward.vault.guardrails import ScopeLimits
    from solward_cli.doctor.subject import Subject

_START = "start the service once: it makes what is missing"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


async def settings(subject: Subject) -> list[Line]:
    """What the settings say: the network, the admin secret, and who can read the home."""
    return [*_serving(subject.settings), _home(subject.settings)]


def _serving(settings: Settings) -> Iterator[Line]:
    network = settings.solana_network
    where = "the embedded ledger" if not settings.rpc_urls else f"{len(settings.rpc_urls)} RPC"
    yield ok("Network", f"{network}, {where}")
    refused = list(not_served(settings))
    for why in refused:
        yield fail("Serving", why, "change the variable that is named")
    if not refused:
        yield ok("Serving", f"allowed at {settings.api_host}:{settings.api_port}")
    if settings.development_secret:
        advice = "set API_SECRET before others can reach the machine: openssl rand -hex 32"
        yield warn("API_SECRET", "the development secret, which is public", advice)
    else:
        length = len(settings.api_secret.get_secret_value().encode())
        yield ok("API_SECRET", f"{length} bytes, not shown")


def not_served(settings: Settings) -> Iterator[str]:
    """Why no service starts with these settings, though each has a value that it may have."""
    from solward.database.database import database_file

    for check in (
        settings.check_serving,
        settings.check_shared_ledger,
        lambda: settings.approval_webhook,
        lambda: settings.alert_webhook,
        lambda: database_file(settings.database_url, settings.solward_home),
    ):
        try:
            check()
        except ConfigError as error:
            yield str(error)


def _home(settings: Settings) -> Line:
    home = settings.solward_home
    try:
        status = home.stat()
    except FileNotFoundError:
        return warn("SOLWARD_HOME", f"{home} does not exist", _START)
    except OSError as error:
        return fail("SOLWARD_HOME", f"{home}: {error.strerror}", "run as the service's user")
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if status.st_mode & _OTHERS:
        return fail("SOLWARD_HOME", f"{home} is open to others, {mode}", f"chmod 700 {home}")
    return ok("SOLWARD_HOME", f"{home}, {mode}")


async def database(subject: Subject) -> list[Line]:
    """Whether the database is there, at this version's schema, and of this network."""
    from solward.database import schema
    from solward.database.ledger_network import network_mismatch

    network, shared = subject.settings.solana_network, subject.settings.shared_database
    kind = "PostgreSQL" if shared else "SQLite"
    try:
        async with (await subject.database()).read() as connection:
            revision = await schema.revision(connection)
            mismatch = await network_mismatch(connection, network, shared=shared)
    except ConfigError as error:
        return [fail("DATABASE_URL", str(error), "change DATABASE_URL")]
    except NotThisVersion as error:
        advice = "make a backup, then start the service: it makes tables, and upgrades older ones"
        return [warn("Database", f"{kind}, {error}", advice)]
    except StoreError as error:
        if shared:
            return [fail("Database", f"{kind}: {error}", "start it, or change DATABASE_URL")]
        return [warn("Database", f"{kind}: {error}", _START)]
    found = [ok("Database", f"{kind}, at revision {revision}, which is this version's")]
    if mismatch is not None:
        found.append(fail("Network", mismatch.found, mismatch.advice))
    return found


async def keystore(subject: Subject) -> list[Line]:
    """Whether the configured secret opens the keystore of this database."""
    from solward.vault.custody.keyring import unlock
    from solward.vault.custody.keystore import keystore_row
    from solward.vault.custody.service import key_source
    from solward.vault.store.wallets import keystore_rows

    settings = subject.settings
    try:
        source = key_source(settings, settings.solward_home)
        async with (await subject.database()).read() as connection:
            rows = await keystore_rows(connection)
        if not rows:
            return [warn("Keystore", "there is none yet", _START)]
        await unlock(source, keystore_row(rows[0]))
    except KeystoreError as error:
        advice = "put the key file or passphrase back that this keystore was made with"
        return [fail("Keystore", str(error), advice)]
    except (ConfigError, StoreError) as error:
        return [warn("Keystore", f"not opened: {error}", "see `solward doctor database`")]
    made = "a passphrase" if source.file is None else str(source.file)
    wallets = await subject.wallets()
    lines = [ok("Keystore", f"{made} opens it; wallets: {len(wallets)}")]
    if source.file is not None and source.file.parent == settings.solward_home:
        found = "the key file is beside the database that it seals"
        lines.append(warn("Key file", found, "keep a copy elsewhere: `solward backup create FILE`"))
    return lines


async def limits(subject: Subject) -> list[Line]:
    """What can leave each wallet in a day, whoever asks, and what an agent or a key alone can."""
    return [*_ceilings(subject.settings), *await _leaving(subject)]


def _ceilings(settings: Settings) -> Iterator[Line]:
    each = format_sol(settings.max_lamports_per_transaction)
    daily = format_sol(settings.daily_spending_limit_lamports)
    costs = format_sol(settings.max_costs_lamports_per_day)
    found = f"{each} SOL a transaction, {daily} SOL a day, {costs} SOL of costs a day"
    yield ok("Every wallet", found)
    fee = format_sol(settings.max_network_fee_lamports)
    yield ok(
        "Every transaction",
        f"{fee} SOL of network fee at most; priority fee: {settings.priority_fee}",
    )
    slippage, impact = settings.max_slippage_bps, settings.max_price_impact_bps
    yield ok(
        "Every swap",
        f"{_percent(slippage)} % slippage, {_percent(impact)} % price impact at most",
    )


def _percent(bps: int) -> str:
    from decimal import Decimal

    return format_amount(Decimal(bps) / 100)


async def _leaving(subject: Subject) -> list[Line]:
    from solward.operations.policies.grant_report import wallet_grants
    from solward.service.service import wallet_limits
    from solward.solana.token_list import token_list

    settings = subject.settings
    wallets = await subject.wallets()
    if not wallets:
        return [ok("Wallets", "there are none yet")]
    database, tokens = await subject.database(), token_list(settings.solana_network)
    try:
        callers = await _callers(subject)
        lines = []
        for row in wallets:
            named = [(who, of) for who, wallet, of in callers if wallet in (None, row["id"])]
            report = await wallet_grants(
                database, tokens, row["id"], wallet_limits(settings), named
            )
            lines.append(_lost(row["name"], report["canLeave"]))
    except StoreError as error:
        return [fail("Wallets", str(error), "see `solward doctor database`")]
    return lines


def _lost(wallet: str, report: dict[str, object]) -> Line:
    sentence = str(report["sentence"])
    if "any amount" not in sentence:
        return ok(wallet, sentence)
    advice = "put who uses it under grants (docs/grants.md), or name its tokens in TOKEN_LIMITS"
    return warn(wallet, sentence, advice)


async def _callers(subject: Subject) -> list[tuple[str, str | None, ScopeLimits]]:
    """Who may use wallets: the principal, its wallet (None for every one), its ceilings."""
    from solward.agents.agent import agent_of
    from solward_server.http.api_keys_database import DatabaseKeys

    agents = [agent_of(row) for row in await subject.agents()]
    keys = await DatabaseKeys(await subject.database()).list()
    return [
        *((f"agent:{each.id}", each.wallet_id, each.limits) for each in agents),
        *((key.principal, key.wallet_id, key.limits) for key in keys),
    ]
