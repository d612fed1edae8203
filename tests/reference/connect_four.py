"""Connect Four the slow way: columns as lists, four in a row looked for from every stone, plain minimax."""

COLUMNS, ROWS = 7, 6
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


def play(moves):
    """The columns, lists of the players 0 and 1 from the bottom up, after moves by column from 0."""
    columns = [[] for _ in range(COLUMNS)]
    for ply, column in enumerate(moves):
        columns[column].append(ply % 2)
    return columns


def has_four(columns):
    stones = {
        (column, row): player for column, stack in enumerate(columns) for row, player in enumerate(stack)
    }
    return any(
        all(stones.get((column + i * across, row + i * up)) == player for i in range(4))
        for (column, row), player in stones.items()
        for across, up in DIRECTIONS
    )


def free(columns):
    return [column for column in range(COLUMNS) if len(columns[column]) < ROWS]


def move_plies(columns):
    """By column: the outcome for who plays there, 1, 0 or -1, and the plies to the end, won soon and lost late."""
    found = {}
    for column in free(columns):
        player = sum(map(len, columns)) % 2
        columns[column].append(player)
        if has_four(columns):
            found[column] = (1, 1)
        elif not free(columns):
            found[column] = (0, 1)
        else:
            outcome, plies = best(move_plies(columns).values())
            found[column] = (-outcome, plies + 1)
        columns[column].pop()
    return found


def best(results):
    """The best of (outcome, plies): quick wins, then draws, then slow losses."""
    return max(results, key=lambda result: (result[0], -result[0] * result[1]))
