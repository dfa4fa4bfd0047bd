"""`/docs`: everything the page needs comes from the service, and nothing else is served."""

from __future__ import annotations

import re

import pytest
from tests.support.services import Api

from solward_server.resources.openapi import FILES, START

ADDRESS = re.compile(r"""(?:src|href)=["']([^"']+)["']""")


@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_names_only_files_that_are_served_here(shared_api: Api) -> None:
    page = await shared_api.get("/docs", token=None, prefix="")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    named = ADDRESS.findall(page.text)
    assert {name.removeprefix("docs/") for name in named} == FILES.keys() | {START}
    for name in named:
        answer = await shared_api.get(f"/{name}", token=None, prefix="")
        assert (answer.status, len(answer.text) > 100) == (200, True), name
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.asyncio(loop_scope="module")
async def test_nothing_on_the_page_may_come_from_elsewhere(shared_api: Api) -> None:
    for name in ("", f"/{START}", *(f"/{name}" for name in FILES)):
        headers = (await shared_api.get(f"/docs{name}", token=None, prefix="")).headers
        policy = dict(
            part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        sources = {source for value in policy.values() for source in value.split()}
        assert sources == {"'none'", "'self'", "'unsafe-inline'", "data:"}
        # Inline script stays forbidden: only styles are written on the way.
        assert policy["script-src"] == "'self'"
    page = (await shared_api.get("/docs", token=None, prefix="")).text
    start = (await shared_api.get(f"/docs/{START}", token=None, prefix="")).text
    assert "//" not in page + start
    assert "validatorUrl: null" in start


@pytest.mark.asyncio(loop_scope="module")
async def test_the_script_starts_with_the_description(shared_api: Api) -> None:
    start = (await shared_api.get(f"/docs/{START}", token=None, prefix="")).text
    (address,) = re.findall(r'url: "([^"]+)"', start)
    assert (await shared_api.get(f"/{address}", token=None, prefix="")).json["openapi"] == "3.1.0"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "name",
    [
        "swagger-editor.js", "swagger-ui-bundle.js.map", "oauth2-redirect.html", "index.css",
        "LICENSE", "..%2f__init__.py", "../__init__.py", "%2e%2e%2f__init__.py", "x", "swagger-ui",
        "..%5c__init__.py", "SWAGGER-UI.CSS",
    ],
)  # fmt: skip
async def test_no_other_file_of_the_package_is_served(shared_api: Api, name: str) -> None:
    answer = await shared_api.get(f"/docs/{name}", token=None, prefix="")
    assert (answer.status, answer.error) == (404, "Not found")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/", "/docs/", "/docs/static", "/openapi.json"])
async def test_the_root_has_nothing_else(shared_api: Api, path: str) -> None:
    answer = await shared_api.get(path, token=None, prefix="")
    assert (answer.status, answer.error) == (404, "Not found")
