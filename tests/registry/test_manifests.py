"""Manifests: what may be declared, what follows from it, and what an upgrade asks again about."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from solward import (
    Effects,
    InvalidRequest,
    Manifest,
    ProviderSpec,
    Secret,
    SkillError,
    SkillSpec,
    VenueSpec,
)
from solward.operations.declared import OPERATIONS
from solward.plugins.load import check_manifest
from solward.types.manifest import (
    ProblemCode,
    Rejected,
    Site,
    Terms,
    check_paid_site,
    declared_site,
    manifest_json,
    may_move,
    may_operate,
    needs,
    needs_beyond,
    read_manifest,
    read_terms,
    secret_sites,
    site_of,
    terms_json,
)
from solward.types.payment import max_parts

MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SITE = "api.example.com"
FULL = Manifest(
    sites=(SITE, "xn--mnchen-3ya.de:8443"),
    operations=("transfer", "transact", "pocket", "pay"),
    assets=("SOL", MINT),
    storage_mb=1024,
    secrets=(Secret("ACME_KEY", SITE, in_query=True),),
)


def skill(manifest: Any) -> SkillSpec:
    return SkillSpec("x", "Does x.", {}, Effects.SPEND, manifest=manifest)


def test_a_full_manifest_is_taken() -> None:
    check_manifest(skill(FULL))
    check_manifest(skill(None))
    check_manifest(VenueSpec("x", Manifest(sites=(SITE,))))


@pytest.mark.parametrize(
    "site",
    [
        "API.example.com",
        "münchen.de",
        "*.example.com",
        "localhost",
        "127.0.0.1",
        "2130706433",
        "0x7f.0.0.0x1",
        "0177.0.0.01",
        "1.2.3.4.5",
        "[::1]",
        "::1",
        "api.example.com.",
        "api..example.com",
        "-api.example.com",
        "api.example.com:443",
        "api.example.com:0",
        "api.example.com:65536",
        "api.example.com:08443",
        "api.example.com/v1",
        "https://api.example.com",
        "user@api.example.com",
        "api.example.com\n",
        " api.example.com",
        f"{'a' * 64}.com",
        f"{'a.' * 130}com",
        "",
        7,
        None,
    ],
)
def test_a_site_is_a_host_name_and_nothing_else(site: Any) -> None:
    assert declared_site(site) is None
    with pytest.raises(Rejected, match=r"manifest\.sites\[0\]") as rejected:
        check_manifest(skill(Manifest(sites=(site,))))
    assert rejected.value.code is ProblemCode.BAD_CONTRACT


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ({"sites": ()}, "manifest must"),
        (Manifest(sites=[SITE]), "manifest.sites must"),  # type: ignore[arg-type]
        (Manifest(sites=SITE), "manifest.sites must"),  # type: ignore[arg-type]
        (Manifest(sites=None), "manifest.sites must"),  # type: ignore[arg-type]
        (Manifest(sites=(SITE, SITE)), "manifest.sites[1] repeats an earlier entry"),
        (Manifest(sites=tuple(f"a{n}.example.com" for n in range(65))), "manifest.sites must"),
        (Manifest(operations=("steal",)), "manifest.operations[0]"),
        (Manifest(operations=(["transfer"],)), "manifest.operations[0]"),  # type: ignore[arg-type]
        (Manifest(assets=("SOL", "not a mint")), "manifest.assets[1]"),
        (Manifest(assets=(MINT + "1",)), "manifest.assets[0]"),
        (Manifest(storage_mb=-1), "manifest.storage_mb"),
        (Manifest(storage_mb=1025), "manifest.storage_mb"),
        (Manifest(storage_mb=True), "manifest.storage_mb"),
        (Manifest(storage_mb=1.5), "manifest.storage_mb"),  # type: ignore[arg-type]
        (Manifest((SITE,), secrets=("ACME_KEY",)), "manifest.secrets[0]"),  # type: ignore[arg-type]
        (Manifest((SITE,), secrets=(Secret("acme", SITE),)), "manifest.secrets[0].env"),
        (Manifest((SITE,), secrets=(Secret("API_SECRET", SITE),)), "API_SECRET"),
        (Manifest((SITE,), secrets=(Secret("ACME_KEY", "b.org"),)), "manifest.secrets[0].site"),
        (Manifest((SITE,), secrets=(Secret("ACME_KEY", SITE, 1),)), "in_query"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_named(manifest: Any, field: str) -> None:
    with pytest.raises(Rejected) as rejected:
        check_manifest(skill(manifest))
    assert rejected.value.code is ProblemCode.BAD_CONTRACT
    assert field in str(rejected.value)


def test_every_operation_may_be_named() -> None:
    check_manifest(skill(Manifest(operations=(*OPERATIONS, "transact", "pocket"))))


def test_what_a_hostile_value_says_of_itself_is_not_asked() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise SystemExit("out of the checks")

        def __eq__(self, _other: object) -> bool:
            raise SystemExit("out of the checks")

        __hash__ = None  # type: ignore[assignment]

    for field in ("sites", "operations", "assets", "secrets"):
        with pytest.raises(Rejected, match=field):
            check_manifest(skill(Manifest(**{field: (Hostile(), Hostile())})))


@pytest.mark.parametrize("field", ["operations", "assets"])
def test_a_provider_or_a_venue_moves_no_money(field: str) -> None:
    moving = Manifest(**{field: ()})
    provider = ProviderSpec("x", "m", {}, manifest=moving)
    for spec in (provider, VenueSpec("x", moving)):
        with pytest.raises(Rejected, match=f"manifest.{field} must be None"):
            check_manifest(spec)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://api.example.com/", "https_only"),
        ("https://evil.example.com/", "site_not_declared"),
        ("https://api.example.com.evil.com/", "site_not_declared"),
        ("https://api.example.com./", "site_not_declared"),
        ("https://api.example.com:8443/", "site_not_declared"),
        ("https://127.0.0.1/", "site_not_declared"),
        ("https://2130706433/", "site_not_declared"),
        ("https://0x7f000001/", "site_not_declared"),
        ("https://0177.0.0.1/", "site_not_declared"),
        ("https://127.1/", "site_not_declared"),
        ("https://localhost/", "site_not_declared"),
        ("https://[::1]/", "site_not_declared"),
        ("https://[::ffff:127.0.0.1]/", "site_not_declared"),
        ("https://xn--pi-7ba.example.com/", "site_not_declared"),
        ("https://evil.com@api.example.com/", "bad_http_request"),
        ("https://api.example.com@evil.com/", "bad_http_request"),
        ("https://api.example.com:443@evil.com/", "bad_http_request"),
        ("https://evil.com\\@api.example.com/", "bad_http_request"),
        ("https://api.example.com\\.evil.com/", "bad_http_request"),
        ("https://evil.com#@api.example.com/", "bad_http_request"),
        ("https://API.example.com/", "bad_http_request"),
        ("https://\uff41pi.example.com/", "bad_http_request"),
        ("https://api\u3002example.com/", "bad_http_request"),
        ("https://api.example.com%2eevil.com/", "bad_http_request"),
        ("https://api.example.com:99999/", "bad_http_request"),
        ("https://api.example.com:0/", "bad_http_request"),
        ("https:api.example.com/", "bad_http_request"),
        ("https:///api.example.com/", "bad_http_request"),
        ("//api.example.com/", "bad_http_request"),
        ("file:///etc/passwd", "bad_http_request"),
        ("ftp://api.example.com/", "bad_http_request"),
        ("HTTPS://api.example.com/", "bad_http_request"),
        ("https://127.0.0.1?@api.example.com/", "site_not_declared"),
        ("https://017700000001/", "site_not_declared"),
        ("https://0/", "site_not_declared"),
        ("https://[fe80::1%25lo]/", "bad_http_request"),
        ("https://169.254.169.254/latest/meta-data/", "site_not_declared"),
        ("https://api.example.com%2f@evil.com/", "bad_http_request"),
        ("https:\\\\api.example.com/", "bad_http_request"),
        ("gopher://api.example.com/", "bad_http_request"),
        ("https://api.example.com/ HTTP/1.1\r\nHost: evil.com", "bad_http_request"),
        ("https://api.example.com/\n", "bad_http_request"),
        ("https://api.example.com/\x00", "bad_http_request"),
        ("https://api.example.com\t/", "bad_http_request"),
        (f"https://api.example.com/{'a' * 8192}", "bad_http_request"),
        ("", "bad_http_request"),
    ],
)
def test_a_request_goes_to_a_declared_site_or_nowhere(url: str, code: str) -> None:
    with pytest.raises(SkillError) as refused:
        site_of(Manifest(sites=(SITE,)), url)
    assert refused.value.code == code


def test_the_site_of_a_request() -> None:
    manifest = Manifest(sites=(SITE, "api.example.com:8443"))
    found = site_of(manifest, "https://api.example.com:443/a/../b?c={d}|e")
    assert found == (Site("https", SITE, 443), "/a/../b?c={d}|e", False)
    assert site_of(manifest, "https://api.example.com:8443?x=1") == (
        Site("https", SITE, 8443),
        "/?x=1",
        False,
    )


def test_without_a_manifest_there_is_no_network_even_to_what_is_configured() -> None:
    with pytest.raises(SkillError) as refused:
        site_of(None, "http://127.0.0.1:8080/v1", ("http://127.0.0.1:8080/v1",))
    assert refused.value.code == "no_network"


@pytest.mark.parametrize(
    "configured",
    ["http://127.0.0.1:8080/v1", "HTTP://127.0.0.1:8080", "http://user:secret@127.0.0.1:8080/"],
)
def test_what_the_operator_configured_is_allowed_by_its_origin(configured: str) -> None:
    site = Site("http", "127.0.0.1", 8080)
    found = site_of(Manifest(), "http://127.0.0.1:8080/v2/models", (configured,))
    assert found == (site, "/v2/models", True)
    for other in ("https://127.0.0.1:8080/", "http://127.0.0.1/", "http://127.0.0.2:8080/"):
        with pytest.raises(SkillError):
            site_of(Manifest(), other, (configured,))


def test_a_secret_goes_to_its_own_site_or_to_the_configured_one_instead() -> None:
    manifest = Manifest((SITE, "b.org"), secrets=(Secret("A", SITE), Secret("B", "b.org")))
    assert secret_sites(manifest, "A") == {Site("https", SITE, 443): False}
    assert secret_sites(manifest, "C") == {}
    assert secret_sites(None, "A") == {}
    own = ("http://[::1]:9/v1",)
    assert secret_sites(manifest, "A", own) == {Site("http", "[::1]", 9): False}
    # What nobody declared goes nowhere, also not to the configured address.
    assert secret_sites(manifest, "C", own) == {}


def test_a_providers_key_is_one_of_its_manifests_secrets() -> None:
    declared = Manifest((SITE,), secrets=(Secret("A", SITE),))
    check_manifest(ProviderSpec("x", "m", {}, "A", manifest=declared))
    for manifest in (Manifest(), declared):
        with pytest.raises(Rejected, match=r"secrets(\[0\].env)? must .*OPENAI_API_KEY"):
            check_manifest(ProviderSpec("x", "m", {}, "OPENAI_API_KEY", manifest=manifest))


def test_terms_are_a_manifest_and_what_is_declared_beside_it() -> None:
    full = Terms(FULL, spends=True, secret_env="ACME_KEY", base_url_env="ACME_URL")
    beside = ("effects: spend", "key: ACME_KEY", "address, which gets the key: ACME_URL")
    assert full.needs() == beside + needs(FULL)
    assert full.needs_beyond(None) == beside + needs_beyond(None, FULL)
    assert full.needs_beyond(Terms(FULL)) == beside
    assert full.needs_beyond(full) == Terms().needs_beyond(None) == ()
    assert Terms(FULL).needs_beyond(full) == ()
    assert replace(full, secret_env="OPENAI_API_KEY").needs_beyond(full) == ("key: OPENAI_API_KEY",)
    assert replace(full, base_url_env="B_URL").needs_beyond(full) == (
        "address, which gets the key: B_URL",
    )
    for terms in (full, Terms()):
        assert read_terms(terms_json(terms)) == terms


def test_operations_and_assets_are_what_is_named_where_anything_is() -> None:
    assert may_operate(None, "swap")
    assert may_operate(Manifest(), "swap")
    named = Manifest(operations=("transfer",), assets=("SOL",))
    assert may_operate(named, "transfer")
    assert not may_operate(named, "transact")
    assert not may_operate(Manifest(operations=()), "transfer")
    assert may_move(None, MINT)
    assert may_move(Manifest(), MINT)
    assert may_move(named, "So11111111111111111111111111111111111111112", "SOL")
    assert not may_move(named, MINT, "USDC")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (FULL, FULL, ()),
        (
            FULL,
            None,
            (
                "operations: any, before transfer, transact, pocket, pay",
                f"assets: any, before SOL, {MINT}",
            ),
        ),
        (
            None,
            FULL,
            (
                "network: api.example.com",
                "network: xn--mnchen-3ya.de:8443",
                "storage: 1024 MB, before 0 MB",
                "secret: ACME_KEY to api.example.com in the query too",
            ),
        ),
        (Manifest(operations=()), Manifest(operations=("swap",)), ("operations: swap",)),
        (Manifest(operations=("swap",)), Manifest(operations=()), ()),
        (
            Manifest((SITE,), secrets=(Secret("A", SITE),)),
            Manifest((SITE,), secrets=(Secret("A", SITE, True),)),
            ("secret: A to api.example.com in the query too",),
        ),
        (
            Manifest((SITE,), secrets=(Secret("A", SITE, True),)),
            Manifest((SITE,), secrets=(Secret("A", SITE),)),
            (),
        ),
    ],
)
def test_what_is_wider_is_said_in_words(
    old: Manifest | None, new: Manifest | None, words: tuple[str, ...]
) -> None:
    assert needs_beyond(old, new) == words


def test_it_is_shown_in_words_and_read_again() -> None:
    assert needs(FULL) == (
        "network: api.example.com",
        "network: xn--mnchen-3ya.de:8443",
        "operations: transfer, transact, pocket, pay",
        f"assets: SOL, {MINT}",
        "storage: 1024 MB",
        "secret: ACME_KEY to api.example.com in the query too",
    )
    assert needs(None) == needs(Manifest()) == ()
    for manifest in (None, Manifest(), FULL, Manifest(operations=())):
        assert read_manifest(manifest_json(manifest)) == manifest


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://api.example.com/report?n=1", None),
        ("https://api.example.com:443/report", None),
        ("https://api.example.com:8443/report", "site_not_declared"),
        ("https://api.example.com.evil.test/report", "site_not_declared"),
        ("https://paid.test:4020/report", None),
        ("http://paid.test:4020/report", None),  # whether by http at all, the payer says
        ("https://API.example.com/report", "bad_http_request"),
        ("https://api.example.com@evil.test/report", "bad_http_request"),
        ("https://api.example.com/report#part", "bad_http_request"),
        ("https://api.example.com\\@evil.test/", "bad_http_request"),
    ],
)
def test_a_plugin_pays_only_sites_that_its_manifest_names(url: str, code: str | None) -> None:
    manifest = Manifest(sites=("api.example.com", "paid.test:4020"))
    if code is None:
        check_paid_site(manifest, url)
        return
    with pytest.raises(SkillError) as caught:
        check_paid_site(manifest, url)
    assert caught.value.code == code


def test_a_plugin_without_a_manifest_pays_no_site() -> None:
    with pytest.raises(SkillError) as caught:
        check_paid_site(None, "https://api.example.com/")
    assert caught.value.code == "no_network"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "0.05",
        "USDC",
        "0 USDC",
        "0.000 USDC",
        "-1 USDC",
        "1e3 USDC",
        "1_000 USDC",
        "0.05  USDC",
        " 0.05 USDC",
        "0.05 USDC ",
        "0.05\tUSDC",
        "0.05 USDC SOL",
        "\u0661 USDC",
        "1 \uff35SDC",
        "0x1 USDC",
        "1,5 USDC",
        ".5 USDC",
        "1 US DC",
        "NaN USDC",
        Decimal("0.05"),
    ],
    ids=ascii,
)
def test_the_most_to_pay_has_one_form(text: object) -> None:
    with pytest.raises(InvalidRequest, match="max must be an amount and a symbol or mint"):
        max_parts(text)


def test_the_most_to_pay_is_read_exactly() -> None:
    assert max_parts("0.05 USDC") == (Decimal("0.05"), "USDC")
    assert max_parts("12 " + "So" * 16) == (Decimal(12), "So" * 16)
