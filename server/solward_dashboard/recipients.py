"""What a field of a recipient says and completes; pure."""

from __future__ import annotations

from typing import Final

from solward.types.recipient_names import RecipientNames

HINT: Final = "An address, or the name of a wallet or a contact."
"""What a recipient may be given as."""

# Names that an input completes: each is sent to the browser.
_MOST_SUGGESTED = 500


def suggested(recipients: RecipientNames) -> list[str]:
    """Names in their order, the first of them where there are many."""
    return sorted(recipients.names)[:_MOST_SUGGESTED]
