"""Schedules: a skill runs on a wallet at times, without a model."""
