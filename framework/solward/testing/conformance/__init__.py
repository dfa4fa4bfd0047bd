"""The conformance kit: named checks of a plugin's contract and behaviour.

    from solward.testing import conformance

    test_tip = conformance.skill_test("tip", cases=[{"to": ADDRESS, "amount": 1}])

A target is an installed entry point's name (`tip`, or `solward.skills:tip` where two groups have
the name), a module or an object of one by name (`tools.tip`, `tools.tip:skill`), or a module. It
runs in a plugin host, as in production; `in_process` imports it into this process instead, for
debugging, and then any plugin object is a target. A case of a skill is its
parameters, or a function that takes a new `TestWallet`, prepares it for the skill, and returns the
parameters; it may be async. Each `check_*` gives a report; the `*_test` of its kind takes the same
arguments and gives a test function, which fails with the report if the plugin does not conform.
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
    """Return one report for each plugin of a distribution, an entry point, a project's folder or a
    wheel.

    Runs the plugins' code. A skill is run with the `examples` it declares.

    Args:
        target: the name of an installed distribution or entry point; or a folder with a
            `pyproject.toml`, whose entry points are imported without installing; or a wheel, which
            is unpacked as `solward plugins install` does, for the time of the check.
        in_process: as of the others; of a wheel nothing is imported into this process.
        home: where distributions in folders of their own are looked for, too.

    Raises:
        InvalidRequest: there is no such plugin, or the folder is no plugin project.
        FolderError: the wheel cannot be unpacked.
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
    """Return every check of one skill, with the examples it declares and these cases.

    Args:
        settings: what is set for it. Secrets that are not among them are made up, and no text,
            error or log line may have one of either.
        stand: the service to run it on; without one, a service is opened whose secrets are
            canaries.
        in_process: import it into this process, for debugging; an object that no module has under a
            name can be checked in no other way.

    Raises:
        InvalidRequest: there is no such plugin.
    """
    given = {"cases": cases, "settings": settings or {}}
    return await _checked("skill", target, in_process, stand, **given)


async def check_provider(
    target: object, *, address: str | None = None, in_process: bool = False
) -> Report:
    """Return every check of one provider; calls servers of this machine only.

    Args:
        address: base address of a server that speaks the vendor's protocol; without it the checks
            that need answers are skipped, unless the provider calls no server.

    Raises:
        InvalidRequest: there is no such plugin.
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
    """Return every check of one guardrail, on the kit's transactions and on these.

    Args:
        refused: `(intent, effects)` that it must refuse.
        allowed: `(intent, effects)` that it must allow.
        held: `(intent, effects)` of which it must have a person decide.

    Raises:
        InvalidRequest: there is no such plugin.
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
    """Return every check of one swap venue; what it sells is of a ledger that ends with the check.

    Args:
        http: a client of a server that speaks the venue's protocol, its address included.
        requests: what is asked of it and then sold, each a swap that it can make; without them, or
            without `http` and `pools`, the checks that need answers are skipped.
        pools: what its context has as `pools`.
        genesis: accounts of that ledger beside those of the demo market, such as the venue's
            program and its pools; a venue with an API that reads the ledger as well gives `{}`.

    Raises:
        InvalidRequest: there is no such plugin.
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
    """Return every check of one payment protocol.

    Args:
        answers: of sellers with the status 402, each with an offer of the protocol; without them
            the checks that need offers are skipped.
        receipts: of sellers to a paid request, each with what the protocol says of a payment.

    Raises:
        InvalidRequest: there is no such plugin.
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
    """Return the `*_test` function of a check: the test it gives fails with the report of the
    check."""

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
