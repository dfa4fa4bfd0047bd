from __future__ import annotations

import importlib
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.hosts import MANY_HOSTS
from tests.support.plugins import Shelf, built_ins, skill_source

from solward.hosts import plugins
from solward.hosts.plugins import plugin_hosts
from solward.plugins import load_registry, open_registry
from solward.plugins.discovery import discover
from solward.types.errors import PluginError
from solward.types.manifest import Problem

OPEN = '{"type": "object", "properties": {"a": {"type": "string"}}}'


def evil(replaced: str, by: str) -> str:
    """The skill `evil` with a piece of its source replaced."""
    return skill_source("evil").replace(replaced, by)


PATTERN = repr(
    {
        "type": "object",
        "properties": {"f": {"type": "string", "pattern": "^(a|a)*$"}},
        "additionalProperties": False,
    }
)
CHOICES = repr(
    {
        "type": "object",
        "properties": {"f": {"enum": list(range(100))}},
        "additionalProperties": False,
    }
)
UNFIT = "{{'type': 'object', 'properties': {{}}, 'additionalProperties': False, {}}}"
UNREADABLE = {
    "a schema of half a surrogate pair": skill_source(
        "evil", schema=UNFIT.format(r"'title': 'a\ud800'")
    ),
    "a name of half a surrogate pair": skill_source(
        "evil", schema=UNFIT.format(r"'examples': [{'\udfff': 1}]")
    ),
    "a description of half a surrogate pair": skill_source("evil", description=r"'a\ud800'"),
    "a number of 5,000 digits": skill_source("evil", schema=UNFIT.format("'maximum': 10**5_000")),
    "a huge exponent": skill_source(
        "evil",
        schema=UNFIT.format("'maximum': Decimal('1E+999999999')"),
        extra="from decimal import Decimal",
    ),
    "a deep schema": skill_source(
        "evil",
        schema="d",
        extra="""
d = {}
for _ in range(3_000):
    d = {"a": d}
""",
    ),
    "an error of half a surrogate pair": evil(
        "return SkillSpec", r"raise RuntimeError('a\ud800')\n    SkillSpec"
    ),
    "a description that is no text": skill_source("evil", description="b'x'"),
    "a timeout of 400 digits": skill_source("evil", timeout_s="10**400"),
    "a timeout that is none": skill_source("evil", timeout_s="'1'"),
    "examples of 5,000 digits": skill_source("evil", examples="({'a': 10**5_000},)"),
}
HOSTILE: dict[str, tuple[str, str, str]] = {
    "SystemExit at import": ("import_failed", "SystemExit: 3", "raise SystemExit(3)"),
    "an error at import": ("import_failed", "ZeroDivisionError", "1 / 0"),
    "cancellation at import": (
        "import_failed",
        "CancelledError",
        "import asyncio\nraise asyncio.CancelledError",
    ),
    "not Python": ("import_failed", "SyntaxError", "def def"),
    "an open schema": ("bad_schema", "additionalProperties", skill_source("evil", schema=OPEN)),
    "an execute that is not async": (
        "bad_contract",
        "async def",
        evil("async def skill_execute", "def skill_execute"),
    ),
    "an execute that is a generator": (
        "bad_contract",
        "async def",
        skill_source("evil", body="yield 'a'"),
    ),
    "a misspelt hook": (
        "bad_hook",
        "skill_exekute is not a hook",
        evil("skill_execute", "skill_exekute"),
    ),
    "an argument no hook has": (
        "bad_hook",
        "skill_execute has no argument 'wallet'; it has params, context",
        evil("(params, context)", "(params, wallet)"),
    ),
    "an argument with a default": (
        "bad_contract",
        "default",
        evil("(params, context)", "(params, context=None)"),
    ),
    "any arguments": ("bad_contract", "name its arguments", evil("(params, context)", "(**given)")),
    "a wrapper": (
        "bad_hook",
        "wrapper",
        skill_source("evil", body="return 'x'").replace(
            "@hookimpl\nasync def skill_execute(params, context):\n    return 'x'",
            "@hookimpl(wrapper=True)\ndef skill_execute(params, context):\n    return (yield)",
        ),
    ),
    "a hook of another group": (
        "bad_hook",
        "not a hook of solward.skills",
        skill_source("evil")
        + "\n@hookimpl\ndef guardrail_check(intent, effects):\n    return None",
    ),
    "a hook without its mark": (
        "bad_contract",
        "skill_spec is without @hookimpl",
        evil("@hookimpl\ndef skill_spec", "def skill_spec"),
    ),
    "nothing": ("bad_contract", "skill_spec is missing", ""),
    "a spec that raises": (
        "bad_contract",
        "RuntimeError: no",
        evil("return SkillSpec", "raise RuntimeError('no')\n    SkillSpec"),
    ),
    "a spec that exits": (
        "bad_contract",
        "SystemExit",
        evil("return SkillSpec", "raise SystemExit\n    SkillSpec"),
    ),
    "a spec of another type": (
        "bad_contract",
        "must return a SkillSpec, not dict",
        evil("return SkillSpec", "return dict"),
    ),
    "a spec that changes": (
        "bad_contract",
        "the same declaration",
        skill_source("evil", extra="import itertools; n = itertools.count(1)", timeout_s="next(n)"),
    ),
    "another name": ("bad_contract", "returns the name 'other'", skill_source("other")),
    "no description": ("bad_contract", "description", skill_source("evil", description="' '")),
    "a long description": ("bad_contract", "1024", skill_source("evil", description="'x' * 1025")),
    "a timeout of 0": ("bad_contract", "timeout_s", skill_source("evil", timeout_s="0")),
    "an example that does not fit": (
        "bad_contract",
        "examples[0]: unknown field 'a'",
        skill_source("evil", examples="({'a': 1},)"),
    ),
    "examples that are no tuple": (
        "bad_contract",
        "examples must be a tuple",
        skill_source("evil", examples="[{}]"),
    ),
    "a timeout of 601": ("bad_contract", "timeout_s", skill_source("evil", timeout_s="601")),
    "no number as timeout": (
        "bad_contract",
        "timeout_s",
        skill_source("evil", timeout_s="float('inf')"),
    ),
    "effects of its own": ("bad_contract", "effects", skill_source("evil", effects="'read'")),
    "a schema that is no schema": (
        "bad_schema",
        "must be an object",
        skill_source("evil", schema="7"),
    ),
    "a pattern that takes for ever": (
        "bad_schema",
        "properties/f/pattern: is not allowed",
        skill_source("evil", schema=PATTERN, examples="({'f': 'a' * 64 + '!'},)"),
    ),
    "examples of many values": (
        "bad_schema",
        "examples: have too many values",
        skill_source("evil", schema=CHOICES, examples="({'f': [0] * 6_000},)"),
    ),
    "an unhashable plugin": (
        "bad_contract",
        "unhashable",
        "import sys\nfrom types import ModuleType\n"
        "class Odd(ModuleType):\n    __hash__ = None\n"
        "sys.modules[__name__].__class__ = Odd\n" + skill_source("evil"),
    ),
}


def only(problems: tuple[Problem, ...]) -> Problem:
    (problem,) = problems
    return problem


@pytest.mark.parametrize("what", HOSTILE)
def test_a_broken_plugin_is_reported_with_its_code_and_stops_nothing(
    shelf: Shelf, what: str
) -> None:
    code, words, source = HOSTILE[what]
    shelf.install("evil-dist", {"evil": source})
    shelf.install("good-dist", {"good": skill_source("good")})
    registry = load_registry(entry_points=[*shelf.entry_points(), *built_ins("transfer")])
    problem = only(registry.problems)
    assert (problem.code, problem.plugin, problem.distribution) == (code, "evil", "evil-dist")
    assert words in problem.detail
    assert list(registry.skills) == ["transfer", "good"]
    assert registry.skills["transfer"].distribution == "solward"


@promise("odd-declaration-stops-nobody")
@pytest.mark.parametrize("what", UNREADABLE)
def test_an_odd_declaration_leaves_out_its_plugin_alone(shelf: Shelf, what: str) -> None:
    shelf.install("evil-dist", {"evil": UNREADABLE[what]})
    shelf.install("good-dist", {"good": skill_source("good")})
    registry = load_registry(entry_points=[*shelf.entry_points(), *built_ins("transfer")])
    problem = only(registry.problems)
    assert (problem.plugin, list(registry.skills)) == ("evil", ["transfer", "good"])
    str(problem).encode()


@promise("odd-declaration-stops-nobody")
async def test_odd_declarations_in_plugin_hosts_leave_out_these_plugins_alone(
    shelf: Shelf,
) -> None:
    names = [f"evil_{number}" for number in range(len(UNREADABLE))]
    sources = {
        name: source.replace("'evil'", repr(name))
        for name, source in zip(names, UNREADABLE.values(), strict=True)
    }
    shelf.install("mixed-dist", sources | {"good": skill_source("good")})
    async with plugin_hosts() as hosts:
        registry = await open_registry(hosts=hosts, entry_points=shelf.entry_points())
    assert list(registry.skills) == ["good"]
    assert sorted(problem.plugin for problem in registry.problems) == sorted(names)


@pytest.mark.more
@promise("declaration-faults-same-in-host")
async def test_plugin_hosts_report_the_same(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "Hosts", partial(plugins.Hosts, limits=MANY_HOSTS))
    expected = {
        "raise_interrupt": ("import_failed", "KeyboardInterrupt"),
        "ends_the_process": ("host_failed", "ended with status 3"),
    }
    sources = {
        "raise_interrupt": "raise KeyboardInterrupt",
        "ends_the_process": "import os\nos._exit(3)",
    }
    for number, (code, words, source) in enumerate(HOSTILE.values()):
        name = f"evil_{number}"
        expected[name] = (code, words)
        sources[name] = source.replace("'evil'", repr(name))
    for name, source in sources.items():
        shelf.install(name.replace("_", "-"), {name: source})
    shelf.install("good-dist", {"good": skill_source("good")})
    async with plugin_hosts() as hosts:
        entry_points = [*shelf.entry_points(), *built_ins("transfer")]
        registry = await open_registry(hosts=hosts, entry_points=entry_points)
    assert list(registry.skills) == ["transfer", "good"]
    found = {problem.plugin: (problem.code.value, problem.detail) for problem in registry.problems}
    assert {name: code for name, (code, _) in found.items()} == {
        name: code for name, (code, _) in expected.items()
    }
    for name, (_, words) in expected.items():
        assert words in found[name][1]
    assert not set(shelf.modules) & set(sys.modules)


def test_an_interrupt_by_the_user_is_no_plugin_problem(shelf: Shelf) -> None:
    shelf.install("evil-dist", {"evil": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load_registry(entry_points=shelf.entry_points())


@promise("built-in-names-kept")
def test_a_built_in_keeps_its_name_wherever_the_rival_stands_on_the_path(shelf: Shelf) -> None:
    module = shelf.install("evil-dist", {"transfer": skill_source("transfer")})
    for order in (
        shelf.entry_points() + built_ins("transfer"),
        built_ins("transfer") + shelf.entry_points(),
    ):
        registry = load_registry(entry_points=order)
        assert registry.skills["transfer"].distribution == "solward"
        problem = only(registry.problems)
        assert (problem.code, problem.distribution) == ("name_conflict", "evil-dist")
        assert "solward" in problem.detail
    assert module not in sys.modules


@pytest.mark.parametrize("name", ["max_per_tx", "grants", "freeze", "clock"])
def test_no_rule_of_a_plugin_has_the_name_of_our_own(shelf: Shelf, name: str) -> None:
    shelf.install("evil-dist", {name: "raise AssertionError"}, "solward.guardrails")
    problem = only(load_registry(entry_points=shelf.entry_points()).problems)
    assert (problem.code, problem.plugin) == ("name_conflict", name)


@promise("built-in-names-kept")
def test_of_two_third_parties_with_one_name_neither_loads(shelf: Shelf) -> None:
    shelf.install("dist-a", {"twin": skill_source("twin")})
    shelf.install("dist-b", {"twin": skill_source("twin"), "other": skill_source("other")})
    registry = load_registry(entry_points=shelf.entry_points())
    assert list(registry.skills) == ["other"]
    assert {(each.code, each.distribution) for each in registry.problems} == {
        ("name_conflict", "dist-a"),
        ("name_conflict", "dist-b"),
    }


def test_one_distribution_giving_a_name_twice_loads_neither(shelf: Shelf) -> None:
    shelf.install("dist-a", {"twin": skill_source("twin")})
    (first,) = shelf.entry_points()
    assert first.dist is not None
    second = EntryPoint("twin", "json", "solward.skills")._for(first.dist)
    registry = load_registry(entry_points=[first, second])
    assert not registry.skills
    assert [each.code for each in registry.problems] == ["name_conflict", "name_conflict"]


@promise("only-named-plugins-import")
def test_a_plugin_that_is_not_allowed_is_not_imported_and_blocks_no_name(shelf: Shelf) -> None:
    unwanted = shelf.install("Not_Wanted", {"twin": skill_source("twin")})
    shelf.install("Wanted.Dist", {"twin": skill_source("twin")})
    registry = load_registry(
        ["wanted-dist"], entry_points=[*shelf.entry_points(), *built_ins("wait")]
    )
    assert list(registry.skills) == ["wait", "twin"]
    assert registry.skills["twin"].distribution == "Wanted.Dist"
    assert registry.skills["twin"].version == "1.5"
    problem = only(registry.problems)
    assert (problem.code, problem.distribution) == ("not_allowed", "Not_Wanted")
    assert unwanted not in sys.modules


@pytest.mark.parametrize("name", ["Evil", "1evil", "evil-skill", "e" * 65])
def test_a_name_no_model_could_call_is_refused_before_the_import(shelf: Shelf, name: str) -> None:
    module = shelf.install("evil-dist", {name: skill_source(name)})
    registry = load_registry(entry_points=shelf.entry_points())
    assert only(registry.problems).code == "bad_contract"
    assert module not in sys.modules


def test_a_module_behind_two_names_is_one_plugin(shelf: Shelf) -> None:
    module = shelf.install("evil-dist", {"evil": skill_source("evil")})
    shelf.metadata("evil-other", f"[solward.skills]\nagain = {module}")
    registry = load_registry(entry_points=shelf.entry_points())
    assert len(registry.skills) + len(registry.problems) == 2
    assert "bad_hook" in {each.code for each in registry.problems}


def test_a_broken_built_in_stops_the_start(shelf: Shelf) -> None:
    shelf.metadata("solward", "[solward.skills]\nbroken = solward_plugins.not_there")
    with pytest.raises(PluginError, match="'broken' of solward: import_failed") as caught:
        load_registry(entry_points=shelf.entry_points())
    assert isinstance(caught.value.problem, Problem)


def test_a_borrowed_distribution_name_makes_no_built_in(shelf: Shelf) -> None:
    module = shelf.install("Solward", {"transfer": skill_source("transfer")})
    registry = load_registry(entry_points=[*shelf.entry_points(), *built_ins("transfer")])
    assert registry.skills["transfer"].version != "1.5"
    assert only(registry.problems).code == "name_conflict"
    assert module not in sys.modules


def test_a_distribution_found_twice_on_the_path_is_one(shelf: Shelf) -> None:
    shelf.install("dist-a", {"good": skill_source("good")})
    registry = load_registry(entry_points=shelf.entry_points() * 2)
    assert list(registry.skills) == ["good"]
    assert not registry.problems


def test_of_two_distributions_with_one_name_the_first_counts_even_without_plugins(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.install("Acme_Tools", {"good": skill_source("good")})
    earlier = Shelf(tmp_path / "earlier")
    earlier.path.mkdir()
    earlier.metadata("nameless", "")
    (earlier.path / "nameless-1.5.dist-info" / "METADATA").unlink()
    monkeypatch.syspath_prepend(str(earlier.path))
    assert "good" in {each.name for each in discover(("*",))[0]}

    earlier.metadata("acme-tools", "")
    importlib.invalidate_caches()
    candidates, problems = discover(("*",))
    assert "good" not in {each.name for each in candidates}
    assert not problems


def test_a_problem_stays_one_short_line(shelf: Shelf) -> None:
    shelf.install("evil-dist", {"evil": "raise ValueError('a\\n' * 1_000_000)"})
    detail = only(load_registry(entry_points=shelf.entry_points()).problems).detail
    assert "\n" not in detail
    assert len(detail) <= 300


def test_an_error_whose_text_raises_is_still_reported(shelf: Shelf) -> None:
    source = "class E(Exception):\n    def __str__(self): raise SystemError\nraise E"
    shelf.install("evil-dist", {"evil": source})
    assert only(load_registry(entry_points=shelf.entry_points()).problems).detail == "E"


def test_entry_points_that_cannot_be_read_are_a_problem_of_their_distribution(
    shelf: Shelf,
) -> None:
    shelf.metadata("mangled", "[solward.skills]\nthis is no entry point")
    shelf.install("good", {"good": skill_source("good")})
    candidates, problems = discover(("*",))
    assert {"good", "transfer"} <= {candidate.name for candidate in candidates}
    problem = only(tuple(problems))
    assert (problem.code, problem.distribution) == ("import_failed", "mangled")
