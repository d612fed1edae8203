"""The board in the browser: the page that `azjax serve` opens, the analysis protocol, and the notebook's board.

A position comes in as plain data (a game, a start, moves) and goes out as plain data: what stands where, what is
legal, and what network, search and solver think of it. Nothing is remembered between two requests but caches. The
page and the notebook draw with the same module, `static/board.js`, which knows no game: `layouts` tells it where the
places of a board are and which of them an action is about.
"""
