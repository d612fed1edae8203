"""A conformance check for games: run it on your own before you train on it.

from azjax.testing import check_game
check_game(MyGame(size=5))
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from azjax.envs.core import (
    Game,
    GameError,
    GameState,
    MoveError,
    PositionError,
    random_action,
    unwrapped,
)

if TYPE_CHECKING:
    from azjax.envs import Env


class ConformanceError(AssertionError):
    """A game broke a promise of `azjax.envs.core.Game`; the message says which, and where."""


def check_game(game: "Game | Env", games: int = 16, seed: int = 0) -> None:
    """Plays random games and checks every promise a game makes.

    Shapes and types stay fixed; jit changes nothing; vmap equals a loop; nothing is traced twice; masks,
    terminal flags, rewards and players agree with each other; terminal positions absorb; symmetries and
    frames are permutations that commute with play; moves and positions survive their notation.

    Args:
      game: a game, or an environment (whose game is checked).
      games: how many random games to play.
      seed: of the random games.

    Raises:
      ConformanceError: at the first broken promise.
    """
    game = unwrapped(game)
    key = jax.random.key(seed)
    _check_declarations(game)
    _check_shapes(game)
    positions, actions = _random_games(game, games, key)
    _check_every_position(game, positions)
    _check_transitions(game, positions, actions)
    _check_transformations(game, positions, actions)
    _check_symmetries(game, actions)
    _check_notation(game, positions)


def _require(condition: Any, message: str) -> None:
    if not bool(np.all(condition)):
        raise ConformanceError(message)


def _same(a: Any, b: Any) -> bool:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b))
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in map(_as_numpy, leaves))


def _as_numpy(pair):
    return tuple(
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in pair
    )


def _on_host(positions: GameState) -> GameState:
    """In NumPy, where taking one of many is not compiled for every shape; keys stay as they are."""
    return jax.tree.map(
        lambda s: s if jnp.issubdtype(s.dtype, jax.dtypes.prng_key) else np.asarray(s), positions
    )


def _at(positions: GameState, lane: int, ply: int) -> GameState:
    return jax.tree.map(lambda s: s[lane, ply], positions)


def _check_declarations(game: Game) -> None:
    for field in (
        "name",
        "version",
        "num_actions",
        "observation_shape",
        "max_plies",
        "symmetries",
        "action_frames",
    ):
        _require(hasattr(game, field), f"the game lacks `{field}`")
    try:
        hash(game)
    except TypeError:
        raise ConformanceError("the game cannot be hashed; make it a frozen dataclass") from None
    identity = np.arange(game.num_actions)
    frames = np.asarray(game.action_frames)
    _require(
        frames.shape == (2, game.num_actions),
        f"action_frames must be [2, {game.num_actions}], got {frames.shape}",
    )
    _require(np.sort(frames, -1) == identity, "the rows of action_frames must be permutations of the actions")
    observation, action = map(np.asarray, game.symmetries)
    size = int(np.prod(game.observation_shape))
    _require(
        action.shape[1:] == (game.num_actions,) and observation.shape == (len(action), size),
        f"symmetries must be [s, {size}] and [s, {game.num_actions}], "
        f"got {observation.shape}, {action.shape}",
    )
    _require(
        (np.sort(observation, -1) == np.arange(size)).all() and (np.sort(action, -1) == identity).all(),
        "symmetries must be permutations",
    )
    _require(
        (observation[0] == np.arange(size)).all() and (action[0] == identity).all(),
        "symmetry 0 must be the identity",
    )


def _check_shapes(game: Game) -> None:
    x = jax.eval_shape(game.init, jax.random.key(0))
    _require(hasattr(x, "current_player"), "the state lacks `current_player`")
    after = jax.eval_shape(game.step, x, jax.ShapeDtypeStruct((), jnp.int32))
    _require(
        jax.tree.structure(x) == jax.tree.structure(after),
        f"step must give a state with the same fields: {x} became {after}",
    )
    for old, new in zip(jax.tree.leaves(x), jax.tree.leaves(after)):
        _require(
            (old.shape, old.dtype) == (new.shape, new.dtype),
            f"step must keep every shape and type of the state: {old} became {new}",
        )
    expected = {
        "legal_action_mask": (game.legal_action_mask, (game.num_actions,), jnp.bool_),
        "is_terminal": (game.is_terminal, (), jnp.bool_),
        "rewards": (game.rewards, (2,), jnp.float32),
    }
    for name, (function, shape, dtype) in expected.items():
        got = jax.eval_shape(function, x)
        _require(
            (got.shape, got.dtype) == (shape, dtype), f"{name} must be {shape} {dtype.__name__}, got {got}"
        )
    seen = jax.eval_shape(game.observe, x)
    _require(
        seen.shape == tuple(game.observation_shape),
        f"observation_shape is {game.observation_shape}, but observe gives {seen.shape}",
    )


def _random_games(game: Game, games: int, key: jax.Array) -> tuple[GameState, np.ndarray]:
    """Positions [games, max_plies + 1, ...] and actions [games, max_plies] of random play, terminals kept."""

    def play(key):
        init_key, key = jax.random.split(key)

        def ply(x, key):
            action = random_action(key, game.legal_action_mask(x))
            after = game.step(x, action)
            return after, (after, action)

        start = game.init(init_key)
        _, (positions, actions) = jax.lax.scan(ply, start, jax.random.split(key, game.max_plies))
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, positions), actions

    positions, actions = jax.jit(jax.vmap(play))(jax.random.split(key, games))
    positions = _on_host(positions)
    over = jax.jit(jax.vmap(game.is_terminal))(jax.tree.map(lambda s: s[:, -1], positions))
    _require(over, f"a random game was not over after max_plies = {game.max_plies} moves")
    return positions, np.asarray(actions)


def _check_every_position(game: Game, positions: GameState) -> None:
    both = jax.jit(
        jax.vmap(jax.vmap(lambda x: (game.legal_action_mask(x), game.is_terminal(x), game.rewards(x))))
    )
    legal, over, rewards = map(np.asarray, both(positions))
    player = np.asarray(positions.current_player)
    _require(np.isin(player, (0, 1)), "current_player must be 0 or 1")
    _require(player[:, 0] == 0, "player 0 must move first")
    _require(legal.any(-1) | over, "a position that is not terminal has no legal action")
    _require(~(legal.any(-1) & over), "a terminal position has legal actions")
    _require(rewards.sum(-1) == 0, "rewards must sum to zero")
    _require((rewards == 0).all(-1) | over, "rewards must be zero until the game is over")
    _require(np.abs(rewards) <= 1, "rewards must lie between -1 and 1")


def _check_transitions(game: Game, positions: GameState, actions: np.ndarray) -> None:
    terminal = jax.tree.map(lambda s: s[:, -1], positions)
    step = jax.jit(jax.vmap(game.step))
    for action in {0, game.num_actions // 2, game.num_actions - 1}:
        after = step(terminal, jnp.full(len(actions), action))
        _require(_same(terminal, after), f"a terminal position changed when action {action} was played")
    over = np.asarray(jax.jit(jax.vmap(jax.vmap(game.is_terminal)))(positions))
    for lane in range(len(actions)):
        plies = int(np.argmax(over[lane]))
        for ply in range(plies):
            before, after = (_at(positions, lane, p) for p in (ply, ply + 1))
            _require(
                not _same(before, after), f"legal action {actions[lane, ply]} at ply {ply} changed nothing"
            )


def _check_transformations(game: Game, positions: GameState, actions: np.ndarray) -> None:
    """jit equals no jit, vmap equals a loop, one trace serves all positions, and the mover sees its own view."""
    traces = 0

    def everything(x, action):
        nonlocal traces
        traces += 1
        seen = (game.observe(x), game.observe(x, jnp.int32(0)), game.observe(x, jnp.int32(1)))
        return game.step(x, action), seen, game.legal_action_mask(x), game.is_terminal(x), game.rewards(x)

    compiled = jax.jit(everything)
    plies = min(6, game.max_plies)
    spread = np.unique(np.linspace(0, game.max_plies - 1, plies).astype(int))
    chosen = jax.tree.map(lambda s: s[0, spread], positions)
    chosen_actions = actions[0, spread]
    together = _on_host(jax.jit(jax.vmap(everything))(chosen, chosen_actions))
    traces = 0
    for row in range(len(spread)):
        x = jax.tree.map(lambda s, row=row: s[row], chosen)
        alone = compiled(x, chosen_actions[row])
        _require(
            _same(alone, jax.tree.map(lambda s, row=row: s[row], together)),
            f"vmap and a loop differ at ply {spread[row]}",
        )
    _, (default, *of_players), *_ = together
    mover = np.asarray(chosen.current_player).reshape(-1, *(1,) * len(game.observation_shape))
    _require(
        _same(default, np.where(mover == 0, *of_players)),
        "observe without a player must show the view of the player to move",
    )
    _require(
        traces == 1, f"one jitted function was traced {traces} times: a shape or type depends on the data"
    )
    with jax.disable_jit():  # op by op, which is slow: one transition tells
        x, action = jax.tree.map(lambda s: jnp.asarray(s[0]), (chosen, chosen_actions))
        _require(_same(game.step(x, action), compiled(x, action)[0]), "jit changes step")


def _check_symmetries(game: Game, actions: np.ndarray) -> None:
    observation, action = map(np.asarray, game.symmetries)

    def follow(key, moves):
        def ply(x, move):
            after = game.step(x, move)
            return after, (
                game.observe(after).reshape(-1),
                game.legal_action_mask(after),
                game.rewards(after),
            )

        return jax.lax.scan(ply, game.init(key), moves)[1]

    follow = jax.jit(jax.vmap(follow, (None, 0)))
    key = jax.random.key(0)
    seen, legal, rewards = map(np.asarray, follow(key, actions))
    for s in range(1, len(action)):
        image = np.argsort(action[s])  # tables gather, so action a goes to where the table names it
        mapped = map(np.asarray, follow(key, image[actions].astype(actions.dtype)))
        mapped_seen, mapped_legal, mapped_rewards = mapped
        _require(
            mapped_legal == legal[..., action[s]], f"symmetry {s} does not map legal actions to legal actions"
        )
        _require(
            mapped_seen == seen[..., observation[s]], f"symmetry {s} does not map observations to each other"
        )
        _require(mapped_rewards == rewards, f"symmetry {s} changes the result")


def _check_notation(game: Game, positions: GameState) -> None:
    names = [game.action_to_text(a) for a in range(game.num_actions)]
    for action, name in enumerate(names):
        _require(
            game.text_to_action(name) == action,
            f"action {action} is written {name!r}, which reads differently",
        )
    for ply in sorted({0, min(3, game.max_plies), game.max_plies}):
        x = jax.tree.map(jnp.asarray, _at(positions, 0, ply))
        legal = np.asarray(game.legal_action_mask(x))
        for action, name in enumerate(names):
            try:
                game.text_to_action(name, x)
                read = True
            except MoveError:
                read = False
            _require(
                read == legal[action],
                f"text_to_action and legal_action_mask disagree about {name!r} at ply {ply}",
            )
        _require(isinstance(game.to_text(x), str), "to_text must give a string")
        _require("<svg" in game.draw(x), "draw must give an SVG picture")
        try:
            line = game.to_notation(x)
        except PositionError:
            continue  # a game without position notation says so
        again = game.from_notation(line)
        _require(game.to_notation(again) == line, f"the position {line!r} does not survive its notation")
        if bool(game.is_terminal(x)) and not np.any(game.rewards(x)):
            continue  # a draw may come from the game's history, which a position does not tell
        _require(
            _same(
                (game.observe(again), game.legal_action_mask(again)),
                (game.observe(x), game.legal_action_mask(x)),
            ),
            f"the position {line!r} reads as another position",
        )
    for nonsense in ("", "no such move"):
        try:
            game.text_to_action(nonsense)
        except MoveError:
            continue
        except GameError as error:
            raise ConformanceError(
                f"a malformed move must raise MoveError, got {type(error).__name__}"
            ) from error
        raise ConformanceError(f"text_to_action accepts {nonsense!r}")
