"""Checks of this machine: `settings`, `database`, `keystore`, `limits`, `plugins`, and `machine`:
above all, whether it can confine plugin hosts."""

from __future__ import annotations

import platform
import stat
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from solward.agents.agent import agent_of
from solward.credentials.credentials import Credentials
from solward.database.ledger_network import network_mismatch
from solward.hosts.confinement import landlock, probe_confinement, seccomp
from solward.operations.key_callers import limits_of
from solward.operations.policies.grant_report import wallet_grants
from solward.plugins.folders import models
from solward.service.limits import wallet_limits
from solward.solana.token_list import token_list
from solward.types.errors import ConfigError, KeystoreError, OtherSchema, StoreError
from solward.types.money import format_amount, format_sol
from solward.vault.custody.keyring import unlock
from solward.vault.custody.keystore import keystore_row
from solward.vault.custody.service import key_source
from solward.vault.store.wallets import keystore_rows
from solward_cli.config import serving_problems
from solward_cli.doctor.subject import (
    NOTHING,
    EmptyDatabase,
    Line,
    Subject,
    fail,
    fail_on_error,
    ok,
    warn,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.ext.asyncio import AsyncConnection

    from solward.hosts.confinement import Availability
    from solward.settings import Settings

_START = "start the service once: it creates what is missing"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_MINIMUM = "Linux 6.2"
_CHANGE = "change the variable named here"


async def settings(subject: Subject) -> list[Line]:
    """Check the settings: the network, the admin secret, and who can read the home."""
    settings = subject.settings
    network = settings.solana_network
    where = "the embedded ledger" if not settings.rpc_urls else f"{len(settings.rpc_urls)} RPC"
    length = len(settings.api_secret.get_secret_value().encode())
    secret = ok("API_SECRET", f"{length} bytes, not shown")
    if settings.development_secret:
        advice = "set API_SECRET before others can reach the machine: openssl rand -hex 32"
        secret = warn("API_SECRET", "the development secret, which is public", advice)
    serving = [fail("Serving", why, _CHANGE) for why in serving_problems(settings)]
    return [
        ok("Network", f"{network}, {where}"),
        *(serving or [ok("Serving", f"allowed at {settings.api_host}:{settings.api_port}")]),
        secret,
        _check_home(settings),
    ]


def _check_home(settings: Settings) -> Line:
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
    """Check that the database exists, has this version's schema and belongs to this network."""
    network, shared = subject.settings.solana_network, subject.settings.shared_database
    kind = "PostgreSQL" if shared else "SQLite"
    try:
        async with (await subject.database()).read() as connection:
            mismatch = await network_mismatch(connection, network, shared=shared)
            queue = await _check_queue(connection) if shared else []
    except ConfigError as error:
        return [fail("DATABASE_URL", str(error), "change DATABASE_URL")]
    except EmptyDatabase as error:
        return [warn("Database", f"{kind}, {error}", _START)]
    except OtherSchema as error:
        return [fail("Database", f"{kind}: {error}", "run the version that made the database")]
    except StoreError as error:
        if shared:
            return [fail("Database", f"{kind}: {error}", "start PostgreSQL or fix DATABASE_URL")]
        return [warn("Database", f"{kind}: {error}", _START)]
    found = [ok("Database", f"{kind}, with this version's schema"), *queue]
    if mismatch is not None:
        found.append(fail("Network", mismatch.found, mismatch.advice))
    return found


async def _check_queue(connection: AsyncConnection) -> list[Line]:
    # Procrastinate is installed for PostgreSQL only.
    from solward.agents.queue import prepare

    try:
        await prepare(connection, makes=False)
    except StoreError as error:
        return [fail("Queue", str(error), "run `solward database upgrade`, or the tables' release")]
    return []


async def keystore(subject: Subject) -> list[Line]:
    """Check that the configured secret opens the keystore of this database."""
    settings = subject.settings
    try:
        source = key_source(settings, settings.solward_home)
        async with (await subject.database()).read() as connection:
            rows = await keystore_rows(connection)
        if not rows:
            return [warn("Keystore", "no keystore exists yet", _START)]
        await unlock(source, keystore_row(rows[0]))
    except KeystoreError as error:
        advice = "restore the key file or passphrase that this keystore was made with"
        return [fail("Keystore", str(error), advice)]
    except (ConfigError, StoreError) as error:
        return [warn("Keystore", f"not opened: {error}", "see `solward doctor database`")]
    made = "a passphrase" if source.file is None else str(source.file)
    wallets = await subject.wallets()
    lines = [ok("Keystore", f"opened by {made}; wallets: {len(wallets)}")]
    if source.file is not None and source.file.parent == settings.solward_home:
        found = "the key file is in the same folder as the database that it opens"
        lines.append(warn("Key file", found, "keep a copy elsewhere: `solward backup create FILE`"))
    return lines


@fail_on_error("Wallets", "see `solward doctor database`")
async def limits(subject: Subject) -> list[Line]:
    """Report the maximum that can leave each wallet in a day, in total and by agent or key."""
    settings, wallets = subject.settings, await subject.wallets()
    lines = [*_limit_lines(settings)]
    if not wallets:
        return [*lines, ok("Wallets", "no wallet exists yet")]
    database, tokens = await subject.database(), token_list(settings.solana_network)
    # Principals that may use wallets: the name, its wallet (None for every one), its ceilings.
    agents = [agent_of(row) for row in await subject.agents()]
    keys = await Credentials(database).keys()
    callers = [
        *((f"agent:{each.id}", each.wallet_id, each.guardrails) for each in agents),
        *((key.principal, key.wallet_id, limits_of(key)) for key in keys),
    ]
    for row in wallets:
        named = [(who, of) for who, wallet, of in callers if wallet in (None, row["id"])]
        ceilings = wallet_limits(settings).within(row["ceilings"])
        report = await wallet_grants(database, tokens, row["id"], ceilings, named)
        sentence = str(report["canLeave"]["sentence"])
        make = ok if "any amount" not in sentence else partial(warn, advice=_UNBOUND)
        lines.append(make(row["name"], sentence))
    return lines


_UNBOUND = (
    "give its agents and keys grants (docs/reference/grants.md), or set TOKEN_LIMITS for its tokens"
)


def _limit_lines(settings: Settings) -> Iterator[Line]:
    each, daily, costs, fee = map(
        format_sol,
        (
            settings.max_lamports_per_transaction,
            settings.daily_spending_limit_lamports,
            settings.max_costs_lamports_per_day,
            settings.max_network_fee_lamports,
        ),
    )
    slippage, impact = (
        format_amount(Decimal(bps) / 100)
        for bps in (settings.max_slippage_bps, settings.max_price_impact_bps)
    )
    yield ok(
        "Every wallet", f"{each} SOL a transaction, {daily} SOL a day, {costs} SOL of costs a day"
    )
    priority = f"priority fee: {settings.priority_fee}"
    yield ok("Every transaction", f"at most {fee} SOL of network fee; {priority}")
    yield ok("Every swap", f"at most {slippage} % slippage and {impact} % price impact")


async def machine(subject: Subject) -> list[Line]:
    """Check Python, kernel, confinement of plugin hosts, and the language models' library."""
    settings = subject.settings
    lines = diagnosis(probe_confinement(), settings.solward_plugins_unconfined)
    return [*lines, _check_models_folder(settings.models_folder)]


def diagnosis(found: Availability, unconfined: tuple[str, ...]) -> list[Line]:
    """Return the lines about the machine. Without confinement, third parties' plugins are refused.

    Args:
        unconfined: the names in SOLWARD_PLUGINS_UNCONFINED.
    """
    abi = found.landlock_abi
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    known = seccomp.supported()
    lacks = not _is_linux() or abi < landlock.MINIMUM_ABI or not known
    tried = f"tested in a child process: {found.reason or 'works'}"
    calls = "system calls of this architecture are known" if known else "unknown architecture"
    platforms = NOTHING if known else "use x86-64 or ARM with a 64-bit Python"
    return [
        ok("Python", f"{python}, {sys.maxsize.bit_length() + 1} bits"),
        warn("Platform", kernel, NOTHING if _is_linux() else f"run the service on {_MINIMUM}"),
        warn("Landlock", _ABSENT.get(abi, f"ABI {abi}"), _landlock_advice(abi)),
        warn("seccomp", calls, platforms),
        ok("Confinement", tried)
        if found.available
        else fail("Confinement", tried, "see the lines above" if lacks else _FILTER),
        _plugin_hosts_line(found, unconfined),
    ]


def _is_linux() -> bool:
    return sys.platform == "linux"


_FILTER = (
    "allow the system calls prctl, seccomp and landlock_* in a container's seccomp profile and in a"
    " systemd unit's SystemCallFilter"
)


_ABSENT = {
    landlock.SWITCHED_OFF: "switched off",
    landlock.FILTERED: "refused by a seccomp filter",
    0: "none",
}


def _landlock_advice(abi: int) -> str:
    if abi >= landlock.MINIMUM_ABI:
        return NOTHING
    if abi == landlock.SWITCHED_OFF:
        return "add landlock to the kernel's parameter lsm= and restart the machine"
    if abi == landlock.FILTERED:
        return _FILTER
    if abi:
        return f"run {_MINIMUM} or later"
    return f"run {_MINIMUM} or later; {_FILTER}"


def _check_models_folder(root: Path) -> Line:
    folder, name = models.installed(root), "Language models"
    if models.beside_the_service():
        remove = "remove litellm (pip uninstall litellm)"
        advice = remove if folder is not None else f"{remove}, then `{models.COMMAND}`"
        found = (
            "litellm is in the service's environment: it runs in the process that holds the keys"
        )
        return warn(name, found, advice)
    if folder is not None:
        return ok(name, "litellm is in a folder of its own")
    return warn(name, "litellm is not installed", models.COMMAND)


def _plugin_hosts_line(found: Availability, unconfined: tuple[str, ...]) -> Line:
    if not _is_linux():
        return warn("Plugin hosts", f"none on {sys.platform}", f"run the service on {_MINIMUM}")
    if found.available:
        text = "third-party plugins are confined"
        advice = "unset SOLWARD_PLUGINS_UNCONFINED" if unconfined else NOTHING
    elif unconfined:
        text = f"unconfined: {', '.join(unconfined)}; all other third-party plugins are refused"
        advice = "mend the lines above; or remove these plugins, which mainnet refuses"
    else:
        text = "third-party plugins are refused"
        advice = (
            "mend the lines above, or name a distribution that you trust with this machine in"
            " SOLWARD_PLUGINS_UNCONFINED"
        )
    return warn("Plugin hosts", text, advice)


@fail_on_error("Built-in", "reinstall Solward")
async def plugins(subject: Subject) -> list[Line]:
    """Load the plugins as the service would, and report their problems."""
    registry = await subject.registry()
    loaded = (
        f"{len(registry.skills)} skills, {len(registry.providers)} providers,"
        f" {len(registry.venues)} venues, {len(registry.payments)} payment protocols,"
        f" {len(registry.guardrails)} guardrails"
    )
    problems = (
        warn(each.plugin, str(each), "see `solward plugins list`") for each in registry.problems
    )
    return [ok("Loaded", loaded), *problems]
