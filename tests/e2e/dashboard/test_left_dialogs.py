"""Pages that are left while a dialog is open: NiceGUI deletes them with their dialogs, and the
handlers that wait for the dialogs end without an error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.e2e.dashboard.views import DIALOGS, OFTEN, opened_dialog
from tests.support.browser import Browser, Pages
from tests.support.examples import rest_is_long
from tests.support.processes import Service

pytestmark = pytest.mark.more

# Left pages are deleted at once instead of after a minute; a file has a line for each.
_FORGETTING = """
import runpy, sys, nicegui, solward_dashboard.serve
solward_dashboard.serve._RECONNECT_S = 0.1
def note(): print("deleted", file=open("deleted", "a"))
nicegui.app.on_delete(note)
runpy.run_module("solward_cli", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def service(furnished: Service) -> Service:
    return furnished


@pytest.fixture(scope="module")
def pages(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    pages = Pages(f"http://127.0.0.1:{service.port}", tmp_path_factory.mktemp("dashboard"))
    pages.program = ("-c", _FORGETTING)
    yield pages.start()
    pages.stop(signal.SIGKILL)


def deleted(folder: Path) -> int:
    """How many pages were deleted so far."""
    file = folder / "deleted"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.parametrize("maker", rest_is_long(sorted(DIALOGS), *OFTEN))
def test_leaving_a_page_with_an_open_dialog_logs_no_error(
    browser: Browser, pages: Pages, ids: dict[str, str], maker: str
) -> None:
    opened_dialog(browser, maker, ids)
    before = deleted(pages.folder)
    browser.driver.get("about:blank")
    browser.until(lambda: deleted(pages.folder) > before, "the page to be deleted")
    # What waited for the dialog goes on before the dashboard's next answer.
    assert httpx.get(f"{pages.url}/settings").status_code == 200
    log = (pages.folder / "dashboard.log").read_text()
    assert "Traceback" not in log, log[-4000:]
    assert '"error"' not in log, log[-4000:]
