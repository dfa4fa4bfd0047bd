"""The service that the settings describe, which checks open once, and the lines that say what they
found, for people and programs."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from solward.agents.store import list_agents
from solward.database.database import Database
from solward.database.schema import has_schema
from solward.hosts.models import ModelHosts
from solward.hosts.plugins import plugin_hosts, shared_zygote
from solward.plugins import open_registry
from solward.service.cluster import open_cluster
from solward.service.venue_clients import VenueClients
from solward.types.errors import SolwardError, StoreError
from solward.vault.store.wallets import list_wallets
from solward_cli.render import visible

if TYPE_CHECKING:
    from solward.operations.venues import Venue
    from solward.plugins import Registry
    from solward.service.cluster import Cluster
    from solward.settings import Settings

Check: TypeAlias = "Callable[[Subject], Awaitable[list[Line]]]"

NOTHING: Final = "nothing"
_WIDTH: Final = 80
_MARK: Final = 6


class Status(StrEnum):
    """The result that a line reports."""

    OK = "ok"
    """It works."""
    WARN = "warn"
    """It works, but could work better: the advice says how."""
    FAIL = "FAIL"
    """Something that the product does would not work; the exit code is 1."""


class Line(NamedTuple):
    """A finding of a check.

    Attributes:
        name: the thing that was checked, in a few words.
        found: what was found, without secrets.
        advice: what to do about it; `NOTHING` if there is nothing to do.
    """

    name: str
    found: str
    advice: str = NOTHING
    status: Status = Status.OK

    def to_json(self, check: str) -> dict[str, Any]:
        """Return the line as `--json` prints it, with the name of its check."""
        return {"check": check, **self._asdict()}


def ok(name: str, found: str) -> Line:
    """Make a line about something that works."""
    return Line(name, found)


def warn(name: str, found: str, advice: str) -> Line:
    """Make a line that warns and gives advice; with the advice `NOTHING` the line is ok."""
    return Line(name, found, advice, Status.OK if advice == NOTHING else Status.WARN)


def fail(name: str, found: str, advice: str) -> Line:
    """Make a line about something that would not work."""
    return Line(name, found, advice, Status.FAIL)


def grade(name: str, found: str, advice: str, *, at: float, bounds: tuple[float, float]) -> Line:
    """Make a line that is a warning from the first bound on, and a failure from the second."""
    if at < bounds[0]:
        return ok(name, found)
    return warn(name, found, advice) if at < bounds[1] else fail(name, found, advice)


def fail_on_error(name: str, advice: str) -> Callable[[Check], Check]:
    """Return a decorator that turns an error of a check into a failed line with this advice."""

    def decorated(check: Check) -> Check:
        @functools.wraps(check)
        async def run(subject: Subject) -> list[Line]:
            try:
                return await check(subject)
            except SolwardError as error:
                return [fail(name, str(error), advice)]

        return run

    return decorated


def has_failure(lines: Iterable[Line]) -> bool:
    """Return whether a line reports that something would not work."""
    return any(line.status is Status.FAIL for line in lines)


def format_check(check: str, lines: Sequence[Line]) -> str:
    """Format a check's lines in 80 columns: `ok`, `warn` or `FAIL`, the finding and the advice."""
    shown = [check]
    for line in lines:
        head = f"  {line.status.value:<{_MARK - 2}} {line.name}: {line.found}"
        shown.append(_wrap_line(head, " " * (_MARK + 3)))
        if line.advice != NOTHING:
            shown.append(_wrap_line(f"{' ' * (_MARK + 1)}-> {line.advice}", " " * (_MARK + 4)))
    return "\n".join(shown)


def _wrap_line(line: str, indent: str) -> str:
    # It is made visible, because it may quote a vendor or a node.
    return textwrap.fill(
        visible(line),
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class EmptyDatabase(StoreError):
    """No service made the database's tables yet."""


class Subject(AsyncExitStack):
    """The service of the settings, which checks only read; it may be running.

    Attributes:
        spends: whether language models may be asked, which costs tokens.
        real: an address of the settings -> the one that it stands for (see `recording`).
    """

    def __init__(
        self,
        settings: Settings,
        *,
        spends: bool = False,
        real: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.settings = settings
        self.spends = spends
        self.real = real
        self._database: Database | None = None
        self._cluster: Cluster | None = None
        self._registry: Registry | None = None
        self._venues: list[Venue] | None = None

    def real_url(self, url: str) -> str:
        """Return the real address of a relay, or `url` if it is real. It may contain a key."""
        return self.real.get(url.rstrip("/"), url)

    @property
    def is_embedded(self) -> bool:
        """True if the ledger is the service's own, which nobody else can ask."""
        return not self.settings.rpc_urls

    async def database(self) -> Database:
        """Open the service's database for reading.

        Raises:
            ConfigError, StoreError: there is none, or it cannot be read.
            EmptyDatabase: no service made its tables yet.
            OtherSchema: another version made them.
        """
        if self._database is None:
            opened = Database.inspect(self.settings.database_url, self.settings.solward_home)
            self.push_async_callback(opened.close)
            async with opened.read() as connection:
                if not await has_schema(connection):
                    raise EmptyDatabase("the database is empty")
            self._database = opened
        return self._database

    async def wallets(self) -> list[dict[str, Any]]:
        """Return the rows of the service's wallets, oldest first; empty without a database."""
        return await self._rows(list_wallets)

    async def agents(self) -> list[dict[str, Any]]:
        """Return the rows of the service's agents, oldest first; empty without a database."""
        return await self._rows(list_agents)

    async def _rows(self, read: Callable[..., Awaitable[Iterable[Any]]]) -> list[dict[str, Any]]:
        try:
            async with (await self.database()).read() as connection:
                return [*await read(connection)]
        except StoreError:
            return []

    async def cluster(self) -> Cluster:
        """Open the cluster behind SOLANA_RPC_URL as the service does.

        Raises:
            ConfigError: the cluster is not the network of the settings.
        """
        if self._cluster is None:
            self._cluster = await self.enter_async_context(open_cluster(self.settings))
        return self._cluster

    async def venues(self) -> list[Venue]:
        """Return the venues, each with the client and the address that the service gives it.

        Raises:
            ConfigError, PluginError: see `cluster` and `registry`.
        """
        if self._venues is None:
            clients = VenueClients(self.settings, await self.cluster())
            self.push_async_callback(clients.close)
            self._venues = clients.venues(await self.registry())
        return self._venues

    async def registry(self) -> Registry:
        """Load the plugins as the service does: third parties' in plugin hosts.

        Raises:
            PluginError: a built-in plugin is broken.
        """
        if self._registry is None:
            settings = self.settings
            unconfined = settings.solward_plugins_unconfined
            home, secret = settings.solward_home, settings.plugin_secret
            zygote = await self.enter_async_context(shared_zygote())
            opening = plugin_hosts(unconfined, secret=secret, home=home, zygote=zygote)
            hosts = await self.enter_async_context(opening)
            models = ModelHosts(1, settings.models_folder, unconfined=unconfined, zygote=zygote)
            self.push_async_callback(models.close)
            self._registry = await open_registry(
                settings.plugins, hosts=hosts, models=models, home=home
            )
        return self._registry
