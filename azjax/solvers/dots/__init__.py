"""Dots and Boxes: tables, chains, and alpha-beta."""
