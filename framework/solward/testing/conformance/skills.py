"""Checks of a skill, each on new wallets. They include exact checks of moved amounts, and whether
four vendors accept the skill as a tool, with its schema trimmed for each vendor."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from structlog.testing import capture_logs

from solward.plugins import LoadedSkill
from solward.plugins.parameters import Parameters
from solward.testing.canaries import setting_secret
from solward.testing.conformance import samples
from solward.testing.conformance.observer import BLOCKED_S, declared_paths, present_paths
from solward.testing.conformance.report import (
    GIVEN_IN,
    Finding,
    Outcome,
    errors_finding,
    finding,
    join_details,
)
from solward.testing.conformance.skill_runs import (
    Case,
    Run,
    Subject,
    WatchedSkill,
    check_cancellation,
    check_concurrency,
    observe_run,
    prepare_case,
    run_once,
)
from solward.testing.conformance.watch import BlockedTime, Watch
from solward.testing.stand import Stand, TestWallet, checked_settings
from solward.types.errors import InvalidRequest, SkillError
from solward.types.guardrail import SOL
from solward.types.provider import ToolDefinition
from solward.types.record import TransactionStatus
from solward.types.skill import Effects, tool_definitions

# Characters; a longer outcome would crowd out the rest of a model's memory.
MAX_OUTCOME = 8_000
MOST_EDGES = 10
# The reason of a host's end if its plugin blocked the event loop for too long.
NO_ANSWER = "it did not answer"
NO_BASE = "no example ran, and this check starts from an example"
_GIVE_SETTINGS = f"give the settings as `settings` of a test, or in {GIVEN_IN}"

Units = Mapping[str, int]


async def skill_findings(
    skill: LoadedSkill,
    watch: Watch,
    stand: Stand,
    cases: Sequence[Case] = (),
    *,
    settings: Mapping[str, Any] = MappingProxyType({}),
    tiered: bool = False,
) -> list[Finding]:
    """Return the findings of all checks of a loaded skill, in a fixed order.

    Args:
        settings: settings for it; missing secret ones are made up.
        tiered: whether to include the higher tiers' checks.

    Raises:
        InvalidRequest: if it declares no such setting, or the value does not fit.
    """
    given = checked_settings(skill, settings)
    made_up = [] if skill.settings is None else sorted(skill.settings.secrets - given.keys())
    unset = ""
    if skill.settings is not None:
        given |= {name: setting_secret(*skill.settings.length_bounds(name)) for name in made_up}
        for name in skill.settings.secrets:
            stand.canaries.setting(name, given[name])
        try:
            skill.settings.complete(skill.spec.name, given)
        except SkillError as error:
            unset = str(error)
    subject, unsampled = _make_subject(WatchedSkill(skill, watch, given), stand, cases)
    subject.made_up, subject.unset = made_up, unset
    # The service does not know these secrets, so it does not scrub them from a host's log.
    with capture_logs() as subject.logged:
        async with watch.blocking() as held:
            findings = await _contract_findings(subject, unsampled)
            beside = await _higher_tier_findings(subject, findings) if tiered else []
    findings += [_check_blocking(subject, held), *beside]
    return [replace(each, detail=stand.canaries.redact(each.detail)) for each in findings]


async def _higher_tier_findings(subject: Subject, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of the higher tiers' checks `errors` and `money`."""
    errors = [
        run.error
        for run in subject.runs
        if run.error is not None and run.seen.raised is not None and run.seen.raised.deliberate
    ]
    if subject.skill.spec.effects is Effects.READ:
        money = Finding("money", Outcome.OK, "moves none")
    elif any(each.outcome is Outcome.FAILED for each in findings):
        money = Finding("money", Outcome.SKIPPED, "fix the failed checks first")
    else:
        money = await check_money(subject, [case for case, _ in subject.good])
    return [errors_finding(errors), money]


async def _contract_findings(subject: Subject, unsampled: samples.NoSample | None) -> list[Finding]:
    skill = subject.skill
    findings = [_check_descriptions(skill)]
    findings.append(await _check_examples(subject, unsampled))
    params = [run.params for _, run in subject.good]
    findings.append(
        check_dialects(
            ToolDefinition(skill.spec.name, skill.spec.description, skill.spec.parameters),
            [*params, *skill.spec.examples],
        )
    )
    for name, (check, needs_run) in _CHECKS.items():
        if needs_run and not subject.good:
            findings.append(Finding(name, Outcome.SKIPPED, NO_BASE))
        else:
            findings.append(await check(subject))
    return findings


def _make_subject(
    watched: WatchedSkill, stand: Stand, cases: Sequence[Case]
) -> tuple[Subject, samples.NoSample | None]:
    spec = watched.loaded.spec
    known: list[Case] = [*cases, *spec.examples]
    if known:
        return Subject(watched, stand, known), None
    try:
        made: Mapping[str, Any] = samples.sample(spec.parameters)
    except samples.NoSample as error:
        return Subject(watched, stand, ()), error
    return Subject(watched, stand, [made], generated=True), None


def _check_descriptions(skill: LoadedSkill) -> Finding:
    fields = skill.spec.parameters.get("properties", {})
    bare = [name for name, field in fields.items() if not field.get("description")]
    trouble = [f"parameters without a description for a model: {', '.join(bare)}"] if bare else ()
    return finding("schema", trouble, f"{len(fields)} parameters, closed", warns=True)


async def _check_examples(subject: Subject, unsampled: samples.NoSample | None) -> Finding:
    if unsampled is not None:
        return Finding("examples", Outcome.SKIPPED, str(unsampled))
    if subject.unset:
        return Finding("examples", Outcome.SKIPPED, f"{subject.unset}; {_GIVE_SETTINGS}")
    trouble: list[str] = []
    crashed = False
    for at, case in enumerate(subject.cases):
        try:
            run = await subject.run(case)
        except Exception as error:
            # Only the preparation of a case can raise here; the run itself catches errors.
            trouble.append(f"case {at} could not be prepared: {type(error).__name__}: {error}")
            continue
        crashed = crashed or run.crashed
        if run.error is None and isinstance(run.outcome, str):
            subject.good.append((case, run))
        else:
            trouble.append(f"case {at}: {run.trouble}")
    how = "generated from the schema; declare `examples`" if subject.generated else ""
    if not trouble:
        return Finding("examples", Outcome.OK, how or f"{len(subject.good)} ran")
    if subject.generated and not crashed:
        detail = f"generated parameters were refused; declare `examples`: {join_details(trouble)}"
        return Finding("examples", Outcome.SKIPPED, detail)
    if subject.made_up and not crashed:
        names = ", ".join(subject.made_up)
        detail = f"with generated {names}: {join_details(trouble)}; {_GIVE_SETTINGS}"
        return Finding("examples", Outcome.SKIPPED, detail)
    return Finding("examples", Outcome.FAILED, join_details(trouble))


async def _check_parameters_used(subject: Subject) -> Finding:
    declared = list(declared_paths(subject.skill.spec.parameters))
    read = set().union(*(run.seen.read for _, run in subject.good))
    present = set().union(*(present_paths(run.params) for _, run in subject.good))
    defaulted = {name for name, schema in declared if "default" in schema}
    unread = [name for name, _ in declared if name not in read]
    dead = [name for name in unread if name in present | defaulted]
    if dead:
        return Finding("parameters_used", Outcome.FAILED, f"never reads: {', '.join(dead)}")
    if unread:
        detail = f"no example has {', '.join(unread)}, and the skill reads none of them"
        return Finding("parameters_used", Outcome.WARNING, detail)
    return Finding("parameters_used", Outcome.OK)


async def _check_bad_parameters(subject: Subject) -> Finding:
    schema = subject.skill.spec.parameters
    base = await _make_base(subject)
    if base is None:
        return Finding("bad_parameters", Outcome.SKIPPED, NO_BASE)
    wallet, params = base
    trouble = []
    wrongs = samples.invalid_params(schema, params)
    for what, wrong in wrongs:
        run = await run_once(subject.watched, wallet, wrong)
        subject.runs.append(run)
        if run.seen.executed or not isinstance(run.error, InvalidRequest):
            trouble.append(f"{what} is accepted")
    return finding("bad_parameters", trouble, f"{len(wrongs)} refused before the skill ran")


async def _check_edge_parameters(subject: Subject) -> Finding:
    case = subject.good[0][0]
    trouble, count = [], 0
    wallet = await subject.wallet()
    params = await prepare_case(case, wallet)
    for what, odd in samples.edge_params(subject.skill.spec.parameters, params, MOST_EDGES):
        count += 1
        run = await observe_run(subject.watched, wallet, odd)
        subject.runs.append(run)
        if run.crashed:
            trouble.append(f"{what}: {run.trouble}")
    return finding("edge_parameters", trouble, f"{count} answered or refused with a text")


async def _check_effects(subject: Subject) -> Finding:
    runs = subject.runs
    stray = [run for run in runs if run.unrecorded]
    if stray:
        detail = f"the ledger has a transaction without a record: {stray[0].unrecorded[0]}"
        return Finding("effects", Outcome.FAILED, detail)
    if subject.skill.spec.effects is Effects.READ:
        if any(run.requested or run.records for run in runs):
            return Finding("effects", Outcome.FAILED, "declares READ, but requests a transaction")
        return Finding("effects", Outcome.OK, "reads only")
    landed = [
        record.type
        for _, run in subject.good
        for record in run.records
        if record.status is TransactionStatus.CONFIRMED
    ]
    if not subject.good:
        return Finding("effects", Outcome.SKIPPED, NO_BASE)
    if not any(run.requested for _, run in subject.good):
        detail = "declares SPEND, but never requests a transaction; declare READ"
        return Finding("effects", Outcome.WARNING, detail)
    if not landed:
        return Finding("effects", Outcome.WARNING, "no transaction of an example landed")
    return Finding("effects", Outcome.OK, f"lands {', '.join(sorted(set(landed)))}")


async def _check_timeout(subject: Subject) -> Finding:
    case = subject.good[0][0]
    slow = [each for _, each in subject.good if each.seconds > subject.skill.spec.timeout_s / 2]
    if slow:
        limit_s = subject.skill.spec.timeout_s
        detail = f"an example took {slow[0].seconds:.1f} s of the limit of {limit_s:g} s"
        return Finding("timeout", Outcome.WARNING, detail)
    left = [task for _, each in subject.good for task in (await each.update_seen()).tasks]
    if left:
        return Finding("timeout", Outcome.FAILED, f"leaves a task running: {left[0]:.160}")
    return await check_cancellation(subject, case)


async def _check_outcome(subject: Subject) -> Finding:
    trouble = []
    returned = [run for run in subject.runs if run.seen.returned]
    for run in returned:
        if not isinstance(run.outcome, str):
            if getattr(run.error, "code", None) == "bad_outcome":
                trouble.append("is no text")
        elif not run.outcome.strip():
            trouble.append("is empty")
        elif len(run.outcome) > MAX_OUTCOME:
            trouble.append(f"has {len(run.outcome)} characters; at most {MAX_OUTCOME}")
        elif any(ord(each) < 32 and each not in "\n\t" for each in run.outcome):
            trouble.append("has control characters")
    if trouble:
        return Finding("outcome", Outcome.FAILED, f"the outcome {join_details(trouble)}")
    if not returned:
        return Finding("outcome", Outcome.SKIPPED, NO_BASE)
    return Finding("outcome", Outcome.OK)


async def _check_secrets(subject: Subject) -> Finding:
    leaked = {
        secret
        for run in subject.runs
        for text in run.texts
        for secret in subject.stand.canaries.found_in(text)
    }
    if leaked:
        return Finding("secrets", Outcome.FAILED, f"reveals {join_details(sorted(leaked))}")
    logged = {
        secret for entry in subject.logged for secret in subject.stand.canaries.found_in(str(entry))
    }
    if logged:
        return Finding("secrets", Outcome.FAILED, f"logs {join_details(sorted(logged))}")
    return Finding("secrets", Outcome.OK, f"no secret in the texts of {len(subject.runs)} runs")


# The checks in their order; True if the check needs an example that ran.
_CHECKS: Mapping[str, tuple[Callable[[Subject], Awaitable[Finding]], bool]] = {
    "parameters_used": (_check_parameters_used, True),
    "bad_parameters": (_check_bad_parameters, False),
    "edge_parameters": (_check_edge_parameters, True),
    "effects": (_check_effects, False),
    "timeout": (_check_timeout, True),
    "concurrency": (check_concurrency, True),
    "outcome": (_check_outcome, False),
    "secrets": (_check_secrets, False),
}


def _check_blocking(subject: Subject, held: BlockedTime) -> Finding:
    ended = [run.trouble for run in subject.runs if run.crashed and NO_ANSWER in run.trouble]
    if held.seconds < BLOCKED_S and not ended:
        return Finding("blocking", Outcome.OK)
    detail = f"blocked the event loop for {held.seconds:.1f} s at {held.where}"
    detail = ended[0] if ended else detail
    return Finding("blocking", Outcome.FAILED, f"{detail}; await, or use asyncio.to_thread")


async def _make_base(subject: Subject) -> tuple[TestWallet, dict[str, Any]] | None:
    """Return a new wallet and a case's parameters, preferably one that ran; None without cases."""
    wallet = await subject.wallet()
    if subject.good:
        return wallet, await prepare_case(subject.good[0][0], wallet)
    if subject.unset:
        return None  # without settings, every call fails before its schema is checked
    for case in subject.cases:
        if not callable(case):
            return wallet, dict(case)
    return None


async def check_money(subject: Subject, cases: Sequence[Case]) -> Finding:
    """Check that each example that lands moves exactly what its records' transactions moved, moves
    the same amounts on another wallet, and moves nothing on a frozen wallet."""
    trouble: list[str] = []
    differs: list[str] = []
    landed = 0
    for at, case in enumerate(cases):
        first, change = await _run_measured(subject, case)
        signatures = [
            each.signature
            for each in first.records
            if each.status is TransactionStatus.CONFIRMED and each.signature is not None
        ]
        if not signatures:
            continue
        landed += 1
        if change != await _units_moved(first.wallet, signatures):
            trouble.append(f"case {at}: its records differ from what left the wallet")
        _, again = await _run_measured(subject, case)
        if _outflows(change) != _outflows(again):
            differs.append(
                f"case {at}: {_out_text(change)} left one wallet and {_out_text(again)} another"
            )
        stopped, change = await _run_measured(subject, case, frozen=True)
        if _outflows(change) or stopped.crashed:
            trouble.append(f"case {at}: {_out_text(change)} left, though frozen; {stopped.trouble}")
    if trouble:
        return Finding("money", Outcome.FAILED, join_details(trouble))
    if differs:
        return Finding("money", Outcome.WARNING, join_details(differs))
    if not landed:
        return Finding("money", Outcome.SKIPPED, "no example landed a transaction")
    detail = f"{landed} examples moved what their records say, repeatably, and nothing if frozen"
    return Finding("money", Outcome.OK, detail)


async def _run_measured(subject: Subject, case: Case, *, frozen: bool = False) -> tuple[Run, Units]:
    """Run a case on a new wallet, and return the run and the change of the wallet's holdings."""
    wallet = await subject.wallet()
    params = await prepare_case(case, wallet)
    if frozen:
        await wallet.stand.service.switches.freeze(wallet.id, "the conformance kit")
    before = await _units_held(wallet)
    run = await observe_run(subject.watched, wallet, params)
    after = await _units_held(wallet)
    return run, _nonzero_units(
        {name: after.get(name, 0) - before.get(name, 0) for name in before | after}
    )


async def _units_held(wallet: TestWallet) -> dict[str, int]:
    held: defaultdict[str, int] = defaultdict(int)
    for each in await wallet.stand.service.ledger.holdings(wallet.address):
        held[each.mint] += each.units
    return {**held, SOL: await wallet.lamports()}


async def _units_moved(wallet: TestWallet, signatures: Sequence[str]) -> Units:
    """Return how transactions changed a wallet's holdings, as the ledger reports."""
    moved: defaultdict[str, int] = defaultdict(int)
    options = {"encoding": "json", "maxSupportedTransactionVersion": 1}
    for signature in signatures:
        found = await wallet.stand.localnet.call("getTransaction", [signature, options])
        meta = found["meta"]
        loaded = meta.get("loadedAddresses") or {}
        keys = [
            *found["transaction"]["message"]["accountKeys"],
            *loaded.get("writable", ()),
            *loaded.get("readonly", ()),
        ]
        at = keys.index(wallet.address)
        moved[SOL] += meta["postBalances"][at] - meta["preBalances"][at]
        for sign, tokens in ((1, meta["postTokenBalances"]), (-1, meta["preTokenBalances"])):
            for each in tokens:
                if each["owner"] == wallet.address:
                    moved[each["mint"]] += sign * int(each["uiTokenAmount"]["amount"])
    return _nonzero_units(moved)


def _nonzero_units(units: Units) -> Units:
    return {name: value for name, value in units.items() if value}


def _outflows(units: Units) -> Units:
    return {name: value for name, value in units.items() if value < 0}


def _out_text(units: Units) -> str:
    return ", ".join(f"{-value} of {name}" for name, value in _outflows(units).items()) or "nothing"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The limits of one vendor's API on a tool; the vendor refuses tools beyond them.

    Attributes:
        narrow: whether it accepts only Gemini's subset of JSON Schema.
        names: pattern of a tool's name.
        fields: pattern of a property's name.
    """

    vendor: str
    narrow: bool
    names: str
    fields: str


# platform.openai.com/docs/api-reference/chat (function.name), docs.x.ai (the same),
# docs.anthropic.com (tools: name, property keys), ai.google.dev/api (FunctionDeclaration).
DIALECTS = (
    Dialect("openai", False, r"[A-Za-z0-9_-]{1,64}", r".{1,256}"),
    Dialect("grok", False, r"[A-Za-z0-9_-]{1,64}", r".{1,256}"),
    Dialect("anthropic", False, r"[A-Za-z0-9_-]{1,64}", r"[A-Za-z0-9_.-]{1,64}"),
    Dialect("gemini", True, r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"),
)
# OpenAI refuses a longer one. It includes as text the limits that trimming removes from the schema.
MAX_DESCRIPTION = 1_024


def check_dialects(tool: ToolDefinition, cases: Iterable[Mapping[str, Any]]) -> Finding:
    """Check that each vendor accepts the tool, and that the vendor's schema accepts every case."""
    trouble: list[str] = []
    for dialect in DIALECTS:
        try:
            trouble += [f"{dialect.vendor}: {each}" for each in _tool_faults(dialect, tool, cases)]
        except Exception as error:
            trouble.append(f"{dialect.vendor}: {type(error).__name__}: {error}")
    return finding("dialects", trouble, ", ".join(each.vendor for each in DIALECTS))


def _tool_faults(
    dialect: Dialect, tool: ToolDefinition, cases: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    [definition] = tool_definitions([tool], narrow=dialect.narrow)
    sent = json.loads(json.dumps(definition, allow_nan=False))["function"]
    if not re.fullmatch(dialect.names, sent["name"]):
        yield f"refuses the name {sent['name']!r}"
    if len(sent["description"]) > MAX_DESCRIPTION:
        yield f"the description, which includes limits, has over {MAX_DESCRIPTION} characters"
    schema = _standard_schema(sent["parameters"])
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield f"the trimmed schema is invalid: {error.message}"
        return
    for name in _property_names(schema):
        if not re.fullmatch(dialect.fields, name):
            yield f"refuses the property name {name!r}"
    if dialect.narrow and any(value == "" for value in _enum_values(schema)):
        yield "refuses an empty text in an enum"
    accepts = Parameters(schema).accepts
    for case in cases:
        if not accepts(case):
            yield f"its trimmed schema refuses {dict(case)!r:.120}"


def _standard_schema(schema: Any) -> Any:
    """Return the schema with Gemini's `nullable` written as standard JSON Schema."""
    if isinstance(schema, list):
        return [_standard_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _standard_schema(each) for name, each in schema.items() if name != "nullable"}
    if schema.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        fields = schema.get("properties", {})
        yield from fields
        inner = [*fields.values(), schema.get("items"), *schema.get("anyOf", ())]
        for each in inner:
            yield from _property_names(each)


def _enum_values(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        for each in schema.values():
            yield from _enum_values(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _enum_values(each)
