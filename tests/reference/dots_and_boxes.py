"""Dots and Boxes the slow and obvious way: sets of dots and dictionaries, one line at a time.

Shares nothing with the JAX rules. A dot is (row, column), a line the frozenset of its two dots, a box its
upper left dot.
"""

import functools
from collections import Counter


class DotsAndBoxes:
    """One game in progress."""

    def __init__(self, rows: int, columns: int):
        self.rows, self.columns = rows, columns
        self.drawn = set()
        self.owner = {}  # box -> player
        self.mover = 0

    def lines(self) -> list[frozenset]:
        """All lines in the order of their numbers: horizontal row by row, then vertical row by row."""
        return all_lines(self.rows, self.columns)

    def boxes(self) -> list[tuple[int, int]]:
        """All boxes, row by row."""
        return [(r, c) for r in range(self.rows) for c in range(self.columns)]

    def sides(self, box: tuple[int, int]) -> list[frozenset]:
        """The four lines around a box."""
        r, c = box
        corners = [(r, c), (r, c + 1), (r + 1, c + 1), (r + 1, c)]
        return [line(corners[i], corners[(i + 1) % 4]) for i in range(4)]

    def draw(self, new_line: frozenset) -> int:
        """Draws a line for the player to move; how many boxes it completed."""
        if new_line in self.drawn:
            raise ValueError(f"{sorted(new_line)} is drawn already")
        self.drawn.add(new_line)
        completed = 0
        for box in self.boxes():
            if box not in self.owner and all(side in self.drawn for side in self.sides(box)):
                self.owner[box] = self.mover
                completed += 1
        if completed == 0:
            self.mover = 1 - self.mover
        return completed

    def is_over(self) -> bool:
        """Whether every line is drawn."""
        return all(one in self.drawn for one in self.lines())

    def score(self, player: int) -> int:
        """The boxes of a player."""
        return list(self.owner.values()).count(player)


def line(first: tuple[int, int], second: tuple[int, int]) -> frozenset:
    """The line between two dots."""
    return frozenset([first, second])


@functools.cache
def all_lines(rows: int, columns: int) -> list[frozenset]:
    """All lines in the order of their numbers."""
    across = [line((r, c), (r, c + 1)) for r in range(rows + 1) for c in range(columns)]
    down = [line((r, c), (r + 1, c)) for r in range(rows) for c in range(columns + 1)]
    return across + down


def random_margins(rows: int, columns: int, drawn: frozenset = frozenset()) -> dict[int, float]:
    """The exact distribution of boxes won from here minus boxes lost, for the player to move at random."""
    game = DotsAndBoxes(rows, columns)
    everything = frozenset(game.lines())

    def completed_by(lines: frozenset, new_line: frozenset) -> int:
        after = lines | {new_line}
        return sum(new_line in game.sides(box) and after.issuperset(game.sides(box)) for box in game.boxes())

    @functools.cache
    def distribution(lines: frozenset) -> dict[int, float]:
        open_lines = everything - lines
        if not open_lines:
            return {0: 1.0}
        total = Counter()
        for new_line in open_lines:
            gain = completed_by(lines, new_line)
            for margin, probability in distribution(lines | {new_line}).items():
                total[gain + margin if gain else -margin] += probability / len(open_lines)
        return dict(total)

    return distribution(drawn)


def perft(game: DotsAndBoxes, plies: int) -> Counter:
    """How often each (player to move, boxes of A, boxes of B) ends a sequence of `plies` lines."""
    if plies == 0:
        return Counter([(game.mover, game.score(0), game.score(1))])
    total = Counter()
    for new_line in game.lines():
        if new_line not in game.drawn:
            after = DotsAndBoxes(game.rows, game.columns)
            after.drawn, after.owner, after.mover = set(game.drawn), dict(game.owner), game.mover
            after.draw(new_line)
            total += perft(after, plies - 1)
    return total
