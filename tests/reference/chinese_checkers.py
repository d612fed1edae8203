"""Two-player Chinese Checkers on a diamond, slow and obvious: dictionaries, loops, one position at a time.

Cells are numbered row by row from the top tip. A board is a tuple of '.', 'a' and 'b', and everything is
found by trying it out on a copy.
"""

HEXAGON = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)]
HOME_CELLS = {1: [0], 2: [0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 4], 6: [0, 1, 2, 3, 4, 5], 10: list(range(10))}


class Rules:
    """Boards, moves and results of one size and number of pieces."""

    def __init__(self, size, pieces, forward_only=False):
        self.forward_only = forward_only
        self.pieces = pieces
        self.place = []
        for row in range(2 * size - 1):
            for x in range(size):
                if 0 <= row - x < size:
                    self.place.append((x, row - x))
        self.number = {place: cell for cell, place in enumerate(self.place)}
        self.row = [x + y for x, y in self.place]
        last = size * size - 1
        self.home = {"a": HOME_CELLS[pieces], "b": [last - cell for cell in HOME_CELLS[pieces]]}
        self.goal = {"a": self.home["b"], "b": self.home["a"]}
        # The outer edges of the two triangles of six, without their tips.
        self.tip = {"a": 0, "b": last}
        self.edges = {"a": [1, 2, 3, 5], "b": [last - 1, last - 2, last - 3, last - 5]}

    def start(self):
        board = ["."] * len(self.place)
        for player in "ab":
            for cell in self.home[player]:
                board[cell] = player
        return tuple(board), "a"

    def has_won(self, board, player):
        """The goal is full, and at least one of the pieces there is the player's own."""
        there = [board[cell] for cell in self.goal[player]]
        return "." not in there and player in there

    def is_illegal(self, board, to_move):
        if self.has_won(board, to_move):
            return True
        if self.pieces == 6:
            for owner in "ab":
                if board[self.tip[owner]] == "." and all(board[cell] == owner for cell in self.edges[owner]):
                    return True
        return False

    def ends(self, board, start):
        """All cells that the piece on `start` reaches by one step or a chain of hops."""
        x, y = self.place[start]
        found = set()
        for dx, dy in HEXAGON:
            near = self.number.get((x + dx, y + dy))
            if near is not None and board[near] == ".":
                found.add(near)
        landed, to_visit = set(), [start]
        while to_visit:
            x, y = self.place[to_visit.pop()]
            for dx, dy in HEXAGON:
                over = self.number.get((x + dx, y + dy))
                behind = self.number.get((x + 2 * dx, y + 2 * dy))
                if over is None or behind is None or over == start:
                    continue
                if board[over] != "." and board[behind] == "." and behind not in landed:
                    landed.add(behind)
                    to_visit.append(behind)
        return found | landed

    def reachable_moves(self, board, player):
        return [
            (start, end)
            for start in range(len(board))
            if board[start] == player
            for end in sorted(self.ends(board, start))
        ]

    def moved(self, board, start, end):
        after = list(board)
        after[start], after[end] = ".", board[start]
        return tuple(after)

    def is_forward(self, player, start, end):
        if player == "a":
            return self.row[end] >= self.row[start]
        return self.row[end] <= self.row[start]

    def legal_moves(self, board, player):
        """The moves of a position in which the game is not yet won."""
        other = "b" if player == "a" else "a"
        moves = [
            (start, end)
            for start, end in self.reachable_moves(board, player)
            if not self.is_illegal(self.moved(board, start, end), other)
        ]
        if self.forward_only:
            forward = [move for move in moves if self.is_forward(player, *move)]
            return forward or moves
        return moves


class Match:
    """One game: the board, who is to move with which moves, and whether and how it has ended."""

    def __init__(self, rules, repetitions=None, max_plies=100):
        self.rules, self.repetitions, self.max_plies = rules, repetitions, max_plies
        self.board, self.player = rules.start()
        self.moves = rules.legal_moves(self.board, self.player)
        self.earlier_boards = []
        self.result = None  # 'a', 'b' or 'draw' at the end

    def play(self, start, end):
        mover = self.player
        self.earlier_boards.append(self.board)
        self.board = self.rules.moved(self.board, start, end)
        self.player = "b" if mover == "a" else "a"
        self.moves = self.rules.legal_moves(self.board, self.player)
        seen_before = self.earlier_boards.count(self.board)
        if self.rules.has_won(self.board, mover) or not self.moves:
            self.result = mover
        elif self.repetitions is not None and seen_before > self.repetitions:
            self.result = "draw"
        elif len(self.earlier_boards) >= self.max_plies:
            self.result = "draw"
