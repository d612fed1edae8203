"""The names of the presets and what they are, in the order of lists. Imports nothing, so that `azjax presets` is quick.

`azjax.training.presets` makes the quick ones, `azjax.theses` the others.
"""

_OPENINGS = {
    "baseline": "no forced openings",
    "A1": "forced one-move openings",
    "A2": "forced two-move openings",
    "A3": "forced three-move openings",
    "A123": "forced openings of one to three moves",
}

DESCRIPTIONS: dict[str, str] = (
    {
        "tic-tac-toe": "tic-tac-toe from pgx; perfect with 400 simulations in about a minute",
        "hex3": "Hex 3x3; perfect in about a minute",
        "hex5": "Hex 5x5, the main example; 99 % of a solved suite in about 10 minutes",
        "hex5-klent": "Hex 5x5 without search in self-play (Ota et al. 2026), in the time of hex5",
        "hex6": "Hex 6x6; nearly perfect with search in about 40 minutes",
        "hex9-grown": "Hex 9x9, grown from 5x5 in one run, for about four hours; not trained yet",
        "chinese-checkers-4x4": "Chinese Checkers 4x4 with 3 pieces, forward moves; nearly perfect in about 35 minutes",
        "dots-2x2": "Dots and Boxes 2x2; perfect with 400 simulations in about a minute",
        "dots-3x3": "Dots and Boxes 3x3; nearly perfect with search in about 35 minutes",
        "connect-four": "Connect Four from pgx; beats UCT with 1,000 simulations after about 9 minutes",
    }
    | {
        "accelerator/hex9": "Hex 9x9 for one TPU or GPU and more; not trained yet",
        "accelerator/hex11": "Hex 11x11 for one TPU or GPU and more; not trained yet",
        "accelerator/chinese-checkers-5x5": "Chinese Checkers 5x5 with 6 pieces, likewise",
        "accelerator/connect-four": "Connect Four from pgx, likewise",
        "accelerator/go9": "Go 9x9 from pgx, likewise",
        "accelerator/dots-5x5": "Dots and Boxes 5x5, likewise",
    }
    | {
        f"daliri2022/hex{size}-{openings}": f"Daliri 2022, Hex {size}x{size}, {described}"
        for size in (6, 8)
        for openings, described in _OPENINGS.items()
    }
    | {
        f"jacobsen2019/{name}": f"Jacobsen 2019, Hex {size}x{size}, experiment {name}"
        for size, names in ((7, "A1 A2 B1 B2 C1 C2 D1 D2 D3"), (9, "E1 F1 G1 H1 H2 H2-2400"))
        for name in names.split()
    }
    | {
        "karki2024/4x4": "Karki 2024, Chinese Checkers 4x4 with 3 pieces",
        "karki2024/5x5": "Karki 2024, Chinese Checkers 5x5 with 6 pieces",
        "peters2018/new-strategies": "Peters 2018, Dots and Boxes 3x3, from nothing",
        "peters2018/competition": "Peters 2018, Dots and Boxes 4x5, from nothing",
    }
)
