"""What is trusted with the money: guardrails, transactions, keys, the ledger, their tables.

It imports no plugin, agent, server or model vendor.
"""
