"""Hex: tables up to 4x4, beyond by proof-number search with virtual connections."""
