"""Webhooks and alerts: what is told to receivers, signed and repeated until they have it."""
