"""Chinese Checkers: retrograde analysis on bitboards."""
