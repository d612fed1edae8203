"""Tests; also what they start in processes of their own."""

import gc

# Tracing makes objects by the million, and as it is Python looks for cycles among them after every 700.
gc.set_threshold(50_000, 10, 10)
