"""Third parties' plugins in plugin hosts, as the registry uses them.

A distribution has one host for its skills, providers, venues and payment protocols, and another for
its guardrails: rules judge the others, so they must not share a process with them.

Before a plugin in a folder of its own is installed, its declarations are read in hosts too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Final

import httpx
import structlog

from solward.context import SkillContext
from solward.hosts.capabilities import Capabilities, RunningCall, TenantHost, error_of_plugin
from solward.hosts.egress import Egress, EgressCall
from solward.hosts.forking import SharedZygote
from solward.hosts.host import UNCONFINED, Host, HostConfig, SupervisionLimits
from solward.hosts.inside.plugins import ENTRY_POINTS
from solward.hosts.models import HostedProvider
from solward.hosts.supervisor import Hosts
from solward.hosts.wire import methods
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import HostileFrame
from solward.hosts.wire.methods import Method, Plugin, Verdict
from solward.plugins.discovery import Candidate, Folders, environment, folder_candidates, survey
from solward.plugins.folders.layout import InstalledDistribution, canonical
from solward.plugins.folders.storage import make_storage, storage_folder
from solward.plugins.hooks import (
    DECLARED,
    GUARDRAILS,
    HOOKS,
    OPTIONAL,
    broken,
)
from solward.plugins.load import DeclaredPlugin, ImportResult, check_plugins
from solward.plugins.loaded import PROTOCOL_TIME_LIMIT_S
from solward.support import jsontext
from solward.support.tasks import end
from solward.types.errors import (
    FolderError,
    InvalidRequest,
    LedgerUnavailable,
    SkillError,
    SolwardError,
)
from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.types.manifest import (
    MAX_STORAGE_MB,
    Manifest,
    Problem,
    ProblemCode,
    Rejected,
    Terms,
    shorten_text,
)
from solward.types.payment import HttpAnswer, PaymentOffer, PaymentSpec
from solward.types.provider import ProviderSpec
from solward.types.skill import Effects, SkillSpec
from solward.types.venue import VenueContext, VenueSpec
from solward.vault.money.judge.plugin_rules import TIME_LIMIT_S, RuleFailure

_log = structlog.get_logger(__name__)

SecretOf = Callable[[str], str | None]
"""Returns the value of a secret by its environment variable, or None if it is not set."""

TENANT: Final = "solward.hosts.inside.plugins:plugins"
# Declarations are pure, and modules are imported when the host starts.
_SPECS_S: Final = 10.0
# After a plugin is replaced, holders of the old registry may still call it for this time: a
# transaction is judged by one guardrail after the other.
_QUIET_S: Final = 2 * TIME_LIMIT_S
# This many calls that fail by the plugin's own fault within this time are a problem.
_FAULTS: Final = 3
_FAULT_WINDOW_S: Final = 60.0
_NOISY: Final = "its plugin host logs too much, so most of its log lines are dropped"
# Fraction of the time limit of a skill or a protocol after which a cancellation counts as too late;
# the call of the host begins a little after the limit does.
_LATE: Final = 0.9
# The longest time for which a call of a replaced version may go on.
_DRAIN_S: Final = 60.0


@dataclass(slots=True)
class _FaultyCalls:
    """The times of a plugin's last faulty calls, and the text of the resulting problem."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=_FAULTS))
    detail: str = ""


class PluginHosts:
    """The runner of third-party plugins (`PluginSource`).

    No process is started before there is a plugin to run.

    Args:
        make: makes the hosts; they call its argument when one has a fault.
        tenant: the program of the hosts (`HostConfig.tenant`).
        capabilities: makes the capabilities of each host.
        secret: returns the value of a declared secret by its variable; None if it is not set.
        home: folder of the files that plugins keep; None if they may keep none.
    """

    def __init__(
        self,
        make: Callable[[Callable[[Host], None]], Hosts],
        *,
        tenant: str = TENANT,
        capabilities: Callable[[], Capabilities] = Capabilities,
        secret: SecretOf = lambda _env: None,
        home: Path | None = None,
    ) -> None:
        self.on_problem: Callable[[Problem], object] = lambda _problem: None
        """Called with all problems of a host's plugins whenever one of them is new."""
        self.hosts = make(self._report_problems)
        self._opened = False
        self._egress = Egress()
        self._secret = secret
        self._home = home
        self._running: dict[Host, list[Candidate]] = {}
        self._tenants: dict[tuple[str, str], TenantHost] = {}
        self._tenant = tenant
        self._capabilities = capabilities
        self._retiring: set[asyncio.Task[None]] = set()
        self._faulty: dict[Host, dict[str, _FaultyCalls]] = {}

    async def close(self) -> None:
        """End every host; running calls fail."""
        await end(self._retiring)
        if self._opened:
            await self.hosts.close()
        await self._egress.close()

    def host_of(self, group: str, name: str) -> TenantHost | None:
        """Return the host of a plugin; None if the plugin is not loaded."""
        return self._tenants.get((group, name))

    def _report_problems(self, host: Host) -> None:
        for problem in self._problems_of(host):
            self.on_problem(problem)

    def crashes(self) -> dict[str, int]:
        """Return how often each running host ended by itself, by name."""
        return {host.name: host.crashes for host in self._running}

    def faults(self) -> list[Problem]:
        """Return the problems of running plugins."""
        return [problem for host in self._running for problem in self._problems_of(host)]

    def _problems_of(self, host: Host) -> list[Problem]:
        disabled, run = host.disabled, self._running.get(host, [])
        if disabled is not None:
            return [each.problem(ProblemCode(disabled.fault), disabled.reason) for each in run]
        found = [each.problem(ProblemCode.NOISY, _NOISY) for each in run if host.noisy]
        faulty = self._faulty.get(host, {})
        for each in run:
            if each.name in faulty and faulty[each.name].detail:
                found.append(each.problem(ProblemCode.FAULTY_CALLS, faulty[each.name].detail))
        return found

    def _on_faulty_call(self, host: Host, plugin: str, fault: str) -> None:
        """Count a call that failed by its plugin's fault; three within a minute are a problem."""
        if host not in self._running:
            return
        now = asyncio.get_running_loop().time()
        calls = self._faulty.setdefault(host, {}).setdefault(plugin, _FaultyCalls())
        calls.times.append(now)
        often = len(calls.times) == _FAULTS and now - calls.times[0] < _FAULT_WINDOW_S
        if often and not calls.detail:
            calls.detail = shorten_text(
                f"{_FAULTS} of its calls failed within {_FAULT_WINDOW_S:g} s, the last because of "
                f"{fault}; it stays loaded"
            )
            self._report_problems(host)

    def enable(self, candidates: Sequence[Candidate]) -> None:
        """Let the disabled hosts of these plugins start again, and forget their problems."""
        for host in self._hosts_of(candidates):
            self._faulty.pop(host, None)
            host.enable()

    def retire(self, candidates: Sequence[Candidate], reason: str, *, drain: bool) -> None:
        """Stop new calls to the hosts of these plugins, and end the hosts without waiting for it.

        Args:
            reason: text for callers whose calls end with it.
            drain: whether running calls may go on for a while.
        """
        for host in self._hosts_of(candidates):
            del self._running[host]
            self._faulty.pop(host, None)
            self._tenants = {
                key: each for key, each in self._tenants.items() if each.host is not host
            }
            task = asyncio.create_task(self._retire_host(host, reason, _DRAIN_S if drain else 0.0))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def _hosts_of(self, candidates: Sequence[Candidate]) -> list[Host]:
        wanted = set(map(id, candidates))
        return [host for host, run in self._running.items() if wanted & set(map(id, run))]

    async def _retire_host(self, host: Host, reason: str, drain_s: float) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time() + drain_s
        quiet = min(last, loop.time() + _QUIET_S)
        while loop.time() < quiet:
            await asyncio.sleep(min(_QUIET_S, quiet - loop.time()) / 20 + 0.01)
            if host.busy:
                quiet = min(last, loop.time() + _QUIET_S)
        await self.hosts.remove(host, reason)
        # Another version of the distribution may still use these connections.
        if not any(each.name == host.name for each in self._running):
            await self._egress.close_tenant(host.name)

    async def import_candidates(self, candidates: Sequence[Candidate]) -> list[ImportResult]:
        """Start the hosts and return the declaration of each candidate, in the order given."""
        if not self._opened:
            self._opened = True
            await self.hosts.open()
        groups: dict[tuple[str, bool], list[Candidate]] = defaultdict(list)
        for each in candidates:
            groups[canonical(each.distribution), each.group == GUARDRAILS].append(each)
        every = await asyncio.gather(
            *(self._start_host(name, group) for (name, _), group in groups.items())
        )
        found = {
            id(candidate): each
            for group, answers in zip(groups.values(), every, strict=True)
            for candidate, each in zip(group, answers, strict=True)
        }
        return [found[id(candidate)] for candidate in candidates]

    async def _start_host(self, name: str, candidates: list[Candidate]) -> list[ImportResult]:
        capabilities = self._capabilities()
        own = candidates[0].installed
        named = [[each.group, each.name, each.entry_point.value] for each in candidates]
        config = HostConfig(
            name=name,
            tenant=self._tenant,
            folder=None if own is None else str(own.folder),
            # A host finds modules in a distribution's own folder without this list.
            modules=()
            if own is not None
            else tuple({each.entry_point.value.partition(":")[0] for each in candidates}),
            options={ENTRY_POINTS: jsontext.dumps(named)},
            urgent=candidates[0].group == GUARDRAILS,
        )
        host: Host | None = None
        try:
            host = await self.hosts.start(config, capabilities.handlers(self._egress))
            specs: tuple[Plugin, ...] = await host.call(methods.SPECS, timeout_s=_SPECS_S)
            answered = [(each.group, each.name) for each in specs]
            if answered != [(each.group, each.name) for each in candidates]:
                raise HostileFrame("its plugin host declared other plugins than requested")
            if kept := self._storage_config(name, candidates, specs):
                # Only now are the declarations known, and a confined process gets no more rights.
                await self.hosts.remove(host)
                host = self.hosts.add(replace(config, **kept), capabilities.handlers(self._egress))
            host.expect_answer(methods.SPECS, specs)
            await host.start()
        except Exception as error:
            # An error of a tenant is its own problem: the service starts without it.
            if not isinstance(error, SkillError | HostBug | HostileFrame | TimeoutError):
                _log.exception("plugin_host_failed", distribution=name)
            if host is not None:
                await self.hosts.remove(host)
            unconfined = isinstance(error, SkillError) and error.code == UNCONFINED
            code = ProblemCode.UNCONFINED_REFUSED if unconfined else ProblemCode.HOST_FAILED
            text = str(error) or f"its plugin host did not answer within {_SPECS_S:g} s"
            return [Rejected(code, text) for _ in candidates]
        self._running[host] = candidates
        plugins = TenantHost(host, capabilities, host.name, partial(self._on_faulty_call, host))
        self._tenants |= {(each.group, each.name): plugins for each in candidates}
        return [
            _import_result(plugins, candidate, each, self._secret)
            for candidate, each in zip(candidates, specs, strict=True)
        ]

    def _storage_config(
        self, name: str, candidates: Sequence[Candidate], specs: Sequence[Plugin]
    ) -> dict[str, Any]:
        """Return the part of a host's configuration about its plugins' files; empty without files.

        For a distribution in a folder of its own, the accepted size counts, not the declared one.
        """
        megabytes = [0]
        for candidate, plugin in zip(candidates, specs, strict=True):
            declared = getattr(plugin.spec, "manifest", None)
            wanted = 0 if declared is None else declared.storage_mb
            if candidate.installed is not None:
                key = f"{candidate.group}:{candidate.name}"
                accepted = candidate.installed.accepted.get(key, Terms()).manifest
                wanted = min(wanted, 0 if accepted is None else accepted.storage_mb)
            # The plugin's checks report a size above the maximum.
            megabytes.append(wanted if wanted <= MAX_STORAGE_MB else 0)
        folder = None if self._home is None else storage_folder(self._home, name)
        if folder is None or max(megabytes) <= 0:
            return {}
        storage_bytes = max(megabytes) << 20
        make_storage(folder)
        return {
            "scratch": str(folder),
            "scratch_bytes": storage_bytes,
            "file_bytes": storage_bytes,
        }


@asynccontextmanager
async def shared_zygote() -> AsyncIterator[SharedZygote]:
    """Yield the process from which plugin hosts and model hosts are forked, started when needed. It
    ends with the block, which must be after all its hosts."""
    zygote = SharedZygote(SupervisionLimits().nice)
    try:
        yield zygote
    finally:
        await zygote.close()


@asynccontextmanager
async def plugin_hosts(
    unconfined: Collection[str] = (),
    *,
    secret: SecretOf = lambda _env: None,
    home: Path | None = None,
    zygote: SharedZygote | None = None,
) -> AsyncIterator[PluginHosts]:
    """Yield the runner of third-party plugins; every host is gone when the block ends.

    Args:
        unconfined: distributions that may run on a machine that cannot confine them.
        secret, home: see `PluginHosts`; without them plugins have no secrets and keep no files.
        zygote: see `Hosts`.
    """
    names = {canonical(name) for name in unconfined}
    plugins = PluginHosts(
        lambda on_fault: Hosts(unconfined=names, on_fault=on_fault, zygote=zygote),
        secret=secret,
        home=home,
    )
    try:
        yield plugins
    finally:
        await plugins.close()


def _import_result(
    host: TenantHost, candidate: Candidate, plugin: Plugin, secret: SecretOf
) -> ImportResult:
    """Return the plugin that its host declared, or the reason why it cannot be used."""
    try:
        spec, group = plugin.spec, candidate.group
        if isinstance(spec, methods.Problem):
            code = ProblemCode(spec.code) if spec.code in _CODES else ProblemCode.BAD_CONTRACT
            return Rejected(code, spec.detail)
        if not isinstance(spec, DECLARED.get(group, NoneType)):
            raise broken("its plugin host declared it as another kind of plugin")
        if spec is not None and spec.name != candidate.name:
            raise broken(f"it is named {spec.name!r}, but its entry point is {candidate.name!r}")
        if isinstance(spec, ProviderSpec):
            spec = replace(spec, options=_exact_floats(spec.options))
            calls = HostedProvider(spec, lambda: nullcontext(host)).hooks()
        else:
            if isinstance(spec, SkillSpec):
                settings = None if spec.settings is None else _exact_floats(spec.settings)
                spec = replace(spec, parameters=_exact_floats(spec.parameters), settings=settings)
            calls = _HostedPlugin(host, candidate.name, spec, secret).calls()
        hooks = {*HOOKS[group], *(set(plugin.hooks) & set(OPTIONAL.get(group, ())))}
        return DeclaredPlugin(spec, {hook: call for hook, call in calls.items() if hook in hooks})
    except Rejected as rejected:
        return rejected
    except Exception as error:
        _log.exception("plugin_not_declared", plugin=candidate.name)
        return Rejected(
            ProblemCode.HOST_FAILED, f"its declaration cannot be read: {type(error).__name__}"
        )


# The problems that a host may report about its plugins.
_CODES: Final = frozenset(
    (
        ProblemCode.IMPORT_FAILED,
        ProblemCode.BAD_HOOK,
        ProblemCode.BAD_CONTRACT,
        ProblemCode.BAD_SCHEMA,
    )
)


def _exact_floats(value: Any) -> Any:
    """Return JSON Schema in which fractions are floats if a float represents them exactly."""
    if isinstance(value, Mapping):
        return {name: _exact_floats(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact_floats(each) for each in value]
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else value
    return value


@dataclass(frozen=True, slots=True)
class _HostedPlugin:
    """A skill, venue, payment protocol or guardrail whose hooks are calls into its host."""

    host: TenantHost
    name: str
    spec: SkillSpec | VenueSpec | PaymentSpec | None
    secret: SecretOf = field(repr=False)

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Return the hooks by name, called with keyword arguments as in this process. Hooks of
        other groups are among them, but never called."""
        venue, payment = self._call_venue, self._call_protocol
        return {
            "skill_execute": self.skill_execute,
            "venue_quote": partial(venue, methods.VENUE_QUOTE),
            "venue_instructions": partial(venue, methods.VENUE_INSTRUCTIONS),
            "venue_swap": partial(venue, methods.VENUE_SWAP),
            "payment_offers": self.payment_offers,
            "payment_headers": partial(payment, methods.PAYMENT_HEADERS),
            "payment_receipt": partial(payment, methods.PAYMENT_RECEIPT),
            "guardrail_check": self.guardrail_check,
        }

    @property
    def manifest(self) -> Manifest | None:
        """The manifest that the plugin declared."""
        return Terms.from_spec(self.spec).manifest

    async def skill_execute(self, params: dict[str, Any], context: SkillContext) -> str:
        """Run the skill; its money calls and reads come back with the capability of this call."""
        running, placeholders = self._new_call(context=context)
        request = {
            "name": self.name,
            "params": params,
            "wallet": context.wallet,
            "agent": context.agent,
            "tokens": context.tokens,
            "secrets": placeholders,
            "settings": context.settings,
        }
        try:
            answer: str = await self.host.call(methods.SKILL_EXECUTE, request, running)
        except HostBug as bug:
            # The host has logged the skill's traceback; the service's own would not help.
            _log.error("skill_failed", skill=self.name, error=bug.type_name)
            text = f"Skill {self.name!r} failed with an internal error"
            raise SkillError("internal_error", text) from None
        except SolwardError as error:
            raise running.trusted_error(error) from None
        return answer

    def _new_call(
        self,
        *,
        context: SkillContext | None = None,
        configured: str | None = None,
        client: httpx.AsyncClient | None = None,
        key: str | None = None,
    ) -> tuple[RunningCall, dict[str, str | None]]:
        """Return a new call, and the placeholders for the secrets of its manifest."""
        values = {each: self.secret(each) for each in Terms.from_spec(self.spec).secrets()}
        egress = EgressCall(
            tenant=self.host.connections,
            plugin=self.name,
            manifest=self.manifest,
            configured=() if configured is None else (configured,),
            values={env: value for env, value in values.items() if value},
            client=client,
            key=key,
        )
        effects = self.spec.effects if isinstance(self.spec, SkillSpec) else Effects.READ
        running = RunningCall(self.name, context, self.manifest, egress, effects)
        if isinstance(self.spec, SkillSpec):
            running.late = asyncio.get_running_loop().time() + _LATE * self.spec.timeout_s
        return running, {env: egress.placeholder(env) for env in values}

    def _venue_call(self, context: VenueContext) -> tuple[RunningCall, dict[str, Any]]:
        """Return a new call, and the arguments that every hook of a venue gets."""
        address, spec = str(context.http.base_url), self.spec
        assert isinstance(spec, VenueSpec)
        # The manifest must allow the venue's own address. An address that an operator configured
        # is trusted as the operator's.
        declared = spec.base_url is not None and address.rstrip("/") == spec.base_url.rstrip("/")
        configured = None if declared or not address else address
        running, placeholders = self._new_call(
            configured=configured, client=context.http, key=spec.secret_env
        )
        running.ledger = context.ledger
        return running, {
            "name": self.name,
            "base_url": address,
            "secrets": placeholders,
            "pools": context.pools,
        }

    async def _call_venue(self, method: Method, *, context: VenueContext, **asked: Any) -> Any:
        """Call a venue's hook; an error's text says only that the hook failed."""
        running, given = self._venue_call(context)
        try:
            return await self.host.call(method, given | asked, running)
        except SolwardError as error:
            raise error_of_plugin(error, (InvalidRequest, LedgerUnavailable)) from None

    async def _call_protocol(self, method: Method, **asked: Any) -> Any:
        """Call a payment protocol's hook, which gets only these arguments."""
        running = RunningCall(self.name)
        running.late = asyncio.get_running_loop().time() + _LATE * PROTOCOL_TIME_LIMIT_S
        try:
            return await self.host.call(method, {"name": self.name, **asked}, running)
        except HostBug as bug:
            # The host has logged its traceback.
            raise SkillError("internal_error", bug.type_name) from None
        except SolwardError as error:
            raise error_of_plugin(error, (InvalidRequest,)) from None

    async def payment_offers(self, answer: HttpAnswer) -> list[PaymentOffer | InvalidRequest]:
        """Return the offers in a seller's answer."""
        found = await self._call_protocol(methods.PAYMENT_OFFERS, answer=answer)
        return [InvalidRequest(each) if isinstance(each, str) else each for each in found]

    async def guardrail_check(
        self, intent: Intent, effects: TransactionEffects
    ) -> str | Hold | None:
        """Return a rule's answer; a host that does not answer counts as a refusal."""
        asked = {"name": self.name, "intent": intent, "effects": effects}
        try:
            answer: Verdict = await self.host.call(
                methods.GUARDRAIL_CHECK, asked, RunningCall(self.name), TIME_LIMIT_S
            )
        except SolwardError as error:
            return RuleFailure(f"the rule did not answer: {error}")
        if answer.held:
            return Hold(answer.reason or "")
        return RuleFailure(answer.reason or "") if answer.failed else answer.reason


def declared_terms(
    one: InstalledDistribution, unconfined: Collection[str] = ()
) -> dict[str, Terms]:
    """Return the needs that each plugin declares, by `group:name`. No event loop may be running.

    Args:
        unconfined: see `plugin_hosts`.

    Raises:
        FolderError: if a plugin cannot be imported, or declares nothing.
    """
    return _terms_by_plugin(_declare_plugins(one, unconfined))


def loadable_terms(
    one: InstalledDistribution, unconfined: Collection[str] = ()
) -> dict[str, Terms]:
    """Return `declared_terms`, and refuse plugins that the service would not load.

    Raises:
        FolderError: if the service would not load one of them, whatever else is installed.
    """
    built_in = [each for each in environment()[0] if each.built_in]
    for problem in survey((one.name,), built_in, Folders([one]))[1]:
        raise _folder_error(one, problem)
    found = _declare_plugins(one, unconfined)
    accepted = _terms_by_plugin(found)
    # Checked as if accepted, so that needs beyond the allowed maximum are refused here as well.
    own = replace(one, accepted=accepted)
    plugins = [replace(candidate, installed=own) for candidate, _ in found]
    for candidate, plugin in check_plugins(plugins, [each for _, each in found]):
        if isinstance(plugin, Rejected):
            raise _folder_error(one, candidate.problem(plugin.code, plugin.detail))
    return accepted


def _declare_plugins(
    one: InstalledDistribution, unconfined: Collection[str]
) -> list[tuple[Candidate, DeclaredPlugin]]:
    async def load() -> list[tuple[Candidate, DeclaredPlugin]]:
        candidates = folder_candidates(one)
        found: list[tuple[Candidate, DeclaredPlugin]] = []
        async with plugin_hosts(unconfined) as hosts:
            for candidate, each in zip(
                candidates, await hosts.import_candidates(candidates), strict=True
            ):
                if isinstance(each, Rejected):
                    raise _folder_error(one, candidate.problem(each.code, each.detail))
                found.append((candidate, each))
        return found

    return asyncio.run(load())


def _terms_by_plugin(found: Sequence[tuple[Candidate, DeclaredPlugin]]) -> dict[str, Terms]:
    return {f"{each.group}:{each.name}": Terms.from_spec(declared.spec) for each, declared in found}


def _folder_error(one: InstalledDistribution, problem: Problem) -> FolderError:
    return FolderError(
        f"{problem.plugin} of {one.name} {one.version} cannot be loaded: {problem.code}:"
        f" {problem.detail}"
    )
