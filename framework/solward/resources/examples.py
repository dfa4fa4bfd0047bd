"""The ids and times that the examples of resources share."""

from __future__ import annotations

WALLET = "e05136c2-0095-4472-9b84-19b9e354eeee"
ADDRESS = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
HOLD = "3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18"
TRANSACTION = "0d3c3a35-0b8e-4f2c-8f0a-5e2b4b8a5f10"
AGENT = "b9f18163-42c5-477e-9824-368184e65079"
KEY = "07e36977-7335-4ac1-bc2f-a8d680f0aec2"
CREDENTIAL = "5c0e7c1d-6f0b-4f35-8a53-f6c5f60a4f0e"
SCHEDULE = "5b0d0f4e-2f53-4f0e-9a55-1f6a0d8c7b21"
MADE = "2026-11-21T10:34:55.814Z"
