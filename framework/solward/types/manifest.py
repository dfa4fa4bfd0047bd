"""Manifests: a plugin's declared needs, the rights that follow from them, and the problems that a
plugin can have.

All functions here are pure. The service applies them when a plugin host requests an operation or an
HTTP request, and never relies on a plugin's own checks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from solward.types.bounds import Items, Name, Names
from solward.types.errors import SkillError

GROUPS = (
    "solward.skills",
    "solward.providers",
    "solward.venues",
    "solward.payments",
    "solward.guardrails",
)
"""The entry-point groups of plugins."""
KINDS = {group: group.removeprefix("solward.").removesuffix("s") for group in GROUPS}
"""Group -> the kind of its plugins, such as `skill`."""

TRANSACT = "transact"
"""The name of `context.transact` among a manifest's operations."""
POCKET = "pocket"
"""The name of `context.pocket` among a manifest's operations."""
PAY = "pay"
"""The name of `context.pay` among a manifest's operations."""

MAX_STORAGE_MB = 1_024
MAX_URL = 8_192

# The last label begins with a letter, so that no spelling of an IPv4 address matches.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])"
_SITE = re.compile(rf"(?P<host>{_NAME})(?::(?P<port>[1-9][0-9]{{0,4}}))?")
_MAX_NAME = 253

# After the host, printable ASCII except `"`, `#`, `<` and `>`, as httpx writes every URL.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<target>(?:[/?][!$-;=?-~]*)?)"
)
_PORTS = {"https": 443, "http": 80}
# The names of groups that were probably meant for Solward.
_MEANT = re.compile(r"solwards?(?:[._-]|$)", re.IGNORECASE)


def misspelt_group(groups: Iterable[str]) -> str | None:
    """Return the error for an entry-point group that misspells one of Solward's, else None. Plugins
    in such a group would otherwise be ignored without any message."""
    for group in groups:
        if _MEANT.match(group) and group not in GROUPS:
            return f"{group} is no group of Solward's entry points, which are {', '.join(GROUPS)}"
    return None


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that a plugin's requests carry to one site; the plugin never sees its value.

    Attributes:
        env: the service's environment variable with the secret.
        site: the only site that may receive it; one of the manifest's `sites`.
        in_query: whether it may be sent in a URL's query too, not only in headers.
    """

    env: Name
    site: Name
    in_query: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """A plugin's declared needs; the plugin gets nothing else.

    Attributes:
        sites: host names that it calls by https, or pays, in lower-case ASCII (IDNA); `host:port`
            if the port is not 443. A provider or venue may also call the address that an operator
            configures for it.
        operations: names of operations, or `transact`, `pocket` and `pay`; None for all that its
            effects and the grants allow.
        assets: symbols and mints that it may move; None for all that the grants allow.
        storage_mb: megabytes (2**20 bytes) for its files, 0 to 1,024. The plugins of a distribution
            share one folder, whose size is the largest number that they declare.
        secrets: the secrets in its requests, and their sites.
    """

    sites: Names = ()
    operations: Names | None = None
    assets: Names | None = None
    storage_mb: int = 0
    secrets: Annotated[tuple[Secret, ...], Items] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """All terms of a plugin that an operator accepts: its manifest and its other declarations.

    Attributes:
        spends: whether a skill's effects are SPEND.
        secret_env: `secret_env` of a provider.
        base_url_env: `base_url_env` of a provider.
    """

    manifest: Manifest | None = None
    spends: bool = False
    secret_env: str | None = None
    base_url_env: str | None = None

    @classmethod
    def from_spec(cls, spec: object) -> Terms:
        """Return the terms of a `SkillSpec`, `ProviderSpec` or `VenueSpec`, or empty terms."""
        return cls(
            getattr(spec, "manifest", None),
            getattr(spec, "effects", None) == "spend",
            getattr(spec, "secret_env", None),
            getattr(spec, "base_url_env", None),
        )

    def needs(self, unset: Collection[str] = ()) -> tuple[str, ...]:
        """Return in words what the plugin needs; empty if it needs nothing.

        Args:
            unset: variables of secrets that are said not to be set.
        """
        return self._added_terms(Terms(), unset) + needs(self.manifest, unset)

    def secrets(self) -> tuple[str, ...]:
        """Return the environment variables of the plugin's secrets, each once."""
        own = () if self.secret_env is None else (self.secret_env,)
        declared = () if self.manifest is None else self.manifest.secrets
        return tuple(dict.fromkeys((*own, *(each.env for each in declared))))

    def needs_beyond(self, old: Terms | None) -> tuple[str, ...]:
        """Return in words the terms that `old` does not have; empty if no new consent is needed."""
        had = old or Terms()
        return self._added_terms(had) + needs_beyond(had.manifest, self.manifest)

    def _added_terms(self, had: Terms, unset: Collection[str] = ()) -> tuple[str, ...]:
        found = ["effects: spend"] if self.spends and not had.spends else []
        if self.secret_env not in (None, had.secret_env):
            found.append(f"key: {self.secret_env}{_NOT_SET if self.secret_env in unset else ''}")
        if self.base_url_env not in (None, had.base_url_env):
            found.append(f"address, which gets the key: {self.base_url_env}")
        return tuple(found)


class Site(NamedTuple):
    """The scheme, host and port of a URL or of a manifest's site."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the site in a manifest's form if it has one, else as a URL."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{'' if self.scheme == 'https' else 'http://'}{self.host}{port}"


def site_name(site: Site) -> str:
    """Return a site as grants and payments name it: the host, and any port but 443."""
    return site.host if site.port == _PORTS["https"] else f"{site.host}:{site.port}"


class Target(NamedTuple):
    """The destination of an allowed request.

    Attributes:
        path: path and query to send; at least `/`.
        configured: whether the operator configured this site for the plugin. Only such a site may
            be http, or in a private network.
    """

    site: Site
    path: str
    configured: bool


def declared_site(text: object) -> Site | None:
    """Return the site that a manifest's entry names; None if it names none."""
    found = _SITE.fullmatch(text) if isinstance(text, str) else None
    if found is None or len(found["host"]) > _MAX_NAME:
        return None
    port = int(found["port"] or 443)
    # The default port of https must be omitted, so that a site has one spelling.
    known = port <= 65_535 and found["port"] != "443"
    return Site("https", found["host"], port) if known else None


def site_of(manifest: Manifest | None, url: str, configured: Iterable[str] = ()) -> Target:
    """Return the target of a plugin's request.

    Args:
        manifest: the plugin's, None if it has none.
        url: absolute, as httpx writes it: lower-case host, ASCII, no userinfo, no fragment.
        configured: addresses that the operator configured for this plugin.

    Raises:
        SkillError: `no_network`, `bad_http_request`, `https_only` or `site_not_declared`.
    """
    if manifest is None:
        raise SkillError(
            "no_network", "The plugin has no manifest, so it may use no network: declare its sites"
        )
    site, path = split_url(url)
    if site in map(_configured_site, configured):
        return Target(site, path, configured=True)
    if site.scheme != "https":
        raise SkillError(
            "https_only", f"{site} must be called over https, or be configured by the operator"
        )
    if str(site) not in manifest.sites:
        raise SkillError("site_not_declared", f"The plugin's manifest does not name {site}")
    return Target(site, path, configured=False)


def check_paid_site(manifest: Manifest | None, url: str) -> None:
    """Refuse a plugin's payment to a site that its manifest does not name.

    The caller checks whether the site may be called at all, and by http.

    Args:
        manifest: the plugin's, None if it has none.
        url: absolute, as httpx writes it: lower-case host, ASCII, no userinfo, no fragment.

    Raises:
        SkillError: `no_network`, `bad_http_request` or `site_not_declared`.
    """
    if manifest is None:
        raise SkillError(
            "no_network", "The plugin has no manifest, so it pays no site: declare its sites"
        )
    site, _path = split_url(url)
    named = site_name(site)
    if named not in manifest.sites:
        raise SkillError("site_not_declared", f"The plugin's manifest does not name {named}")


def secret_sites(
    manifest: Manifest | None, env: str, configured: Iterable[str] = ()
) -> dict[Site, bool]:
    """Return the sites that receive a secret of the manifest, with whether it may be in the query.
    They are the configured sites if there are any, else the manifest's.

    A configured address receives the secret instead of the vendor, because the operator may have a
    special key for that address.
    """
    named: dict[Site, bool] = {}
    for each in () if manifest is None else manifest.secrets:
        site = declared_site(each.site) if each.env == env else None
        if site is not None:
            named[site] = each.in_query or named.get(site, False)
    # Only declared secrets are sent, even to a configured address, because the operator accepted
    # them.
    instead = tuple(map(_configured_site, configured)) if named else ()
    return dict.fromkeys(instead, any(named.values())) if instead else named


def secret_text(declared: Mapping[str, str | None], env: str) -> str:
    """Return the text of one of a plugin's secrets.

    Args:
        declared: variable -> secret, for the secrets of its manifest; None if one is not set.

    Raises:
        SkillError: `secret_not_declared` or `secret_not_set`.
    """
    if env not in declared:
        shown = str(env)[:64]
        raise SkillError(
            "secret_not_declared", f"The plugin's manifest does not name the secret {shown!r}"
        )
    text = declared[env]
    if text is None:
        raise SkillError("secret_not_set", f"{env} is not set in the service's environment or .env")
    return text


def may_operate(manifest: Manifest | None, operation: str) -> bool:
    """Return whether a manifest allows an operation, `transact`, `pocket` or `pay`."""
    return manifest is None or manifest.operations is None or operation in manifest.operations


def may_move(manifest: Manifest | None, *names: str) -> bool:
    """Return whether a manifest allows an asset, by its mint or by its symbol."""
    if manifest is None or manifest.assets is None:
        return True
    return any(name in manifest.assets for name in names)


def needs_beyond(old: Manifest | None, new: Manifest | None) -> tuple[str, ...]:
    """Return in words the needs of `new` that `old` does not have; empty if there are none."""
    had, wants = old or Manifest(), new or Manifest()
    found = [f"network: {site}" for site in wants.sites if site not in had.sites]
    for kind, before, after in (
        ("operations", had.operations, wants.operations),
        ("assets", had.assets, wants.assets),
    ):
        if before is None:
            continue
        if after is None:
            found.append(f"{kind}: any, before {', '.join(before) or 'none'}")
        else:
            found += [f"{kind}: {each}" for each in after if each not in before]
    if wants.storage_mb > had.storage_mb:
        found.append(f"storage: {wants.storage_mb} MB, before {had.storage_mb} MB")
    # Whoever accepted a secret for queries and headers has accepted it for headers alone.
    covered = {*had.secrets, *(Secret(each.env, each.site) for each in had.secrets)}
    found += [_secret(each) for each in wants.secrets if each not in covered]
    return tuple(found)


def needs(manifest: Manifest | None, unset: Collection[str] = ()) -> tuple[str, ...]:
    """Return in words what a manifest declares; empty if it declares nothing.

    Args:
        unset: variables of secrets that are said not to be set.
    """
    if manifest is None:
        return ()
    found = [f"network: {site}" for site in manifest.sites]
    for kind, names in (("operations", manifest.operations), ("assets", manifest.assets)):
        if names is not None:
            found.append(f"{kind}: {', '.join(names) or 'none'}")
    if manifest.storage_mb:
        found.append(f"storage: {manifest.storage_mb} MB")
    found += [_secret(each) + (_NOT_SET if each.env in unset else "") for each in manifest.secrets]
    return tuple(found)


def manifest_json(manifest: Manifest | None) -> dict[str, Any] | None:
    """Return a manifest as JSON for REST and the command line; None if there is none."""
    if manifest is None:
        return None
    return {
        "sites": list(manifest.sites),
        "operations": None if manifest.operations is None else list(manifest.operations),
        "assets": None if manifest.assets is None else list(manifest.assets),
        "storageMb": manifest.storage_mb,
        "secrets": [
            {"env": each.env, "site": each.site, "inQuery": each.in_query}
            for each in manifest.secrets
        ],
    }


def read_manifest(raw: Mapping[str, Any] | None) -> Manifest | None:
    """Read the JSON that `manifest_json` wrote."""
    if raw is None:
        return None
    operations, assets = raw["operations"], raw["assets"]
    return Manifest(
        sites=tuple(raw["sites"]),
        operations=None if operations is None else tuple(operations),
        assets=None if assets is None else tuple(assets),
        storage_mb=raw["storageMb"],
        secrets=tuple(
            Secret(each["env"], each["site"], each["inQuery"]) for each in raw["secrets"]
        ),
    )


def terms_json(terms: Terms) -> dict[str, Any]:
    """Return terms as JSON for the stored record of an installation."""
    return {
        "manifest": manifest_json(terms.manifest),
        "spends": terms.spends,
        "secretEnv": terms.secret_env,
        "baseUrlEnv": terms.base_url_env,
    }


def read_terms(raw: Mapping[str, Any]) -> Terms:
    """Read the JSON that `terms_json` wrote."""
    return Terms(read_manifest(raw["manifest"]), raw["spends"], raw["secretEnv"], raw["baseUrlEnv"])


_NOT_SET = " (not set)"


def _secret(secret: Secret) -> str:
    where = " in the query too" if secret.in_query else ""
    return f"secret: {secret.env} to {secret.site}{where}"


def split_url(url: str) -> tuple[Site, str]:
    """Return a URL's site, and its path with query.

    URLs that parsers may read in different ways are refused.

    Raises:
        SkillError: `bad_http_request`.
    """
    found = _URL.fullmatch(url) if len(url) <= MAX_URL else None
    port = int(found["port"] or _PORTS[found["scheme"]]) if found else 0
    if found is None or not 0 < port <= 65_535:
        raise SkillError(
            "bad_http_request",
            "The URL must be http(s)://host[:port]/path?query in ASCII, without user or fragment,"
            f" and of at most {MAX_URL} characters",
        )
    path = found["target"]
    return (
        Site(found["scheme"], found["host"], port),
        path if path.startswith("/") else f"/{path}",
    )


def _configured_site(address: str) -> Site:
    """Return the site of an operator's address, which may have capitals and a user."""
    from urllib.parse import urlsplit  # the authors' names stay light without it

    parts = urlsplit(address)
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode()
    return Site(
        parts.scheme, f"[{host}]" if ":" in host else host, parts.port or _PORTS[parts.scheme]
    )


class ProblemCode(StrEnum):
    """The kinds of a plugin's problems, in the order of the checks."""

    NOT_ALLOWED = "not_allowed"
    """Its distribution is not named in `SOLWARD_PLUGINS`."""
    NOT_INSTALLED = "not_installed"
    """`SOLWARD_PLUGINS` names a distribution that is not installed or has no plugins."""
    NAME_CONFLICT = "name_conflict"
    """A built-in plugin or another third-party one has the same name."""
    IMPORT_FAILED = "import_failed"
    """Its import raised an error or `SystemExit`."""
    BAD_HOOK = "bad_hook"
    """It implements an unknown hook, a wrapper, or a hook with unknown arguments."""
    BAD_CONTRACT = "bad_contract"
    """A hook is missing or not as specified, or its declaration is out of range."""
    BAD_SCHEMA = "bad_schema"
    """Its JSON Schema is invalid, open, or uses what cannot be checked exactly."""
    DISABLED = "disabled"
    """Its distribution, in a folder of its own, is disabled."""
    NEEDS_HOST = "needs_host"
    """It is installed in its own folder, from which this process imports nothing."""
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
    """Its plugin host prints and logs too much; it stays loaded."""
    UPGRADE_FAILED = "upgrade_failed"
    """Another version of it was installed but cannot be loaded; the previous one stays in use."""
    VERSION_MISMATCH = "version_mismatch"
    """This process does not have the version that the service's processes agreed on."""


_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem of one plugin, which may not be loaded because of it.

    Attributes:
        plugin: the entry point's name.
        distribution: the plugin's installed distribution.
        detail: what was found and what was expected.
        group: its entry-point group, empty if its distribution could not be read.
        version: the distribution's version, empty if the distribution could not be read.
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
    """A plugin fails a check; the loader converts this error to a `Problem`."""

    def __init__(self, code: ProblemCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = shorten_text(detail)


def shorten_text(text: str) -> str:
    """Return `text` on one line of at most `_MAX_TEXT` characters."""
    # A plugin's text may have half a surrogate pair, which cannot be encoded for answers or
    # terminals.
    line = " ".join(text[: 4 * _MAX_TEXT].encode("utf-8", "replace").decode().split())
    return line if len(line) <= _MAX_TEXT else line[: _MAX_TEXT - 1] + "…"


def describe_error(error: BaseException) -> str:
    """Return an error's type and text."""
    try:
        text = str(error)
    except Exception:  # a hostile __str__ must not stop the start
        text = ""
    name = type(error).__name__
    return shorten_text(f"{name}: {text}" if text else name)
