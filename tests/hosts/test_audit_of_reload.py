"""What an auditor tried on plugins that come, change and go in a running service."""

from __future__ import annotations

import asyncio
import shutil
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.hosts import (
    OF_THREE,
    Hosted,
    home,
    opened,
    pays_of,
    put_plugin,
    quick,
    rule_wheel,
    rules_of,
    skill_wheel,
    switch_plugin,
)
from tests.support.plugins import wheel

from solward.plugins import load
from solward.plugins.discovery import Candidate
from solward.plugins.folders import layout
from solward.types.errors import SolwardError
from solward.types.manifest import ProblemCode, Rejected

__all__ = ["home", "opened", "quick"]

pytestmark = pytest.mark.usefixtures("quick")


def has(hosted: Hosted, skill: str) -> bool:
    return skill in hosted.stand.service.live.registry.skills


@pytest.mark.more
@promise("guardrail-upgrade-has-no-gap")
@pytest.mark.parametrize("lost", ["all", "entry points"])
async def test_a_guardrail_whose_files_are_lost_judges_on_after_another_command(
    home: Path, tmp_path: Path, opened: Any, lost: str
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        one = await put_plugin(home, rule_wheel(tmp_path, "1"), checked=False)
        await until(lambda: rules_of(hosted) == [("cap", "1")], "the guardrail")
        if lost == "all":
            shutil.rmtree(one.folder)
        else:
            [points] = one.folder.glob("*.dist-info/entry_points.txt")
            points.write_text("")
        await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"), checked=False)
        await until(lambda: has(hosted, "acme"), "the skill")
        assert "not three, says 1" in await pays_of(wallet, OF_THREE)


@promise("guardrail-upgrade-has-no-gap")
@pytest.mark.more
async def test_another_guardrail_of_the_name_takes_no_missing_ones_place(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        await put_plugin(home, rule_wheel(tmp_path, "1"), checked=False)
        await until(lambda: rules_of(hosted) == [("cap", "1")], "the guardrail")
    shutil.rmtree(home / "plugins" / "acme-rules")
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        assert "the guardrail is not loaded" in await pays_of(wallet, OF_THREE)
        source = rule_wheel(tmp_path / "lax", "1", "FORBIDDEN = 1", name="lax_rules")
        await put_plugin(home, source, checked=False)
        await until(
            lambda: "lax-rules" in str(hosted.stand.service.live.registry.places), "the other"
        )
        refusal = await pays_of(wallet, OF_THREE / 3)
        assert "acme-rules: version_mismatch" in refusal


@pytest.mark.more
async def test_a_disable_counts_though_the_clock_was_set_back(
    home: Path, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as hosted:
        await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"), checked=False)
        await until(lambda: has(hosted, "acme"), "the skill")
        now = layout.time.time_ns
        monkeypatch.setattr(layout.time, "time_ns", lambda: now() - 3600 * 10**9)
        await switch_plugin(home, "acme-tools", False)
        await until(lambda: not has(hosted, "acme"), "it is disabled", 5)


@pytest.mark.long
@promise("disable-ends-in-two-seconds")
async def test_a_disable_waits_for_no_other_plugins_import(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=3)
        await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"), checked=False)
        await put_plugin(home, rule_wheel(tmp_path, "1"), checked=False)
        await until(lambda: has(hosted, "acme") and rules_of(hosted), "the skill and the rule")
        slow = wheel(
            tmp_path / "slow", name="slow_tools", version="1", plugin="slow",
            source="import time; time.sleep(25)",
        )  # fmt: skip
        began = time.monotonic()
        await put_plugin(home, slow, checked=False)
        live = hosted.stand.service.live.hosts.hosts
        await until(lambda: any(each.name == "slow-tools" for each in live.hosts), "its host")
        await switch_plugin(home, "acme-tools", False)
        await switch_plugin(home, "acme-rules", False)
        await until(lambda: not has(hosted, "acme") and not rules_of(hosted), "they are disabled")
        with pytest.raises(SolwardError, match="acme"):
            await hosted.run("acme", wallet.id)
        assert await pays_of(wallet, OF_THREE) == "paid"
        # Enabled again before the slow one is there.
        await switch_plugin(home, "acme-tools", True)
        await switch_plugin(home, "acme-rules", True)
        assert time.monotonic() - began < 20, "the import was over, and nothing waited"
        await until(lambda: has(hosted, "acme") and rules_of(hosted), "they are there again", 60)
        assert await hosted.run("acme", wallet.id) == "one"
        assert "guardrail cap: not three" in await pays_of(wallet, OF_THREE)


async def test_declarations_of_many_plugins_do_not_keep_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [EntryPoint(f"p{n}", "a:b", "solward.skills") for n in range(50)]
    candidates = [Candidate(each, "acme", "1") for each in points]

    class Source:
        async def import_candidates(self, those: Any) -> list[Rejected]:
            return [Rejected(ProblemCode.BAD_CONTRACT, "as slow as a large schema") for _ in those]

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    checked = load.check_plugins
    monkeypatch.setattr(load, "check_plugins", lambda *each: (time.sleep(0.001), checked(*each))[1])
    task = asyncio.create_task(others())
    assert len(await load.load_plugins(candidates, Source(), None)) == 50
    task.cancel()
    assert turns >= 50
