"""The code that is trusted with the money: guardrails, transactions, keys, ledger and tables.

It imports no plugin, agent, server or model vendor.
"""
