"""A service that runs takes over what the command line installs, upgrades, disables and removes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.database import AuditLog
from tests.support.hosts import (
    FORBIDDEN,
    OF_THREE,
    PAID,
    Hosted,
    home,
    opened,
    pays_of,
    put_plugin,
    quick,
    remove_plugin,
    rule_wheel,
    rules_of,
    skill_wheel,
    switch_plugin,
)
from tests.support.payments import whole
from tests.support.plugins import Shelf, shelf, skill_source, wheel
from tests.support.repository import ROOT

from solward.plugins.folders import layout
from solward.plugins.hooks import PAYMENTS
from solward.plugins.loaded import LoadedPayment
from solward.support import jsontext
from solward.support.atomic_files import write_file
from solward.testing.stand import TestWallet
from solward.types.errors import SkillError, SkillNotFound
from solward.types.events import EventKind
from solward.types.payment import HttpAnswer
from solward.types.record import TransactionStatus

__all__ = ["home", "opened", "quick", "shelf"]

pytestmark = [
    pytest.mark.usefixtures("quick"),
    pytest.mark.samples(
        "test_a_distribution_comes_changes_and_goes_while_the_service_runs",
        "test_a_guardrail_judges_from_its_installation_to_its_removal",
    ),
]


def version(hosted: Hosted, skill: str = "acme") -> str | None:
    found = hosted.stand.service.live.registry.skills.get(skill)
    return None if found is None else found.version


async def test_a_distribution_comes_changes_and_goes_while_the_service_runs(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        waits = "while not (await context.balances()).lamports: await asyncio.sleep(0.02)"
        first = await put_plugin(home, skill_wheel(tmp_path, "1", f"{waits}\nreturn 'one'"))
        await until(lambda: version(hosted) == "1", "version 1")
        assert "acme" in {each.name for each in hosted.stand.service.live.registry.tools()}
        running = asyncio.create_task(hosted.run("acme", wallet.id))
        hosts = hosted.stand.service.live.hosts.hosts
        [old] = hosts.hosts
        await until(lambda: old.busy, "the call")
        await put_plugin(home, skill_wheel(tmp_path, "2", "await asyncio.sleep(60)"), upgrade=True)
        await until(lambda: version(hosted) == "2", "version 2")
        # What began with the version before ends with it, and then its process does.
        assert not running.done()
        await wallet.fund(1)
        assert await running == "one"
        await until(lambda: old not in hosts.hosts, "its host's end")
        running = asyncio.create_task(hosted.run("acme", wallet.id))
        await until(lambda: hosts.hosts[0].busy, "the call")
        await switch_plugin(home, "acme-tools", False)
        with pytest.raises(SkillError, match="ended during the call: it was disabled") as caught:
            await running
        assert caught.value.code == "plugin_host_ended"
        with pytest.raises(SkillNotFound):
            await hosted.run("acme", wallet.id)
        await until(lambda: hosted.problems == {"acme": "disabled"}, "it is told")
        await switch_plugin(home, "acme-tools", True)
        await until(lambda: version(hosted) == "2", "it is enabled")
        assert hosted.problems == {}
        await remove_plugin(home, "acme-tools")
        # It does nothing any more at once, and is gone once all are loaded anew.
        await until(lambda: hosted.stand.service.live.registry.places == (), "it is removed")
        assert (version(hosted), hosted.problems) == (None, {})
        # What a process may import from stays until no service runs.
        assert first.folder.is_dir()
        audit = await AuditLog(hosted.stand.service.database).latest()
        told = [each.to_json()["data"] for each in audit if each.event == EventKind.PLUGIN_CHANGED]
        assert [each["after"].get("enabled") for each in reversed(told)] == [
            True, None, False, True, False
        ]  # fmt: skip
        assert told[-2]["before"] == {"version": "1", "digest": first.digest}
        assert {each["principal"] for each in told} == {"cli"}


@promise("swapped-plugin-not-loaded")
async def test_an_upgrade_that_cannot_be_loaded_leaves_the_old_one_running(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"))
        await until(lambda: version(hosted) == "1", "version 1")
        worse = {
            "import_failed": skill_wheel(
                tmp_path, "2", "pass", extra="raise RuntimeError('no luck')"
            ),
            "not_accepted": skill_wheel(
                tmp_path,
                "3",
                "pass",
                manifest="__import__('solward').Manifest(sites=('evil.example',))",
            ),
        }
        for code, path in worse.items():
            # Behind the back of the command line, which would have asked and refused.
            await put_plugin(home, path, upgrade=True, checked=False)
            await until(lambda c=code: c in str(hosted.stand.service.live.registry.problems), code)
            assert hosted.problems == {"acme": "upgrade_failed"}
            assert await hosted.run("acme", wallet.id) == "one"
        await put_plugin(home, skill_wheel(tmp_path, "4", "return 'four'"), upgrade=True)
        await until(lambda: version(hosted) == "4", "version 4")
        assert hosted.problems == {}


@promise("pip-changes-await-restart")
async def test_what_pip_changes_waits_for_the_next_start(
    home: Path, tmp_path: Path, opened: Any, shelf: Shelf
) -> None:
    stays = "return 'as it was at the start'"
    shelf.install("env-tools", {"env": skill_source("env", body=stays)})
    metadata = shelf.path / "env_tools-1.5.dist-info"
    kept = tmp_path / "kept"
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        before = hosted.stand.service.live.registry
        metadata.rename(kept)
        shelf.install("new-tools", {"new": skill_source("new", effects="Effects.SPEND")})
        await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"))
        await until(lambda: version(hosted) == "1", "the exchange after an uninstallation")
        assert version(hosted, "env") == "1.5"
        assert await hosted.run("env", wallet.id) == "as it was at the start"
        assert (version(hosted, "new"), hosted.problems) == (None, {})
        # Back, as another version.
        kept.rename(metadata)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: env-tools\nVersion: 2.0\n")
        await switch_plugin(home, "acme-tools", False)
        await until(lambda: version(hosted) is None, "the exchange after an installation")
        assert hosted.stand.service.live.registry.skills["env"] is before.skills["env"]
        assert (version(hosted, "new"), hosted.problems) == (None, {"acme": "disabled"})
        assert [
            each.version for each in hosted.stand.service.live.registry.places if each.trust
        ] == ["1.5"]
    async with opened() as hosted:
        assert (version(hosted, "env"), version(hosted, "new")) == ("2.0", "1.5")


@promise("swapped-plugin-not-loaded")
async def test_a_record_swapped_for_another_version_is_not_loaded(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        one = await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"))
        await until(lambda: version(hosted) == "1", "version 1")
        other = await put_plugin(
            tmp_path / "other", skill_wheel(tmp_path / "w", "1", "return 'evil'")
        )
        record = (other.folder.parent / layout.RECORD).read_text()
        shutil.copytree(other.folder, one.folder.parent / other.folder.name)
        swapped = jsontext.loads(record) | {"act": {"id": one.act.id, "ms": one.act.ms}}
        write_file(one.folder.parent / layout.RECORD, jsontext.dumps(swapped).encode())
        await until(lambda: hosted.problems == {"*": "version_mismatch"}, "the mismatch")
        assert await hosted.run("acme", wallet.id) == "one"
    async with opened() as hosted:
        assert hosted.problems == {"*": "version_mismatch"}
        assert version(hosted) is None


async def test_files_that_were_changed_in_place_are_not_loaded(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    one = await put_plugin(home, skill_wheel(tmp_path, "1", "return 'one'"))
    async with opened() as hosted:
        assert version(hosted) == "1"
    module = one.folder / "acme_tools_acme.py"
    module.write_text(module.read_text().replace("'one'", "'evil'"))
    async with opened() as hosted:
        assert hosted.problems == {"*": "version_mismatch"}
        assert version(hosted) is None
        module.write_text(module.read_text().replace("'evil'", "'one'"))
        await switch_plugin(home, "acme-tools", True)
        await until(lambda: version(hosted) == "1", "the files are as they were")


async def test_enabling_lets_one_start_again_that_crashed(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    body = "import os; os._exit(7)"
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        await put_plugin(home, skill_wheel(tmp_path, "1", body))
        await until(lambda: version(hosted) == "1", "version 1")

        async def ends() -> str:
            with pytest.raises(SkillError) as caught:
                await hosted.run("acme", wallet.id)
            return caught.value.code

        assert [await ends() for _ in range(4)] == [
            *3 * ["plugin_host_ended"],
            "plugin_host_disabled",
        ]
        assert hosted.problems == {"acme": "crashes"}
        await switch_plugin(home, "acme-tools", True)
        await until(lambda: hosted.problems == {}, "it is enabled")
        assert await ends() == "plugin_host_ended"


async def test_enabling_forgets_what_was_wrong_with_one_that_runs(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    body = "print(*range(200), sep=chr(10)); raise KeyError"
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        await put_plugin(home, skill_wheel(tmp_path, "1", body))
        await until(lambda: version(hosted) == "1", "version 1")

        async def fails() -> list[str]:
            with pytest.raises(SkillError) as caught:
                await hosted.run("acme", wallet.id)
            assert caught.value.code == "internal_error"
            return [each.code for each in hosted.stand.service.live.registry.problems]

        # Each is said once, however often its host has something to say.
        assert [await fails() for _ in range(3)][-1] == ["noisy", "faulty_calls"]
        await switch_plugin(home, "acme-tools", True)
        await until(lambda: hosted.problems == {}, "it is enabled")
        # What happened before counts no more.
        assert "faulty_calls" not in await fails()
        assert "faulty_calls" not in await fails()
        assert "faulty_calls" in await fails()


@promise("restart-declares-the-same")
async def test_a_host_that_declares_otherwise_when_it_starts_again_is_disabled(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=0)
        one = await put_plugin(home, skill_wheel(tmp_path, "1", "import os; os._exit(7)"))
        await until(lambda: version(hosted) == "1", "version 1")
        module = one.folder / "acme_tools_acme.py"
        module.write_text(module.read_text().replace("Does acme.", "Does evil."))
        for code in ("plugin_host_ended", "plugin_host_disabled", "plugin_host_disabled"):
            with pytest.raises(SkillError) as caught:
                await hosted.run("acme", wallet.id)
            assert caught.value.code == code
        assert hosted.problems == {"acme": "declaration_changed"}
        module.write_text(module.read_text().replace("Does evil.", "Does acme."))
        await switch_plugin(home, "acme-tools", True)
        await until(lambda: hosted.problems == {}, "it is enabled")
        with pytest.raises(SkillError) as caught:
            await hosted.run("acme", wallet.id)
        assert caught.value.code == "plugin_host_ended"


@pytest.mark.more
@promise("guardrail-upgrade-has-no-gap")
async def test_a_guardrail_judges_from_its_installation_to_its_removal(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        assert await pays_of(wallet, OF_THREE) == "paid"
        await put_plugin(home, rule_wheel(tmp_path, "1"), checked=False)
        await until(lambda: rules_of(hosted) == [("cap", "1")], "the guardrail")
        assert "not three, says 1" in await pays_of(wallet, OF_THREE)
        # One that does not start leaves the old one judging.
        await put_plugin(
            home, rule_wheel(tmp_path, "2", "import os; os._exit(1)"), upgrade=True, checked=False
        )
        await until(lambda: hosted.problems == {"cap": "upgrade_failed"}, "the failure")
        assert "not three, says 1" in await pays_of(wallet, OF_THREE)
        # A folder that is lost is no command, now or at the next start.
        shutil.rmtree(home / "plugins" / "acme-rules")
        await until(lambda: hosted.problems == {"*": "version_mismatch"}, "the loss")
        assert "not three, says 1" in await pays_of(wallet, OF_THREE)
    async with opened() as hosted:
        wallet = await hosted.stand.wallet("another")
        assert rules_of(hosted) == [("cap", "")]
        refusal = await pays_of(wallet, OF_THREE / 3)
        assert "the guardrail is not loaded: 'cap' of acme-rules: version_mismatch" in refusal
        await put_plugin(home, rule_wheel(tmp_path, "1"), checked=False)
        await until(lambda: rules_of(hosted) == [("cap", "1")], "the guardrail")
        assert await pays_of(wallet, OF_THREE / 3) == "paid"
        await remove_plugin(home, "acme-rules")
        await until(lambda: rules_of(hosted) == [], "its removal")
        assert await pays_of(wallet, OF_THREE) == "paid"


@promise("guardrail-upgrade-has-no-gap")
async def test_no_payment_passes_a_guardrail_while_it_is_upgraded(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    limits = {"max_transactions_per_minute": 100_000, "daily_spending_limit_sol": 1000}
    async with opened(**limits) as hosted:
        wallets = [await hosted.stand.wallet(f"w{n}", sol=50) for n in range(4)]
        await put_plugin(home, rule_wheel(tmp_path, "0"), checked=False)
        await until(lambda: rules_of(hosted) == [("cap", "0")], "the guardrail")
        before = await hosted.stand.service.ledger.balance(PAID)
        told: list[str] = []
        stop = asyncio.Event()

        async def pay(wallet: TestWallet, amount: Decimal) -> None:
            while not stop.is_set():
                told.append(await pays_of(wallet, amount))

        payers = [
            asyncio.create_task(pay(wallet, amount))
            for wallet, amount in zip(
                wallets, [OF_THREE, OF_THREE, OF_THREE, OF_THREE / 3], strict=True
            )
        ]
        try:
            for number in range(1, 9):
                broken = "import os; os._exit(1)" if number % 4 == 0 else ""
                path = rule_wheel(tmp_path, str(number), broken)
                await put_plugin(home, path, upgrade=True, checked=False)
                if broken:
                    await until(lambda: "cap" in hosted.problems, "the failure")
                else:
                    await until(
                        lambda n=number: rules_of(hosted) == [("cap", str(n))], "the upgrade"
                    )
        finally:
            stop.set()
            await asyncio.gather(*payers)
        records = [each for wallet in wallets for each in await wallet.records()]
        paid = [each for each in records if each.status is TransactionStatus.CONFIRMED]
        moved = await hosted.stand.service.ledger.balance(PAID) - before
        assert moved == len(paid) * FORBIDDEN // 3
        assert len(paid) > 8
        said = {text.partition("says ")[2] for text in told if "not three" in text}
        assert len(said) > 4
        # Nobody's payment was refused for the upgrade's sake.
        assert not [text for text in told if text != "paid" and "not three" not in text]


async def test_a_payment_protocol_comes_and_goes_while_the_service_runs(
    home: Path, tmp_path: Path, opened: Any
) -> None:
    source = (ROOT / "plugin_template/src/solward_plugin_template/payment.py").read_text()
    made = wheel(
        tmp_path,
        plugin="solward_plugin_template",
        group=PAYMENTS,
        source=source,
    )
    price = {"mint": PAID, "payTo": PAID, "units": "5", "order": "7", "network": "localnet"}
    asked = HttpAnswer(
        "https://a.example/", "GET", 402, (("Template-Price", jsontext.dumps(price)),)
    )
    async with opened() as hosted:

        def loaded() -> Mapping[str, LoadedPayment]:
            return hosted.stand.service.live.registry.payments

        assert list(loaded()) == ["mpp", "x402"]
        await put_plugin(home, made)
        await until(lambda: "solward_plugin_template" in loaded(), "it is loaded")
        [offer] = whole(await loaded()["solward_plugin_template"].offers(asked))
        assert (offer.units, offer.pay_to) == (5, PAID)
        held = loaded()["solward_plugin_template"]
        await remove_plugin(home, "acme-tools")
        await until(lambda: list(loaded()) == ["mpp", "x402"], "it is removed")
        with pytest.raises(SkillError, match="The payment protocol 'solward_plugin_template'"):
            whole(await held.offers(asked))
