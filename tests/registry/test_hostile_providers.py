"""Providers that want what is not theirs, or are not what they must be."""

from __future__ import annotations

import pytest
from tests.promises import promise
from tests.support.plugins import CLOSED, Shelf

from solward import CompletionRequest
from solward.plugins import LoadedProvider, load_registry
from solward.plugins.hooks import PluginCrash
from solward.types.manifest import Problem

GROUP = "solward.providers"
REQUEST = CompletionRequest("m", "system", ())

STREAM = """
@hookimpl
async def provider_stream(request, options, context):
    yield 'one'
    yield 'two'
"""


def provider_source(name: str = "evil", *, extra: str = "", spec: str = "") -> str:
    return f"""
from solward import Completion, ProviderSpec, hookimpl

@hookimpl
def provider_spec():
    return ProviderSpec({name!r}, "m", {CLOSED}, {spec})

@hookimpl
async def provider_complete(request, options, context):
    return Completion("fine")
{extra}
"""


def problem_of(shelf: Shelf, source: str) -> Problem:
    shelf.install("evil-dist", {"evil": source}, GROUP)
    registry = load_registry(entry_points=shelf.entry_points())
    assert not registry.providers
    (problem,) = registry.problems
    return problem


def loaded(shelf: Shelf, source: str) -> LoadedProvider:
    shelf.install("evil-dist", {"evil": source}, GROUP)
    return load_registry(entry_points=shelf.entry_points()).providers["evil"]


@promise("provider-gets-named-variables")
@pytest.mark.parametrize("field", ["secret_env", "base_url_env"])
@pytest.mark.parametrize("variable", ["API_SECRET", "KEYSTORE_PASSPHRASE", "DATABASE_URL"])
def test_a_provider_is_not_lent_solwards_own_secrets(
    shelf: Shelf, field: str, variable: str
) -> None:
    problem = problem_of(shelf, provider_source(spec=f"{field}={variable!r}"))
    assert problem.code == "bad_contract"
    assert f"{field} must not be {variable}" in problem.detail


@pytest.mark.parametrize(
    "variable",
    ["OPENAI_API_KEY", "OPENAI_BASE_URL", "AWS_SECRET_ACCESS_KEY", "VAULT_ADDR", "MINE_API_KEY"],
)
def test_no_secret_is_named_as_an_address(shelf: Shelf, variable: str) -> None:
    problem = problem_of(shelf, provider_source(spec=f"base_url_env={variable!r}"))
    assert problem.code == "bad_contract"
    assert f"base_url_env must not be {variable}" in problem.detail


def test_no_address_is_named_as_a_secret(shelf: Shelf) -> None:
    problem = problem_of(shelf, provider_source(spec="secret_env='MINE_BASE_URL'"))
    assert problem.code == "bad_contract"
    assert "secret_env must not be MINE_BASE_URL" in problem.detail


@pytest.mark.parametrize("variable", ["'lower_case'", "'WITH SPACE'", "7", "''"])
def test_a_secret_is_named_by_an_environment_variable(shelf: Shelf, variable: str) -> None:
    problem = problem_of(shelf, provider_source(spec=f"secret_env={variable}"))
    assert problem.code == "bad_contract"
    assert "environment variable's name" in problem.detail


@pytest.mark.parametrize(
    "source",
    [
        STREAM.replace("yield 'one'", "pass").replace("yield 'two'", "return []"),
        STREAM.replace("async def", "def"),
    ],
    ids=["a coroutine", "a plain generator"],
)
def test_a_stream_that_is_no_async_generator_is_refused(shelf: Shelf, source: str) -> None:
    problem = problem_of(shelf, provider_source(extra=source))
    assert problem.code == "bad_contract"
    assert "provider_stream must be an async generator" in problem.detail


def test_a_stream_without_its_mark_is_refused(shelf: Shelf) -> None:
    problem = problem_of(shelf, provider_source(extra=STREAM.replace("@hookimpl", "")))
    assert problem.code == "bad_contract"
    assert "provider_stream is without @hookimpl" in problem.detail


async def test_a_stream_is_passed_on_as_it_comes(shelf: Shelf) -> None:
    provider = loaded(shelf, provider_source(extra=STREAM))
    assert [piece async for piece in provider.stream(REQUEST)] == ["one", "two"]


async def test_a_provider_without_a_stream_answers_in_one_piece(shelf: Shelf) -> None:
    provider = loaded(shelf, provider_source())
    assert [piece async for piece in provider.stream(REQUEST)] == ["fine"]


async def test_a_stream_that_exits_in_the_middle_is_contained(shelf: Shelf) -> None:
    source = STREAM.replace("yield 'two'", "raise SystemExit(3)")
    provider = loaded(shelf, provider_source(extra=source))
    pieces = provider.stream(REQUEST)
    assert await anext(pieces) == "one"
    with pytest.raises(PluginCrash, match="SystemExit"):
        await anext(pieces)


async def test_a_completion_that_exits_is_contained(shelf: Shelf) -> None:
    source = provider_source().replace('return Completion("fine")', "raise SystemExit(3)")
    with pytest.raises(PluginCrash, match="SystemExit"):
        await loaded(shelf, source).complete(REQUEST)
