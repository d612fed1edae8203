"""Faults seeded one at a time, to see whether the tests notice: `python -m tests.faults`."""
