"""docs/reference/rest.md lists every route with its credential, and shows how to call it."""

from __future__ import annotations

import json
import re

from tests.operations.generate import called
from tests.support.repository import DOCS
from tests.support.services import Api

from solward_server.http.auth import rule_of

PAGE = (DOCS / "reference/rest.md").read_text()
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROWS = re.findall(
    r"^\| `([A-Z]+ /[\w/:.-]+)` \| (\w+) \| (\w+|-) \| \[[^]]+\]\(#([\w-]+)\) \|$", PAGE, re.M
)
DOCUMENTED = {route: (access, role) for route, access, role, _ in ROWS}
PREFIX = "/api/v1"


def served(api: Api) -> dict[str, tuple[str, str]]:
    """Each route as the page writes it, `:id` and `:name`, who may call it, by which role."""
    found = {}
    for rule in api.app.url_map.iter_rules():
        if not rule.rule.startswith(PREFIX):
            continue
        path = re.sub(r"<\w+_id>", ":id", rule.rule.removeprefix(PREFIX))
        path = re.sub(r"<(name|principal|skill|plugin)>", r":\1", path)
        view = api.app.view_functions[rule.endpoint]
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            found[f"{method} {path}"] = (rule_of(view).access.value, rule_of(view).role or "-")
    return found


async def test_every_route_is_documented_with_its_credential_and_no_other(api: Api) -> None:
    assert served(api) == DOCUMENTED


async def test_every_route_has_a_curl_and_every_curl_a_route(api: Api) -> None:
    assert called(PAGE).keys() == served(api).keys()


def test_every_route_links_to_a_heading_of_the_page() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert {anchor for _, _, _, anchor in ROWS} <= anchors


def test_every_json_sample_is_json() -> None:
    samples = [text for language, text in FENCED if language == "json"]
    assert samples
    decoder = json.JSONDecoder()
    for sample in samples:
        rest = sample.strip()
        while rest:
            _, end = decoder.raw_decode(rest)
            rest = rest[end:].lstrip()
