from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.plugins import Shelf, skill_source

from solward.plugins import LoadedSkill, interceptors, load_registry, run_skill
from solward.types.errors import GuardrailBlocked, InvalidRequest, SkillError, SkillTimeout


@dataclass(frozen=True)
class Named:
    id: str


@dataclass
class Context:
    """As much of a context as the chain looks at."""

    wallet: Named = field(default_factory=lambda: Named("w-1"))
    agent: Named | None = field(default_factory=lambda: Named("a-1"))
    log: Any = field(default_factory=structlog.get_logger)
    seen: list[Any] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def end(self) -> None:
        self.ended = True

    async def aclose(self) -> None:
        self.end()


@dataclass
class Events:
    sent: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def __call__(self, name: str, data: Mapping[str, Any]) -> None:
        self.sent.append((name, data))

    @property
    def only(self) -> Mapping[str, Any]:
        ((name, data),) = self.sent
        assert name == "skill:executed"
        return data


def loaded(shelf: Shelf, body: str, **spec: str) -> LoadedSkill:
    shelf.install("dist", {"tested": skill_source("tested", body=body, **spec)})
    return load_registry(entry_points=shelf.entry_points()).skills["tested"]


async def run(
    skill: LoadedSkill, params: object = None, *, context: Any = None, events: Any = None
) -> str:
    given = {} if params is None else params
    return await run_skill(skill, given, context or Context(), emit=events or Events())


NUMBER = (
    '{"type": "object", "properties": {"n": {"type": "integer", "default": 3}},'
    ' "additionalProperties": False}'
)


async def test_a_skill_gets_valid_defaulted_parameters_and_its_run_is_an_event(
    shelf: Shelf,
) -> None:
    events = Events()
    skill = loaded(shelf, "return f'{params}'", parameters=NUMBER)
    assert await run(skill, events=events) == "{'n': 3}"
    expected = {"skill": "tested", "walletId": "w-1", "agentId": "a-1", "ok": True, "error": None}
    assert {key: events.only[key] for key in expected} == expected
    assert set(events.only) == {*expected, "durationMs"}


async def test_invalid_parameters_never_reach_the_skill(shelf: Shelf) -> None:
    events, context = Events(), Context()
    skill = loaded(shelf, "context.seen.append(params)\nreturn ''", parameters=NUMBER)
    with pytest.raises(InvalidRequest, match="n: must be a whole number"):
        await run(skill, {"n": "secret"}, context=context, events=events)
    assert context.seen == []
    assert (events.only["ok"], events.only["error"]) == (False, "InvalidRequest")
    assert "secret" not in str(events.only)


async def test_what_a_skill_says_went_wrong_passes(shelf: Shelf) -> None:
    events = Events()
    with pytest.raises(SkillError, match="no such pool") as caught:
        await run(loaded(shelf, "raise SkillError('no_pool', 'no such pool')"), events=events)
    assert caught.value.code == events.only["error"] == "no_pool"


async def test_a_guardrails_refusal_passes_with_its_record(shelf: Shelf) -> None:
    record: Any = object()
    context = Context(seen=[GuardrailBlocked("max_per_tx", "too much", record)])
    with pytest.raises(GuardrailBlocked) as caught:
        await run(loaded(shelf, "raise context.seen[0]"), context=context)
    assert caught.value.record is record


async def test_what_went_wrong_in_a_task_group_passes_too(shelf: Shelf) -> None:
    said = "ExceptionGroup('', [ExceptionGroup('', [SkillError('no_pool', 'no such pool')])])"
    with pytest.raises(SkillError, match="no such pool"):
        await run(loaded(shelf, f"raise {said}"))


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('a secret')",
        "raise ExceptionGroup('a secret', [SkillError('code', 'text'), ValueError()])",
        "raise SystemExit('a secret')",
        "raise BaseException('a secret')",
        "raise TimeoutError('a secret')",
        "raise asyncio.CancelledError('a secret')",
        "raise GeneratorExit('a secret')",
        "t = asyncio.ensure_future(asyncio.sleep(9)); t.cancel(); await t",
        "from solders.message import Message\nMessage.from_bytes(b'\\x01' * 4 + b'a secret')",
    ],
)
async def test_any_other_error_is_logged_and_shown_without_its_text(
    shelf: Shelf, body: str
) -> None:
    skill = loaded(shelf, body)
    with capture_logs() as logs, pytest.raises(SkillError) as caught:
        await run(skill)
    assert str(caught.value) == "Skill 'tested' failed with an internal error"
    assert caught.value.code == "internal_error"
    assert caught.value.__cause__ is None
    assert [(line["event"], line["skill"]) for line in logs] == [("skill_failed", "tested")]
    assert logs[0]["exc_info"]


@pytest.mark.parametrize("answer", ["None", "7", "{'a': 1}", "b'text'"])
async def test_an_answer_that_is_not_text_is_an_error(shelf: Shelf, answer: str) -> None:
    skill = loaded(shelf, f"return {answer}")
    with capture_logs(), pytest.raises(SkillError, match="did not return text"):
        await run(skill)


async def test_a_skill_past_its_time_is_cancelled_and_may_clean_up(shelf: Shelf) -> None:
    events, context = Events(), Context()
    body = """
        try:
            await asyncio.sleep(60)
        finally:
            context.seen.append('cleaned')
    """
    skill = loaded(shelf, body, timeout_s="0.05")
    with pytest.raises(SkillTimeout, match=r"did not finish within 0\.05 s"):
        await run(skill, context=context, events=events)
    assert context.seen == ["cleaned"]
    assert events.only["error"] == "timeout"


IGNORING = """
    while not context.release.is_set():
        try:
            await context.release.wait()
        except asyncio.CancelledError:
            context.seen.append('ignored')
    raise ValueError('too late to matter')
"""


@promise("broken-import-stops-no-start")
async def test_a_skill_that_swallows_its_cancellation_holds_nobody_up(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "GRACE_S", 0.05)
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: reported.append(told))
    context = Context()
    skill = loaded(shelf, IGNORING, timeout_s="0.05")
    with capture_logs() as logs, pytest.raises(SkillTimeout):
        async with asyncio.timeout(5):
            await run(skill, context=context)
    assert context.seen == ["ignored"]
    assert [line["event"] for line in logs] == ["skill_abandoned"]
    (abandoned,) = interceptors._abandoned
    context.release.set()
    await asyncio.wait({abandoned}, timeout=5)
    await asyncio.sleep(0)
    assert not interceptors._abandoned
    del abandoned
    gc.collect()
    assert reported == []  # asyncio reports an error that nobody looked at


async def test_cancelling_the_caller_cancels_the_skill_and_is_not_an_internal_error(
    shelf: Shelf,
) -> None:
    events, context = Events(), Context()
    body = """
        try:
            context.release.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            context.seen.append('cancelled')
            raise
    """
    running = asyncio.create_task(run(loaded(shelf, body), context=context, events=events))
    await context.release.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert context.seen == ["cancelled"]
    assert events.only["error"] == "cancelled"


async def test_cancelling_the_caller_does_not_wait_for_ever_for_the_skill(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "GRACE_S", 0.05)
    context = Context()
    skill = loaded(shelf, "context.seen.append('started')\n" + IGNORING.replace("\n    ", "\n"))
    running = asyncio.create_task(run(skill, context=context))
    while not context.seen:
        await asyncio.sleep(0)
    running.cancel()
    with capture_logs(), pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await running
    context.release.set()
    await asyncio.wait(set(interceptors._abandoned), timeout=5)
