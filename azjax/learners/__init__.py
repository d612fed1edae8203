"""The other ways to learn a game: TD(lambda), evolution strategies."""
