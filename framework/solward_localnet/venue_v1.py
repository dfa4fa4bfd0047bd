"""Nothing any more: the calls of version 1 of the Jupiter Swap API are not served."""
