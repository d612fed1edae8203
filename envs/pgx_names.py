"""Which games of pgx are games here. A room of its own, because importing pgx starts JAX's backend."""

# Ids of pgx with two players, perfect information and no dice. Its Hex is left out: ours has every size.
BOARD_GAMES = (
    "animal_shogi",
    "chess",
    "connect_four",
    "gardner_chess",
    "go_9x9",
    "go_19x19",
    "othello",
    "shogi",
    "tic_tac_toe",
)
