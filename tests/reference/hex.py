"""Hex the slow way: stones in a dictionary, chains by flood fill, everything worked out anew when asked.

Cells are (row, column) from the top left. Black joins top and bottom, White left and right.
"""

SWAP = "swap"
BLACK, WHITE = 0, 1


class HexGame:
    def __init__(self, size, swap=False):
        self.size = size
        self.swap = swap
        self.stones = {}
        self.to_move = BLACK
        self.moves = []

    def copy(self):
        twin = HexGame(self.size, self.swap)
        twin.stones = dict(self.stones)
        twin.to_move = self.to_move
        twin.moves = list(self.moves)
        return twin

    def cells(self):
        return [(row, column) for row in range(self.size) for column in range(self.size)]

    def neighbours(self, cell):
        row, column = cell
        candidates = [
            (row, column - 1),
            (row, column + 1),
            (row - 1, column),
            (row + 1, column),
            (row - 1, column + 1),
            (row + 1, column - 1),
        ]
        return [(r, c) for r, c in candidates if 0 <= r < self.size and 0 <= c < self.size]

    def side(self, name):
        last = self.size - 1
        return {
            "top": [(0, i) for i in range(self.size)],
            "bottom": [(last, i) for i in range(self.size)],
            "left": [(i, 0) for i in range(self.size)],
            "right": [(i, last) for i in range(self.size)],
        }[name]

    def connected_to(self, name):
        """The stones, of the side's owner, that hang together with the side called `name`."""
        colour = BLACK if name in ("top", "bottom") else WHITE
        found = [cell for cell in self.side(name) if self.stones.get(cell) == colour]
        seen = set(found)
        while found:
            for cell in self.neighbours(found.pop()):
                if self.stones.get(cell) == colour and cell not in seen:
                    seen.add(cell)
                    found.append(cell)
        return seen

    def winner(self):
        if self.connected_to("top") & set(self.side("bottom")):
            return BLACK
        if self.connected_to("left") & set(self.side("right")):
            return WHITE
        return None

    def legal_moves(self):
        if self.winner() is not None:
            return []
        moves = [cell for cell in self.cells() if cell not in self.stones]
        if self.swap and len(self.moves) == 1:
            moves.append(SWAP)
        return moves

    def play(self, move):
        if move not in self.legal_moves():
            raise ValueError(f"{move} is not legal")
        if move == SWAP:
            ((row, column),) = self.stones
            self.stones = {(column, row): WHITE}
        else:
            self.stones[move] = self.to_move
        self.to_move = 1 - self.to_move
        self.moves.append(move)
