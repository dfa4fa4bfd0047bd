"""Webhooks for holds and alerts; deliveries are signed, and repeated until the receiver accepts."""
