"""Webhooks for holds and alerts: signed, and repeated until the receiver has them."""
