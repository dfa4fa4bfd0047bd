"""Checks of what is on this machine: `settings`, `database`, `keystore`, `limits`, `plugins`, and
`machine`: what it can do, the confinement of plugin hosts above all.
"""

from __future__ import annotations

import platform
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from solward.types.errors import ConfigError, KeystoreError, OtherSchema, PluginError, StoreError
from solward.types.money import format_amount, format_sol
from solward_cli.doctor.report import NOTHING, Line, Status, fail, ok, warn
from solward_cli.doctor.subject import EmptyDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from solward.hosts.confinement import Availability
    from solward.settings import Settings
    from solward.vault.guardrails import ScopeLimits
    from solward_cli.doctor.subject import Subject

_START = "start the service once: it makes what is missing"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_MINIMUM = "Linux 6.2"
_CONFINEMENT = "Confinement"


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
    from solward.database.ledger_network import network_mismatch

    network, shared = subject.settings.solana_network, subject.settings.shared_database
    kind = "PostgreSQL" if shared else "SQLite"
    try:
        async with (await subject.database()).read() as connection:
            mismatch = await network_mismatch(connection, network, shared=shared)
    except ConfigError as error:
        return [fail("DATABASE_URL", str(error), "change DATABASE_URL")]
    except EmptyDatabase as error:
        return [warn("Database", f"{kind}, {error}", _START)]
    except OtherSchema as error:
        return [fail("Database", f"{kind}: {error}", "run the version that made it")]
    except StoreError as error:
        if shared:
            return [fail("Database", f"{kind}: {error}", "start it, or change DATABASE_URL")]
        return [warn("Database", f"{kind}: {error}", _START)]
    found = [ok("Database", f"{kind}, with this version's schema")]
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
    from solward.credentials.credentials import Credentials
    from solward.operations.key_callers import limits_of

    agents = [agent_of(row) for row in await subject.agents()]
    keys = await Credentials(await subject.database()).keys()
    return [
        *((f"agent:{each.id}", each.wallet_id, each.limits) for each in agents),
        *((key.principal, key.wallet_id, limits_of(key)) for key in keys),
    ]


async def machine(subject: Subject) -> list[Line]:
    """Python, kernel, confinement of plugin hosts, and the language models' library."""
    from solward.hosts.confinement import available

    settings = subject.settings
    found = available()
    lines = diagnosis(found, settings.solward_plugins_unconfined)
    return [_judged(line, found.available) for line in [*lines, _models(settings.models_folder)]]


def _judged(line: Line, confines: bool) -> Line:
    """A line with its status: without confinement third parties' plugins are refused."""
    if line.name == _CONFINEMENT and not confines:
        return line._replace(status=Status.FAIL)
    return line if line.advice == NOTHING else line._replace(status=Status.WARN)


def diagnosis(found: Availability, unconfined: tuple[str, ...]) -> list[Line]:
    """The lines about the machine.

    Args:
        unconfined: the names in SOLWARD_PLUGINS_UNCONFINED.
    """
    from solward.hosts.confinement import seccomp

    abi = found.landlock_abi
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    known = seccomp.supported()
    return [
        Line("Python", f"{python}, {sys.maxsize.bit_length() + 1} bits", NOTHING),
        Line("Platform", kernel, NOTHING if _linux() else f"run the service on {_MINIMUM}"),
        Line("Landlock", _known(abi), _landlock(abi)),
        Line(
            "seccomp",
            "calls of this architecture are known" if known else "unknown architecture",
            NOTHING if known else "use x86-64 or ARM with a Python of 64 bits",
        ),
        Line(
            _CONFINEMENT,
            f"tried in a child process: {found.reason or 'holds'}",
            NOTHING if found.available else "see the lines above" if _lacks(abi) else _FILTER,
        ),
        _hosts(found, unconfined),
    ]


_FILTER = (
    "let a container's seccomp profile, and a systemd unit's SystemCallFilter, pass prctl, seccomp"
    " and landlock_* calls"
)


def _linux() -> bool:
    return sys.platform == "linux"


def _lacks(abi: int) -> bool:
    from solward.hosts.confinement import landlock, seccomp

    return not _linux() or abi < landlock.MINIMUM_ABI or not seccomp.supported()


def _known(abi: int) -> str:
    from solward.hosts.confinement.landlock import FILTERED, SWITCHED_OFF

    absent = {SWITCHED_OFF: "switched off", FILTERED: "refused by a seccomp filter", 0: "none"}
    return absent.get(abi, f"ABI {abi}")


def _landlock(abi: int) -> str:
    from solward.hosts.confinement.landlock import FILTERED, MINIMUM_ABI, SWITCHED_OFF

    if abi >= MINIMUM_ABI:
        return NOTHING
    if abi == SWITCHED_OFF:
        return "add landlock to the kernel's parameter lsm= and restart the machine"
    if abi == FILTERED:
        return _FILTER
    if abi:
        return f"run {_MINIMUM} or later"
    return f"run {_MINIMUM} or later; {_FILTER}"


def _models(root: Path) -> Line:
    from solward.plugins.folders.models import COMMAND, beside_the_service, installed

    folder = installed(root)
    if beside_the_service():
        remove = "take litellm out (pip uninstall litellm)"
        return Line(
            "Language models",
            "litellm is in the service's environment: what it runs at each start runs beside keys",
            remove if folder is not None else f"{remove}, then `{COMMAND}`",
        )
    if folder is not None:
        return Line("Language models", "litellm is in a folder of its own", NOTHING)
    return Line("Language models", "litellm is not installed", COMMAND)


def _hosts(found: Availability, unconfined: tuple[str, ...]) -> Line:
    if not _linux():
        return Line("Plugin hosts", f"none on {sys.platform}", f"run the service on {_MINIMUM}")
    if found.available:
        text = "hosts of third parties are confined"
        advice = "take out SOLWARD_PLUGINS_UNCONFINED" if unconfined else NOTHING
    elif unconfined:
        text = f"run unconfined: {', '.join(unconfined)}; other third parties are refused"
        advice = "remove them, or mend the lines above; mainnet refuses them"
    else:
        text = "hosts of third parties are refused"
        advice = (
            "mend the lines above, or name a distribution that you trust with this machine in"
            " SOLWARD_PLUGINS_UNCONFINED"
        )
    return Line("Plugin hosts", text, advice)


async def plugins(subject: Subject) -> list[Line]:
    """The plugins as the service would load them now."""
    try:
        registry = await subject.registry()
    except PluginError as error:
        return [fail("Built-in", str(error), "install Solward again")]
    loaded = (
        f"{len(registry.skills)} skills, {len(registry.providers)} providers,"
        f" {len(registry.venues)} venues, {len(registry.payments)} payment protocols,"
        f" {len(registry.guardrails)} guardrails"
    )
    advice = "see `solward plugins list`"
    return [
        ok("Loaded", loaded),
        *(warn(each.plugin, str(each), advice) for each in registry.problems),
    ]
