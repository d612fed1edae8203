"""Judges: matches between agents, and agents against the truth."""
