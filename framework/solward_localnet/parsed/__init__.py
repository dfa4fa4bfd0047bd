"""Account data and instructions in the shapes of Agave's `jsonParsed` encoding.

The shapes follow `account-decoder` and `transaction-status` of anza-xyz/agave. What has no parser
raises `Unparsable`; the caller then falls back as Agave does (base64, or a partially decoded
instruction).
"""
