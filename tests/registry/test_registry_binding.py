from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests.promises import promise
from tests.support.plugins import HEAD, Shelf, skill_source

from solward import Effects, Message, SkillSpec, hookimpl
from solward.plugins import load_registry
from solward.plugins.hooks import Manager, SealedError
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.guardrail import TransactionEffects as SimulatedEffects
from solward.types.provider import CompletionRequest


def plugin(name: str) -> ModuleType:
    module = ModuleType(name)

    @hookimpl
    def skill_spec() -> SkillSpec:
        return SkillSpec(name, "", {}, Effects.READ)

    module.skill_spec = skill_spec  # type: ignore[attr-defined]
    return module


def test_a_bound_caller_runs_its_own_plugin_whoever_is_registered_around_it() -> None:
    manager = Manager()
    plugins = [plugin(name) for name in ("first", "second", "third")]
    for each in plugins:
        manager.register(each)
    manager.seal()
    assert manager.hook.skill_spec().name == "third"
    assert [manager.bind("skill_spec", each)().name for each in plugins] == [
        "first",
        "second",
        "third",
    ]


def test_a_caller_cannot_be_bound_before_the_last_registration() -> None:
    manager = Manager()
    first = plugin("first")
    manager.register(first)
    with pytest.raises(SealedError):
        manager.bind("skill_spec", first)


def test_a_later_registration_is_refused_and_changes_nothing() -> None:
    manager = Manager()
    first = plugin("first")
    manager.register(first)
    manager.seal()
    bound = manager.bind("skill_spec", first)
    with pytest.raises(SealedError):
        manager.register(plugin("late"))
    assert bound().name == "first"


async def test_each_loaded_skill_executes_its_own_module(shelf: Shelf) -> None:
    names = [f"skill_{letter}" for letter in "abcd"]
    for name in names:
        shelf.install(f"dist-{name}", {name: skill_source(name, body=f"return {name!r}")})
    registry = load_registry(entry_points=shelf.entry_points())
    context: Any = None
    assert [await registry.skills[name].execute({}, context) for name in names] == names
    assert [tool.name for tool in registry.tools()] == names


PROVIDER = (
    HEAD
    + """
from solward import Completion, ProviderSpec

OPTIONS = {"type": "object", "properties": {"heat": {"type": "number", "default": 0.5}},
           "additionalProperties": False}

@hookimpl
def provider_spec():
    return ProviderSpec(name=NAME, default_model="m-1", options=OPTIONS, demo=DEMO)

@hookimpl
async def provider_complete(request, options):
    if request.model == "exit":
        raise SystemExit
    return Completion(f"{NAME} {request.model} {options['heat']}")
"""
)


def provider_source(name: str, demo: bool = False) -> str:
    return f"NAME, DEMO = {name!r}, {demo}\n" + PROVIDER


def request(model: str = "m-1") -> CompletionRequest:
    return CompletionRequest(model, "", (Message("user", "hello"),))


async def test_a_provider_is_called_with_its_options_defaulted(shelf: Shelf) -> None:
    shelf.install("dist-p", {"acme": provider_source("acme")}, "solward.providers")
    provider = load_registry(entry_points=shelf.entry_points()).providers["acme"]
    assert (await provider.complete(request())).text == "acme m-1 0.5"
    assert (await provider.complete(request(), {"heat": 1})).text == "acme m-1 1"
    with pytest.raises(InvalidRequest, match="unknown field 'cold'"):
        await provider.complete(request(), {"cold": 1})


def test_a_demo_provider_is_loaded_only_on_demand(shelf: Shelf) -> None:
    shelf.install("dist-p", {"show": provider_source("show", demo=True)}, "solward.providers")
    assert not load_registry(entry_points=shelf.entry_points()).providers
    assert not load_registry(entry_points=shelf.entry_points()).problems
    assert "show" in load_registry(demo=True, entry_points=shelf.entry_points()).providers


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('default_model="m-1"', 'default_model=" "', "default_model"),
        ("demo=DEMO", "demo=DEMO, secret_env='lower case'", "secret_env"),
        ("demo=DEMO", "demo=1", "True or False"),
        ("async def", "def", "async def"),
    ],
)
def test_a_provider_out_of_contract_is_reported(
    shelf: Shelf, old: str, new: str, words: str
) -> None:
    source = provider_source("acme").replace(old, new)
    shelf.install("dist-p", {"acme": source}, "solward.providers")
    (problem,) = load_registry(entry_points=shelf.entry_points()).problems
    assert problem.code == "bad_contract"
    assert words in problem.detail


VENUE = (
    HEAD
    + """
from solward import VenueSpec

@hookimpl
def venue_spec():
    return VenueSpec("pool")

@hookimpl
async def venue_quote(request, context):
    return ("quote", request)

@hookimpl
async def venue_swap(quote, wallet, context):
    return (quote, wallet)
"""
)


async def test_a_venue_is_called_through_its_own_hooks(shelf: Shelf) -> None:
    shelf.install("dist-v", {"pool": VENUE}, "solward.venues")
    venue = load_registry(entry_points=shelf.entry_points()).venues["pool"]
    asked: Any = "asked"
    assert await venue.quote(asked, asked) == ("quote", "asked")
    assert await venue.swap(asked, "me", asked) == ("asked", "me")
    assert (venue.gives_instructions, venue.gives_transactions) == (False, True)
    with pytest.raises(TypeError, match="pool has no venue_instructions"):
        await venue.instructions(asked, "me", "account", asked)


INSTRUCTIONS = (
    HEAD
    + """
from solward import VenueSpec

@hookimpl
def venue_spec():
    return VenueSpec("pool")

@hookimpl
async def venue_quote(request):
    return ("quote", request)

@hookimpl
async def venue_instructions(quote, taker, destination, max_accounts):
    return (quote, taker, destination, max_accounts)
"""
)


async def test_a_venue_may_give_instructions_instead_of_a_transaction(shelf: Shelf) -> None:
    shelf.install("dist-v", {"pool": INSTRUCTIONS}, "solward.venues")
    venue = load_registry(entry_points=shelf.entry_points()).venues["pool"]
    assert (venue.gives_instructions, venue.gives_transactions) == (True, False)
    asked: Any = "asked"
    assert await venue.instructions(asked, "taker", "account", asked) == (
        "asked",
        "taker",
        "account",
        None,
    )
    assert await venue.instructions(asked, "t", "a", asked, max_accounts=40) == (
        "asked",
        "t",
        "a",
        40,
    )
    with pytest.raises(TypeError, match="pool has no venue_swap"):
        await venue.swap(asked, "me", asked)


def test_a_venue_that_makes_no_swap_is_told_its_two_hooks(shelf: Shelf) -> None:
    source = INSTRUCTIONS.replace("@hookimpl\nasync def venue_instructions", "async def helper")
    shelf.install("dist-v", {"pool": source}, "solward.venues")
    (problem,) = load_registry(entry_points=shelf.entry_points()).problems
    assert problem.code == "bad_contract"
    assert (
        problem.detail
        == "venue_instructions or venue_swap must be implemented: one of them, or both"
    )


@promise("venue-names-no-program")
def test_a_venue_cannot_name_programs_that_get_near_a_wallet(shelf: Shelf) -> None:
    source = VENUE.replace('VenueSpec("pool")', 'VenueSpec("pool", programs=frozenset("1" * 32))')
    shelf.install("dist-v", {"pool": source}, "solward.venues")
    (problem,) = load_registry(entry_points=shelf.entry_points()).problems
    assert problem.code == "bad_contract"
    assert "programs" in problem.detail


GUARDRAIL = (
    HEAD
    + """
@hookimpl
def guardrail_check(intent):
    if intent.wallet == "exit":
        raise SystemExit
    return "not on Sundays" if intent.type == "swap" else None
"""
)


async def test_a_guardrail_is_a_named_rule_for_the_judge(shelf: Shelf) -> None:
    shelf.install("dist-g", {"sundays": GUARDRAIL}, "solward.guardrails")
    (guardrail,) = load_registry(entry_points=shelf.entry_points()).guardrails
    assert guardrail.name == "sundays"
    seen = SimulatedEffects(lamports_out=0, fee_lamports=5_000)
    assert await guardrail.check(Intent(type="swap", wallet="w"), seen) == "not on Sundays"
    assert await guardrail.check(Intent(type="transfer", wallet="w"), seen) is None
    exits = await guardrail.check(Intent(type="swap", wallet="exit"), seen)
    assert exits == "the rule failed: PluginCrash"


@promise("built-in-names-kept", "guardrail-upgrade-has-no-gap")
@pytest.mark.parametrize(
    ("name", "source", "code"),
    [
        ("max_per_tx", GUARDRAIL, "name_conflict"),
        ("sundays", "raise RuntimeError", "import_failed"),
        ("sundays", "x = 1", "bad_contract"),
    ],
)
async def test_in_place_of_a_guardrail_that_is_not_loaded_everything_is_refused(
    shelf: Shelf, name: str, source: str, code: str
) -> None:
    shelf.install("dist-g", {name: source}, "solward.guardrails")
    registry = load_registry(entry_points=shelf.entry_points())
    assert [problem.code for problem in registry.problems] == [code]
    [guardrail] = registry.guardrails
    seen = SimulatedEffects(lamports_out=0, fee_lamports=5_000)
    answer = await guardrail.check(Intent(type="transfer", wallet="w"), seen)
    assert str(answer).startswith(f"the guardrail is not loaded: '{name}' of dist-g: {code}: ")


async def test_a_guardrail_that_the_operator_left_out_refuses_nothing(shelf: Shelf) -> None:
    shelf.install("dist-g", {"sundays": GUARDRAIL}, "solward.guardrails")
    shelf.install("another", {"greet": skill_source("greet")})
    registry = load_registry(["another"], entry_points=shelf.entry_points())
    assert [problem.code for problem in registry.problems] == ["not_allowed"]
    assert registry.guardrails == ()


async def test_a_guardrail_whose_distribution_is_mistyped_is_not_left_out_in_silence(
    shelf: Shelf,
) -> None:
    shelf.install("dist-g", {"sundays": GUARDRAIL}, "solward.guardrails")
    registry = load_registry(["solward", "Dist_G", "dits-g"], entry_points=shelf.entry_points())
    assert [each.name for each in registry.guardrails] == ["sundays"]
    [problem] = registry.problems
    assert (problem.code, problem.distribution) == ("not_installed", "dits-g")
    assert "SOLWARD_PLUGINS names it" in str(problem)
