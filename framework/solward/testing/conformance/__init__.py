"""The conformance kit: named checks of a plugin's contract and behaviour.

    from solward.testing import conformance

    test_tip = conformance.skill_test("tip", cases=[{"to": ADDRESS, "amount": 1}])

A target is an installed entry point's name (`tip`, or `solward.skills:tip` if two groups have the
name), the name of a module or of an object in it (`tools.tip`, `tools.tip:skill`), or a module. The
target runs in a plugin host, as in production. With `in_process` it is imported into this process,
for debugging, and can then be any plugin object. A skill's case is its parameters, or a function,
perhaps async, that gets a new `TestWallet`, prepares it and returns the parameters. Each `check_*`
returns a report. The `*_test` of its kind has the same arguments and returns a test function, which
fails with the report if the plugin does not conform.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from solward.testing.conformance.report import TIERS, Finding, Grade, Outcome, Report, Tier

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from solders.account import Account
    from solders.pubkey import Pubkey

    from solward.testing.conformance.guardrails import Pair
    from solward.testing.conformance.skill_runs import Case
    from solward.testing.stand import Stand
    from solward.types.payment import HttpAnswer
    from solward.types.venue import QuoteRequest

P = ParamSpec("P")

__all__ = [
    "TIERS",
    "Finding",
    "Grade",
    "Outcome",
    "Report",
    "Tier",
    "check_guardrail",
    "check_path_or_name",
    "check_payment",
    "check_provider",
    "check_skill",
    "check_venue",
    "guardrail_test",
    "payment_test",
    "provider_test",
    "skill_test",
    "venue_test",
]


def check_path_or_name(
    target: str, *, in_process: bool = False, home: Path | None = None
) -> list[Report]:
    """Return a report for each plugin of a distribution, an entry point, a folder or a wheel.

    It runs the plugins' code, and a skill with the `examples` that it declares.

    Args:
        target: name of an installed distribution or entry point; or a folder with a
            `pyproject.toml`, whose entry points are imported without installing; or a wheel, which
            is unpacked during the check, as by `solward plugins install`.
        in_process: import into this process instead of plugin hosts; not possible for a wheel.
        home: a home whose plugin folders are searched for distributions, too.

    Raises:
        InvalidRequest: if there is no such plugin, or the folder is no plugin project.
        FolderError: if the wheel cannot be unpacked.
    """
    from solward.testing.conformance.runner import check_target

    return check_target(target, in_process=in_process, home=lambda: home).reports


async def check_skill(
    target: object,
    *,
    cases: Sequence[Case] = (),
    settings: Mapping[str, Any] | None = None,
    stand: Stand | None = None,
    in_process: bool = False,
) -> Report:
    """Check one skill with the examples that it declares and these cases, and return the report.

    Args:
        settings: settings for the skill. Missing secrets are generated. No output may contain one.
        stand: the service for the runs; by default a new one, whose secrets are canaries.
        in_process: import it into this process, for debugging. An object without a name in a module
            can only be checked in this way.

    Raises:
        InvalidRequest: if there is no such plugin.
    """
    given = {"cases": cases, "settings": settings or {}}
    return await _checked("skill", target, in_process, stand, **given)


async def check_provider(
    target: object, *, address: str | None = None, in_process: bool = False
) -> Report:
    """Check one provider, calling servers of this machine only, and return the report.

    Args:
        address: base address of a server that speaks the vendor's protocol. Without it, checks that
            need answers are skipped, unless the provider calls no server.

    Raises:
        InvalidRequest: if there is no such plugin.
    """
    return await _checked("provider", target, in_process, address=address)


async def check_guardrail(
    target: object,
    *,
    refused: Sequence[Pair] = (),
    allowed: Sequence[Pair] = (),
    held: Sequence[Pair] = (),
    in_process: bool = False,
) -> Report:
    """Check one guardrail with the kit's and the given transactions, and return the report.

    Args:
        refused: `(intent, effects)` that it must refuse.
        allowed: `(intent, effects)` that it must allow.
        held: `(intent, effects)` for which it must ask a person.

    Raises:
        InvalidRequest: if there is no such plugin.
    """
    return await _checked(
        "guardrail", target, in_process, refused=refused, allowed=allowed, held=held
    )


async def check_venue(
    target: object,
    *,
    http: httpx.AsyncClient | None = None,
    requests: Sequence[QuoteRequest] = (),
    pools: Sequence[str] = (),
    genesis: Mapping[Pubkey, Account] | None = None,
    in_process: bool = False,
) -> Report:
    """Check one swap venue and return the report; swaps run on a ledger made for the check.

    Args:
        http: a client with the address of a server that speaks the venue's protocol.
        requests: swaps to quote and to execute, which the venue can make. Without them, or without
            both `http` and `pools`, checks that need answers are skipped.
        pools: value of `pools` in its context.
        genesis: accounts of that ledger in addition to the demo market's, such as the venue's
            program and pools; give `{}` for a venue with an API that also reads the ledger.

    Raises:
        InvalidRequest: if there is no such plugin.
    """
    from solward.testing.conformance.venues import VenueCases

    cases = VenueCases(http, requests, pools, genesis)
    return await _checked("venue", target, in_process, cases=cases)


async def check_payment(
    target: object,
    *,
    answers: Sequence[HttpAnswer] = (),
    receipts: Sequence[HttpAnswer] = (),
    in_process: bool = False,
) -> Report:
    """Check one payment protocol and return the report.

    Args:
        answers: sellers' answers with the status 402, each with an offer of the protocol; without
            them checks that need offers are skipped.
        receipts: sellers' answers to a paid request, each with a receipt of the protocol.

    Raises:
        InvalidRequest: if there is no such plugin.
    """
    from solward.testing.conformance.payments import PaymentCases

    cases = PaymentCases(answers, receipts)
    return await _checked("payment", target, in_process, cases=cases)


async def _checked(
    kind: str, target: object, in_process: bool, stand: Stand | None = None, **given: Any
) -> Report:
    from solward.testing.conformance.runner import check

    return await check(target, stand, kind=kind, in_process=in_process, **given)


def _tested(check: Callable[P, Coroutine[Any, Any, Report]]) -> Callable[P, Callable[[], None]]:
    """Return a check's `*_test` function, which makes tests that fail with the check's report."""

    def make(*args: P.args, **kwargs: P.kwargs) -> Callable[[], None]:
        def test_conformance() -> None:
            from solward.testing.conformance.runner import run

            report = run(check(*args, **kwargs))
            print(report)
            if not report.ok:
                raise AssertionError(f"\n{report}")

        return test_conformance

    return make


skill_test = _tested(check_skill)
provider_test = _tested(check_provider)
guardrail_test = _tested(check_guardrail)
venue_test = _tested(check_venue)
payment_test = _tested(check_payment)
