"""`solward freeze` and `solward unfreeze`: the switch that stops every new transaction."""

from __future__ import annotations

from solward.resources.service import FREEZE, LIST_FROZEN, UNFREEZE, Frozen, Switch
from solward_cli.declared import asks
from solward_cli.render import Output, answer_table, moment, plain, together, visible


def _switch(switch: Switch) -> Output:
    what = "The service" if switch.wallet_id is None else f"The wallet {switch.wallet_id}"
    return plain(f"{what} is {'frozen' if switch.frozen else 'not frozen'}.")


def _frozen(found: Frozen) -> Output:
    service = "The service is not frozen."
    if found.since is not None:
        why = f": {visible(found.reason)}" if found.reason else ""
        service = f"The service is frozen since {moment(found.since)} UTC{why}"
    none = "No wallet is frozen by itself."
    cells = (("WALLET", lambda each: each.name), "since", "reason")
    wallets = answer_table(found.wallets, *cells, empty=none)
    more = found.frozen_wallets - len(found.wallets)
    return together(plain(service), wallets, *([plain(f"and {more} more wallets")] if more else []))


freeze = asks(
    None,
    FREEZE,
    "Stop every new transaction at once, until `unfreeze`; it needs the admin secret.",
    _switch,
)
unfreeze = asks(
    None,
    UNFREEZE,
    "Allow transactions again; the service's switch and a wallet's are two.",
    _switch,
)
frozen = asks(
    None,
    LIST_FROZEN,
    "Say what is frozen, since when and why; it needs the admin secret.",
    _frozen,
)
