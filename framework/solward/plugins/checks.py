"""The checks of declarations, as they were read from a plugin; run in the service alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from solders.pubkey import Pubkey

from solward.context.operations import OperationMethods
from solward.plugins.hooks import broken
from solward.plugins.parameters import Parameters
from solward.settings.settings import allowed_for_providers, is_pools_variable
from solward.settings.vendors import ADDRESS_ENDINGS
from solward.types.errors import InvalidRequest, SkillError
from solward.types.manifest import (
    MAX_STORAGE_MB,
    PAY,
    POCKET,
    TRANSACT,
    Manifest,
    Secret,
    declared_site,
    site_of,
)
from solward.types.provider import ProviderSpec
from solward.types.skill import SkillSpec
from solward.types.venue import BEST_VENUE, VenueSpec

MAX_DESCRIPTION = 1_024
MAX_TIMEOUT_S = 600.0
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
# Of each kind in a manifest; people read it before they agree.
MAX_DECLARED = 64
# A quote moves nothing.
_OPERATIONS = {each for each in vars(OperationMethods) if not each.startswith("_")} - {"quote"}
_OPERATIONS |= {TRANSACT, POCKET, PAY}
_SYMBOL = re.compile(r"[A-Za-z0-9]{1,16}")


def check_skill(spec: SkillSpec) -> None:
    """Raises `Rejected`, naming the first field of `SkillSpec` that is out of range."""
    text = spec.description
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DESCRIPTION:
        raise broken(f"description must be text of 1 to {MAX_DESCRIPTION} characters")
    timeout = spec.timeout_s
    known = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not known or not math.isfinite(timeout) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise broken(f"timeout_s must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds")


def check_examples(spec: SkillSpec, parameters: Parameters) -> None:
    """Raises `Rejected`, naming the first example that does not fit the skill's schema."""
    for at, example in enumerate(spec.examples):
        try:
            parameters.validate(example)
        except InvalidRequest as error:
            raise broken(f"examples[{at}]: {error}") from None


def check_provider(spec: ProviderSpec, *, built_in: bool = False) -> None:
    """Raises `Rejected`, naming the first field of `ProviderSpec` that is out of range.

    Args:
        built_in: it may name Solward's own variables of vendors' addresses.
    """
    if not isinstance(spec.default_model, str) or not spec.default_model.strip():
        raise broken("default_model must name a model")
    for field in ("secret_env", "base_url_env"):
        variable = getattr(spec, field)
        if variable is not None and not built_in:
            _check_variable(field, variable, " or None", address=field == "base_url_env")
    if not isinstance(spec.is_llm, bool) or not isinstance(spec.demo, bool):
        raise broken("is_llm and demo must be True or False")


def check_venue(spec: VenueSpec, *, built_in: bool = False) -> None:
    """Raises `Rejected`, naming the first field of `VenueSpec` that is wrong.

    Args:
        built_in: it may name Solward's own variables.
    """
    if spec.name == BEST_VENUE:
        raise broken(f"name must not be {BEST_VENUE!r}, which SWAP_VENUE says of the best offer")
    if not built_in:
        for field in ("secret_env", "base_url_env"):
            variable = getattr(spec, field)
            if variable is not None:
                _check_variable(field, variable, " or None", address=field == "base_url_env")
        pools = spec.pools_env
        if pools is not None and not is_pools_variable(pools):
            raise broken(
                "pools_env must be an environment variable's name that ends in _POOLS and is not"
                " Solward's own, or None"
            )
    if spec.manifest is None:
        for field in ("secret_env", "base_url_env", "base_url"):
            if not built_in and getattr(spec, field) is not None:
                raise broken(f"{field} must be None without a manifest: then there is no network")
    if spec.base_url is None or spec.manifest is None:
        return
    try:
        target = site_of(spec.manifest, spec.base_url)
    except SkillError as error:
        raise broken(
            f"base_url must be an https:// address of one of manifest.sites: {error}"
        ) from None
    if "?" in target.path:
        raise broken("base_url must have no query")


def check_manifest(spec: SkillSpec | ProviderSpec | VenueSpec) -> None:
    """Raises `Rejected`, naming the first field of a declaration's manifest that is wrong."""
    manifest = spec.manifest
    if manifest is None:
        return
    if not isinstance(manifest, Manifest):
        raise broken("manifest must be a Manifest or None")
    for at, site in _entries("sites", manifest.sites):
        if declared_site(site) is None:
            raise broken(
                f"{at} must be a host name in lower-case ASCII (IDNA), without path, such as"
                f" api.example.com or api.example.com:8443, not {_shown(site)}"
            )
    for at, operation in _entries("operations", manifest.operations):
        if not isinstance(operation, str) or operation not in _OPERATIONS:
            known = ", ".join(sorted(_OPERATIONS))
            raise broken(f"{at} must be one of {known}; not {_shown(operation)}")
    for at, asset in _entries("assets", manifest.assets):
        if not isinstance(asset, str) or not (_SYMBOL.fullmatch(asset) or _is_address(asset)):
            raise broken(f"{at} must be a symbol or a mint's base58 address, not {_shown(asset)}")
    storage = manifest.storage_mb
    if isinstance(storage, bool) or not isinstance(storage, int):
        raise broken("manifest.storage_mb must be an integer")
    if not 0 <= storage <= MAX_STORAGE_MB:
        raise broken(f"manifest.storage_mb must be from 0 to {MAX_STORAGE_MB}, not {storage}")
    for at, secret in _entries("secrets", manifest.secrets):
        if not isinstance(secret, Secret):
            raise broken(f"{at} must be a Secret")
        _check_variable(f"{at}.env", secret.env)
        if isinstance(spec, ProviderSpec) and secret.env != spec.secret_env:
            raise broken(
                f"{at}.env must be the secret_env, {spec.secret_env}: a provider is given no other"
            )
        if not isinstance(secret.site, str) or secret.site not in manifest.sites:
            raise broken(f"{at}.site must be one of manifest.sites, not {_shown(secret.site)}")
        if not isinstance(secret.in_query, bool):
            raise broken(f"{at}.in_query must be True or False")
    key = None if isinstance(spec, SkillSpec) else spec.secret_env
    if key is not None and all(each.env != key for each in manifest.secrets):
        raise broken(
            f"manifest.secrets must name {key}, the secret_env, and the site that gets it where no"
            " address is configured"
        )
    if not isinstance(spec, SkillSpec):
        for field in ("operations", "assets"):
            if getattr(manifest, field) is not None:
                raise broken(f"manifest.{field} must be None: only a skill moves money")


def _entries(field: str, values: object) -> Iterator[tuple[str, Any]]:
    """Each entry of a manifest's tuple under its name; none for a field that is None.

    Raises:
        Rejected: it is no tuple, too long, or has an entry twice.
    """
    if values is None and field in ("operations", "assets"):
        return
    if not isinstance(values, tuple) or len(values) > MAX_DECLARED:
        raise broken(f"manifest.{field} must be a tuple of at most {MAX_DECLARED}")
    for at, value in enumerate(values):
        name = f"manifest.{field}[{at}]"
        yield name, value
        # Compared after it was checked, because values of other types may compare as they like.
        if value in values[:at]:
            raise broken(f"{name} is there twice")


def _shown(value: object) -> str:
    return repr(value)[:80] if type(value) is str else type(value).__name__


def _is_address(text: str) -> bool:
    try:
        Pubkey.from_string(text)
    except ValueError:
        return False
    return True


def _check_variable(
    field: str, variable: object, otherwise: str = "", *, address: bool = False
) -> None:
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
        raise broken(f"{field} must be an environment variable's name{otherwise}")
    if allowed_for_providers(variable, address=address):
        return
    endings = "_BASE_URL, _API_BASE or _URL"
    if address and not variable.endswith(ADDRESS_ENDINGS):
        raise broken(f"{field} must not be {variable}: an address's name ends in {endings}")
    if not address and allowed_for_providers(variable, address=True):
        raise broken(f"{field} must not be {variable}: what ends in {endings} is an address")
    raise broken(f"{field} must not be {variable}, which is Solward's own")
