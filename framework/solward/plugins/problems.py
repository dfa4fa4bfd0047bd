"""What is wrong with plugins: most of it is why one is not loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_MAX_TEXT = 300


class ProblemCode(StrEnum):
    """The reasons, in the order of the checks."""

    NOT_ALLOWED = "not_allowed"
    """Its distribution is not named in `SOLWARD_PLUGINS`."""
    NOT_INSTALLED = "not_installed"
    """`SOLWARD_PLUGINS` names a distribution, and none with plugins is installed by that name."""
    NAME_CONFLICT = "name_conflict"
    """A built-in plugin or another third-party one has the same name."""
    IMPORT_FAILED = "import_failed"
    """Importing it raised, `SystemExit` included."""
    BAD_HOOK = "bad_hook"
    """It implements an unknown hook, a wrapper, or a hook with arguments it does not have."""
    BAD_CONTRACT = "bad_contract"
    """A hook is missing or not as specified, or its declaration is out of range."""
    BAD_SCHEMA = "bad_schema"
    """Its JSON Schema is invalid, open, or uses what cannot be checked exactly."""
    DISABLED = "disabled"
    """Its distribution, in a folder of its own, is disabled."""
    NEEDS_HOST = "needs_host"
    """It stands in a folder of its own, from which nothing is imported into this process."""
    NOT_ACCEPTED = "not_accepted"
    """Its declaration asks for more than was accepted when it was installed."""
    HOST_FAILED = "host_failed"
    """Its plugin host could not start, or ended while the plugin was imported."""
    UNCONFINED_REFUSED = "unconfined_refused"
    """This machine cannot confine its plugin host, and the operator did not name it."""
    CRASHES = "crashes"
    """Its plugin host ended three times within a minute, and is not started again."""
    DECLARATION_CHANGED = "declaration_changed"
    """Its plugin host started again and declared something else; it is not started again."""
    FAULTY_CALLS = "faulty_calls"
    """Three calls of it failed, or were refused something, within a minute; it stays loaded."""
    NOISY = "noisy"
    """Its plugin host prints and logs more than anybody reads; it stays loaded."""
    UPGRADE_FAILED = "upgrade_failed"
    """Another version of it was installed and cannot be loaded; the one before goes on."""
    VERSION_MISMATCH = "version_mismatch"
    """This process does not have the version that the service's processes agreed on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One plugin that was left out, or that something is wrong with.

    Attributes:
        plugin: the entry point's name.
        distribution: the installed distribution it belongs to.
        detail: what was found and what was expected.
        group: its entry-point group, empty where its distribution could not be read.
        version: the distribution's version, empty likewise.
    """

    code: ProblemCode
    plugin: str
    distribution: str
    detail: str
    group: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.plugin!r} of {self.distribution}: {self.code}: {self.detail}"


class Rejected(Exception):
    """A plugin fails a check; turned into a `Problem` by the loader."""

    def __init__(self, code: ProblemCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = shortened(detail)


def shortened(text: str, limit: int = _MAX_TEXT) -> str:
    """`text` on one line of at most `limit` characters."""
    # A plugin's text may have half of a surrogate pair, which no answer and no terminal can show.
    line = " ".join(text[: 4 * limit].encode("utf-8", "replace").decode().split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def described(error: BaseException) -> str:
    """An error's type and text."""
    try:
        text = str(error)
    except Exception:  # a hostile __str__ must not stop the start
        text = ""
    name = type(error).__name__
    return shortened(f"{name}: {text}" if text else name)
