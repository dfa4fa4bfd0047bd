"""Methods that only tests may call: they let time pass."""

from solward_localnet.errors import invalid_params
from solward_localnet.ledger import LocalLedger
from solward_localnet.params import Params, integer_at

MAX_SLOTS = 100_000_000


def advance_slots(ledger: LocalLedger, params: Params) -> int:
    """Let slots pass at once; the slot after it."""
    slots = integer_at(params, 0)
    if slots > MAX_SLOTS:
        raise invalid_params(f"Invalid param: at most {MAX_SLOTS} slots at once, not {slots}")
    ledger.skip(slots)
    return ledger.chain.slot


def advance_epochs(ledger: LocalLedger, params: Params) -> int:
    """Go to the first slot of the epoch so many from now; the slot after it."""
    epochs = integer_at(params, 0)
    chain = ledger.chain
    target = (chain.epoch + epochs) * chain.slots_per_epoch
    return advance_slots(ledger, [max(0, target - chain.slot)])


METHODS = {"solward_advanceSlots": advance_slots, "solward_advanceEpochs": advance_epochs}
