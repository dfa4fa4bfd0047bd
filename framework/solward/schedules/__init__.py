"""Schedules: run a skill on a wallet at given times, without a model."""
