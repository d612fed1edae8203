"""One pass of the retrograde analysis of Chinese Checkers, as a JAX program over rows of the table.

The numbering of the positions is that of `checkers_ranking`. A table is [rows, words] uint32, two bits a
column from the lowest bits on. With the opponent's pieces fixed, which is a row, all the moves of the player to
move stay among the columns of that row. So a pass

1. fetches, for each column, the value of the position that the player leaves behind by moving there
   (`_successors`); this is the only random access to the table, one for each position;
2. collects, for each set of all but one of the player's pieces, the cells where the last piece would be in a
   wanted position: a bitboard (`_wanted_cells`);
3. finds from which cells the last piece can get to one of those, for all cells together (`_hits`);
4. combines these answers for the pieces of each position (`_any_piece`).

Everything is vectorised over the rows of a call, which are the last axis of all arrays: then the sets that 2 and
4 look up are at the same place for every row, and a look-up is a load of neighbouring words.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs import checkers_ranking as numbering
from azjax.envs.checkers_ranking import Ranking
from azjax.envs.chinese_checkers import ChineseCheckers

OPEN, LOSS, WIN, ILLEGAL = range(4)  # for the player to move; what is open in the end is a draw
PER_WORD = 16  # positions in a word of the table
_LOW_BITS = np.uint32(0x55555555)  # of every position in a word


class Plan(NamedTuple):
    """The tables that a pass works with. Places are cells counted among those the opponent leaves free."""

    row_code: np.ndarray  # [ranks] as in `Ranking`
    members: np.ndarray  # [pieces, columns] the places of the player's pieces
    rest: np.ndarray  # [pieces, columns] the number of the set that remains without each piece
    rest_members: np.ndarray  # [pieces - 1, rests] the places of these sets
    column: np.ndarray  # [places, rests] the column of the set with a piece more; `columns` if it is there


def make_plan(ranking: Ranking) -> Plan:
    """The tables for a board; all int32."""
    places = ranking.cells - ranking.pieces
    members = numbering.sets_in_order(places, ranking.pieces)
    rests = numbering.sets_in_order(places, ranking.pieces - 1)
    rest = [numbering.ranks_of_sets(np.delete(members, i, axis=1)) for i in range(ranking.pieces)]
    column = np.full((places, len(rests)), ranking.columns, np.int32)
    for i in range(ranking.pieces):
        column[members[:, i], rest[i]] = np.arange(ranking.columns)
    return Plan(
        row_code=ranking.row_code,
        members=np.ascontiguousarray(members.T),
        rest=np.stack(rest),
        rest_members=np.ascontiguousarray(rests.T),
        column=column,
    )


class Boards(NamedTuple):
    """What a pass needs to know of some rows, which are the last axis. Bits are those of a `_Lattice`."""

    theirs: np.ndarray  # [words, rows] uint32, the opponent's pieces
    place_bits: np.ndarray  # [words, places, rows] uint32, the cell of each place
    ways: np.ndarray  # [pieces, places, rows] int32, what a piece adds to the rank of the player's set
    movers: np.ndarray  # [2, pieces, rows] uint32, the opponent's cells as seen by the opponent; and mirrored
    below: np.ndarray  # [2, words, pieces, rows] uint32, the cells that the opponent sees below each of them


def boards_of(game: ChineseCheckers, rows: np.ndarray) -> Boards:
    """The boards of rows [rows]; on the host."""
    ranking, lattice = numbering.ranking_of(game), _lattice(game.size)
    cells = np.arange(ranking.cells)
    opponents = ranking.sets[ranking.stored[rows]].T  # [pieces, rows]
    theirs = ranking.cells - 1 - opponents
    is_taken = (cells[:, None, None] == theirs).any(axis=1)  # [cells, rows]
    free = np.argsort(is_taken, axis=0, kind="stable")[: ranking.cells - ranking.pieces]  # [places, rows]
    movers = np.stack([opponents, np.sort(ranking.mirror[opponents], axis=0)])
    turned = ranking.cells - 1 - cells
    below = np.stack([turned, ranking.mirror[turned]], axis=1)[..., None, None] < movers  # [cells, 2, ...]
    bits = lattice.bit_tables  # [words, cells]
    return Boards(
        theirs=np.bitwise_or.reduce(bits[:, theirs], axis=1),
        place_bits=bits[:, free],
        ways=np.stack([ways[free] for ways in numbering.binomials(ranking.cells, ranking.pieces + 1).T[1:]]),
        movers=movers.astype(np.uint32),
        below=np.einsum("wc,cmpr->mwpr", bits, below, dtype=np.uint32),
    )


def first_rows(game: ChineseCheckers, as_published: bool, rows: jax.Array) -> jax.Array:
    """[rows, words] uint32, what is known before the first pass: illegal positions and finished games.

    Args:
      game: the rules.
      as_published: see `azjax.solvers.checkers.solver.make_solver`.
      rows: [rows] int32, which rows of the table.
    """
    ranking = numbering.ranking_of(game)
    start = numbering.pieces_of(game, game.init(jax.random.key(0)))
    either_home = start[0] | start[1]

    def code(row: jax.Array, column: jax.Array) -> jax.Array:
        mine, theirs = numbering.unrank(ranking, jnp.asarray(ranking.stored)[row], column)
        x = numbering.state_of(game, mine, theirs, jnp.int32(0))
        # A position that is illegal with either player to move is so for its closed tip. If it is illegal only
        # with the opponent to move, then because the opponent has won.
        lost = game.is_illegal(x._replace(current_player=jnp.int32(1)))
        known = jnp.where(game.is_illegal(x), ILLEGAL, jnp.where(lost, LOSS, OPEN))
        if as_published:
            return jnp.where((known == ILLEGAL) & ~jnp.any(mine & either_home), OPEN, known)
        return known

    def codes(row: jax.Array) -> jax.Array:
        return jax.vmap(code, (None, 0))(row, jnp.arange(ranking.columns))

    # Row by row: all cells of many positions at once would take much memory.
    return _pack(jax.lax.map(codes, rows), padding=ILLEGAL)


def next_rows(
    game: ChineseCheckers,
    stuck_loses: bool,
    plan: Plan,
    table: jax.Array,
    boards: Boards,
    before: jax.Array,
    layer: jax.Array,
) -> jax.Array:
    """[rows, words] uint32, some rows of the table after pass number `layer`.

    Args:
      stuck_loses: whether a player without a forward move has lost, in a forward-only game.
      table: [all rows, words] uint32, after the pass before.
      boards: of some rows.
      before: [rows, words] uint32, these rows of the table.
      layer: [] int32; an odd pass finds wins, an even one losses.
    """
    wins = layer % 2 == 1
    lattice, occupied = _lattice(game.size), _occupied(plan, boards)
    codes = _successors(plan, boards, table)

    def can_reach(is_wanted: jax.Array, forward_only: bool) -> jax.Array:
        wanted = _wanted_cells(plan, boards, is_wanted)
        return _any_piece(plan, boards, _hits(lattice, occupied, wanted, forward_only))

    # A win is proven by a lost position to move into; a loss, if nothing but won ones can be moved into.
    is_wanted = (codes == LOSS) | (codes == OPEN) & ~wins
    hit = can_reach(is_wanted, game.forward_only)
    if game.forward_only and not stuck_loses:
        hit |= ~can_reach(codes != ILLEGAL, forward_only=True) & can_reach(is_wanted, forward_only=False)
    proven = _pack((hit == wins).T, padding=0)
    still_open = ~(before | before >> 1) & _LOW_BITS
    return before | (proven & still_open) << wins.astype(jnp.uint32)  # LOSS is 1, WIN is 2


class _Lattice(NamedTuple):
    """A board as bits in words. Cells that chains of hops can join share a word."""

    words: int
    word: np.ndarray  # [cells]
    bit: np.ndarray  # [cells] uint32, 0 to 31
    chains: list[list[int]]  # the cells in classes: hops never lead from one to another
    hops: list[tuple[int, int, int]]  # the two ends and the cell between them, every hop once
    neighbours: list[list[int]]
    row: np.ndarray  # [cells] how far from the top

    def mask(self, cells: list[int]) -> list[np.uint32]:
        """The set of some cells, as words."""
        bits = [0] * self.words
        for cell in cells:
            bits[self.word[cell]] |= 1 << int(self.bit[cell])
        return [np.uint32(word) for word in bits]

    @property
    def bit_tables(self) -> np.ndarray:
        """[words, cells] uint32, the set of each single cell."""
        return np.where(self.word == np.arange(self.words)[:, None], np.uint32(1) << self.bit, np.uint32(0))


@functools.cache
def _lattice(size: int) -> _Lattice:
    places = list(np.ndindex(size, size))  # (y, x) of every cell
    cell_at = {place: cell for cell, place in enumerate(places)}
    directions = _directions(ChineseCheckers(size, 1), places)

    def beside(cell: int, direction: tuple[int, int], times: int) -> int | None:
        (y, x), (dy, dx) = places[cell], direction
        return cell_at.get((y + times * dy, x + times * dx))

    neighbours = [[beside(cell, d, 1) for d in directions] for cell in range(size**2)]
    hops = [(cell, beside(cell, d, 1), beside(cell, d, 2)) for cell in range(size**2) for d in directions]
    chains = [[cell_at[y, x] for y, x in places if (y % 2, x % 2) == odd] for odd in np.ndindex(2, 2)]
    word, bit, used = np.zeros(size**2, np.int32), np.zeros(size**2, np.uint32), []
    for cells in chains:
        fitting = [i for i, number in enumerate(used) if number + len(cells) <= 32]
        if not fitting:
            fitting, used = [len(used)], [*used, 0]
        word[cells], bit[cells] = fitting[0], used[fitting[0]] + np.arange(len(cells))
        used[fitting[0]] += len(cells)
    return _Lattice(
        words=len(used),
        word=word,
        bit=bit,
        chains=chains,
        hops=[hop for hop in hops if hop[2] is not None and hop[0] < hop[2]],
        neighbours=[[cell for cell in cells if cell is not None] for cells in neighbours],
        row=np.array([y + x for y, x in places]),
    )


def _directions(game: ChineseCheckers, places: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The steps (dy, dx) of the game: its moves that are not by even steps, as hops are."""
    ends = np.array(places)[game.image_index[game.moves]]  # [actions, 2, 2]
    return {(dy, dx) for dy, dx in (ends[:, 1] - ends[:, 0]).tolist() if dy % 2 or dx % 2}


def _occupied(plan: Plan, boards: Boards) -> list[jax.Array]:
    """Words of [rests, rows]: the cells of the opponent and of all but one of the player's pieces."""
    rests = plan.column.shape[1]
    empty = [jnp.broadcast_to(word, (rests, *word.shape)) for word in boards.theirs]

    def add_piece(words, member):
        return [word | bits[member] for word, bits in zip(words, boards.place_bits)]

    return _fold(add_piece, empty, plan.rest_members)


def _successors(plan: Plan, boards: Boards, table: jax.Array) -> jax.Array:
    """[columns, rows] uint32, the values, for the opponent, of the positions that the player moves into.

    Such a position is turned, so that the opponent moves down: the opponent's cells as seen by the opponent are
    then those of the player to move, and its rank is that of the player's cells as they are. It may be
    stored as its mirror image.
    """
    shape = plan.members.shape[1], boards.theirs.shape[1]

    def add_piece(sums, piece):
        (rank, pieces), (member, ways) = sums, piece
        return rank + ways[member], [w | bits[member] for w, bits in zip(pieces, boards.place_bits)]

    none = jnp.zeros(shape, jnp.int32), [jnp.zeros(shape, jnp.uint32)] * len(boards.place_bits)
    rank, pieces = _fold(add_piece, none, (plan.members, boards.ways))
    row_code = plan.row_code[rank]

    def number_column(column, image):
        is_mirrored, movers, below = image  # of the one or of the other image
        own = 0
        for i in range(len(plan.members)):
            # The place of a piece is its cell, less the cells below it that the other player holds.
            held = [jax.lax.population_count(word & cells[i]) for word, cells in zip(pieces, below)]
            own += _choose(movers[i] - functools.reduce(operator.add, held), i + 1)
        return jnp.where(row_code & 1 == is_mirrored, own, column)

    images = jnp.arange(2), boards.movers, boards.below
    column = _fold(number_column, jnp.zeros(shape, jnp.uint32), images)
    words = table[row_code >> 1, (column // PER_WORD).astype(jnp.int32)]
    return words >> 2 * (column % PER_WORD) & 3


def _choose(things: jax.Array, number: int) -> jax.Array:
    """The ways to choose a number of things, uint32; by arithmetic, which is faster than looking them up."""
    ways = things
    for i in range(1, number):
        ways = jax.lax.div(ways * (things - np.uint32(i)), np.uint32(i + 1))
    return ways


def _wanted_cells(plan: Plan, boards: Boards, is_wanted: jax.Array) -> list[jax.Array]:
    """Words of [rests, rows]: where one more piece makes a set for which `is_wanted` [columns, rows] holds."""
    flags = jnp.where(is_wanted, ~np.uint32(0), np.uint32(0))
    flags = jnp.pad(flags, ((0, 1), (0, 0)))  # two pieces on one cell are never wanted

    def add_place(words, place):
        column, *bits = place
        flag = flags[column]
        return [word | flag & bit for word, bit in zip(words, bits)]

    none = [jnp.zeros((plan.column.shape[1], flags.shape[1]), jnp.uint32)] * len(boards.place_bits)
    return _fold(add_place, none, (plan.column, *boards.place_bits))


def _hits(
    lattice: _Lattice, occupied: list[jax.Array], wanted: list[jax.Array], forward_only: bool
) -> list[jax.Array]:
    """Words of [rests, rows]: the empty cells from which one move leads to a wanted one."""
    joined = _joined_by_hops(lattice, occupied)
    hits = [jnp.zeros_like(word) for word in wanted]
    for cell in range(len(joined)):
        goals = [c for c in range(len(joined)) if c != cell]
        if forward_only:
            goals = [c for c in goals if lattice.row[c] >= lattice.row[cell]]
        word, steps = lattice.word[cell], lattice.mask([c for c in lattice.neighbours[cell] if c in goals])
        ends = joined[cell] & lattice.mask(goals)[word]
        found = functools.reduce(
            operator.or_,
            (
                want & (ends | step if i == word else step)
                for i, (want, step) in enumerate(zip(wanted, steps))
            ),
        )
        hits[word] |= jnp.where(found != 0, np.uint32(1) << lattice.bit[cell], np.uint32(0))
    return hits


def _joined_by_hops(lattice: _Lattice, occupied: list[jax.Array]) -> list[jax.Array]:
    """For each cell, the set of empty cells that hops lead to: the cell's own word, of the shape of `occupied`.

    Hops lead back as they lead forth, and a piece never hops over a cell that it could land on itself. So
    it does not matter that the piece which moves is not among the occupied ones.
    """
    taken = [occupied[lattice.word[cell]] >> bit & 1 for cell, bit in enumerate(lattice.bit)]
    joined = [jnp.zeros_like(occupied[0])] * len(taken)
    for one, over, other in lattice.hops:
        is_open = taken[over] & ~(taken[one] | taken[other])
        joined[one] |= is_open << lattice.bit[other]
        joined[other] |= is_open << lattice.bit[one]
    for cells in lattice.chains:  # chains of hops, by Warshall's algorithm
        for middle in cells:
            for start in cells:
                if start != middle:
                    leads_there = -(joined[start] >> lattice.bit[middle] & 1)  # all bits or none
                    joined[start] |= leads_there & joined[middle]
    return joined


def _any_piece(plan: Plan, boards: Boards, hits: list[jax.Array]) -> jax.Array:
    """[columns, rows] bool, whether any of the player's pieces stands on one of the `hits` of the others."""

    def add_piece(found, piece):
        member, rest = piece
        hit = [word[rest] & bits[member] for word, bits in zip(hits, boards.place_bits)]
        return functools.reduce(operator.or_, hit, found)

    none = jnp.zeros((plan.members.shape[1], hits[0].shape[1]), jnp.uint32)
    return _fold(add_piece, none, (plan.members, plan.rest)) != 0


def _fold(function: Callable, start: Any, items: Any) -> Any:
    """Folds items, the leading axis of arrays, into a value.

    A loop, for two reasons: whatever the function looks things up in is computed once before it, whereas XLA would
    merge it into every look-up and compute it anew each time; and the program stays small.
    """
    return jax.lax.scan(lambda value, item: (function(value, item), None), start, items)[0]


def _pack(codes: jax.Array, padding: int) -> jax.Array:
    """[rows, words] uint32, from two bits per position [rows, columns]; fills up the last words."""
    rows, columns = codes.shape
    missing = -columns % PER_WORD
    codes = jnp.pad(codes.astype(jnp.uint32), ((0, 0), (0, missing)), constant_values=padding)
    places = 2 * jnp.arange(PER_WORD, dtype=jnp.uint32)
    return jnp.sum(codes.reshape(rows, -1, PER_WORD) << places, axis=-1, dtype=jnp.uint32)
