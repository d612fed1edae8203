"""Networks: their anatomy, their modes and precisions, other board sizes, and the meeting with a game."""

import dataclasses
import functools
import re
import subprocess
import sys
import textwrap

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.common.legality import ILLEGAL_LOGIT
from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.nn import NetworkConfig, count_parameters, half_copy, layers, make_evaluator, make_network
from tests import processes

HEX = Hex(5)
KEY = jax.random.key(0)
SMALL = {"blocks": 2, "channels": 8, "policy_channels": 4, "value_hidden": 8}
DENSE = SMALL | {"heads": "dense", "value_channels": 1}
SHAPES = {  # one of everything that a configuration can ask for
    "default": SMALL,
    "original blocks": SMALL | {"block": "original", "normalisation": "batch", "bias": False},
    "layer normalisation": SMALL | {"normalisation": "layer", "activation": "silu"},
    "root mean square": SMALL | {"normalisation": "rms", "global_pooling": False},
    "convolutions": SMALL | {"tower": "conv", "kernel_size": 5},
    "bare heads": SMALL | {"policy_channels": 0, "value_hidden": 0, "head_kernel_size": 3},
    "dense heads": DENSE | {"normalisation": "batch", "policy_hidden": 6},
    "dense layers": DENSE | {"tower": "mlp", "activation": "tanh"},
    "two towers": SMALL | {"separate_towers": True},
    "all answers": SMALL
    | {"value": "wdl", "ownership": True, "margin": True, "action_values": True, "value_channels": 3},
}


@functools.cache
def network(game=HEX, **fields):
    net = make_network(NetworkConfig(**fields), game)
    return net._replace(init=jax.jit(net.init), apply=jax.jit(net.apply), train=jax.jit(net.train))


@functools.cache
def initial(game=HEX, seed=0, **fields):
    return network(game, **fields).init(jax.random.key(seed))


@functools.cache
def learned(game=HEX, **fields):
    """Parameters as after learning, with nothing at zero, drawn without compiling anything."""
    random = np.random.default_rng(0)

    def draw(path, leaf):
        centre = {"scale": 1.0, "var": 1.5}.get(path[-1].key, 0.0)
        spread = np.sqrt(1.5 / np.prod(leaf.shape[:-1])) if path[-1].key == "kernel" else 0.2
        return jnp.asarray(centre + spread * random.standard_normal(leaf.shape), jnp.float32)

    shapes = jax.eval_shape(make_network(NetworkConfig(**fields), game).init, jax.random.key(0))
    return jax.tree_util.tree_map_with_path(draw, shapes)


def boards(game=HEX, batch=6, seed=0):
    return jnp.asarray(np.random.default_rng(seed).random((batch, *game.observation_shape)) < 0.3)


def assert_close(actual, desired, tolerance=1e-4):
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, atol=tolerance, rtol=tolerance), actual, desired
    )


@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES)
def test_every_kind_of_network_answers_a_finite_logit_an_action_and_a_value_in_range(fields):
    params = learned(**fields)
    logits, value = network(**fields).apply(params, boards())
    assert logits.shape == (6, 25) and value.shape == (6,)
    assert logits.dtype == value.dtype == jnp.float32
    assert jnp.isfinite(logits).all() and (jnp.abs(value) <= 1).all()


@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES)
def test_every_weight_has_an_influence_on_some_answer(fields):
    params = learned(**fields)

    def total(weights):
        outputs, _ = network(**fields).train(params._replace(weights=weights), boards())
        return sum(jnp.sum(jnp.sin(3 * leaf)) for leaf in jax.tree.leaves(outputs))

    gradients = jax.tree_util.tree_leaves_with_path(jax.jit(jax.grad(total))(params.weights))
    idle = [jax.tree_util.keystr(path) for path, leaf in gradients if not jnp.any(leaf != 0)]
    assert not idle


def test_auxiliary_answers_have_the_shapes_of_what_they_describe():
    fields = SHAPES["all answers"]
    outputs, statistics = network(**fields).train(learned(**fields), boards())
    assert outputs.ownership.shape == (6, 5, 5) and (jnp.abs(outputs.ownership) <= 1).all()
    assert outputs.margin.shape == (6,) and outputs.value_logits.shape == (6, 3)
    assert outputs.action_values.shape == (6, 25) and (jnp.abs(outputs.action_values) <= 1).all()
    assert statistics == {}


def test_win_draw_and_loss_chances_give_the_expected_result_as_value():
    fields = SHAPES["all answers"]
    outputs, _ = network(**fields).train(learned(**fields), boards())
    win, _, loss = np.exp(np.asarray(outputs.value_logits).T) / np.exp(outputs.value_logits).sum(-1)
    assert_close(outputs.value, win - loss)


def test_playing_and_training_agree_where_nothing_depends_on_the_batch():
    params = learned(**SMALL)
    outputs, _ = network(**SMALL).train(params, boards())
    assert_close(network(**SMALL).apply(params, boards()), (outputs.logits, outputs.value))


def block_output(block, zeroed, normalisation="batch"):
    """What a residual block makes of some input when the kernel of one of its convolutions is zero."""
    config = NetworkConfig(
        channels=4, block=block, normalisation=normalisation, global_pooling=False, bias=False
    )
    init, run = layers.take_apart(lambda rngs: layers.ResidualBlock(layers.Plan(config, rngs, None)))
    params = init(jax.random.key(0))
    assert zeroed in params.weights
    params.weights[zeroed] = jax.tree.map(jnp.zeros_like, params.weights[zeroed])
    x = jax.random.normal(jax.random.key(1), (3, 3, 2, 4))
    return x, run(params, layers.Pass(), x)[0]


def test_an_original_block_without_its_branch_is_a_rectifier():
    x, y = block_output("original", zeroed="conv")
    assert_close(y, np.maximum(x, 0))


def test_a_preactivated_block_without_its_branch_is_the_identity():
    x, y = block_output("preactivation", zeroed="conv")
    assert_close(y, x)


def test_both_kinds_of_block_have_the_same_parameters():
    original, preactivated = (
        make_network(NetworkConfig(**SMALL | {"block": block, "normalisation": "batch"}), HEX)
        for block in ("original", "preactivation")
    )
    blocks = [
        jax.eval_shape(net.init, jax.random.key(0)).weights["tower"]["layer_1"]
        for net in (original, preactivated)
    ]
    assert blocks[0] == blocks[1]
    assert count_parameters(original) == count_parameters(preactivated)


def tower_variance(**fields):
    """The variance of an untrained tower's output over a batch of random inputs."""
    plan = functools.partial(layers.Plan, NetworkConfig(channels=16, normalisation="none", **fields))
    init, run = layers.take_apart(lambda rngs: layers.make_tower(plan(rngs, None), (7, 7, 2)))
    x = jnp.asarray(np.random.default_rng(0).standard_normal((7, 7, 8, 2)))
    return float(jax.jit(lambda key: jnp.var(run(init(key), layers.Pass(), x)[0]))(jax.random.key(0)))


@pytest.mark.parametrize("block", ["original", "preactivation"])
def test_without_normalisation_the_variance_stays_fixed_over_sixteen_blocks(block):
    shallow, deep = tower_variance(blocks=1, block=block), tower_variance(blocks=16, block=block)
    assert 0.5 < shallow < 2 and 0.5 < deep / shallow < 2


def test_an_untrained_network_is_nearly_indifferent():
    logits, value = network(**SMALL).apply(initial(**SMALL), boards())
    assert jnp.std(logits) < 0.3 and jnp.abs(value).max() < 0.3


BATCH_NORM = SMALL | {"normalisation": "batch"}


def test_while_playing_an_answer_does_not_depend_on_its_companions_in_the_batch():
    params = learned(**BATCH_NORM)
    together, alone = (network(**BATCH_NORM).apply(params, x) for x in (boards(), boards()[:1]))
    assert_close(jax.tree.map(lambda leaf: leaf[:1], together), alone)


def test_while_training_it_does():
    params = learned(**BATCH_NORM)
    together, _ = network(**BATCH_NORM).train(params, boards())
    alone, _ = network(**BATCH_NORM).train(params, boards()[:1])
    assert jnp.abs(together.logits[0] - alone.logits[0]).max() > 1e-2


def test_running_statistics_move_towards_the_batchs_by_the_momentum():
    # The first normalisation sees the first layer's convolution of the observation: compute that by hand.
    fields = BATCH_NORM | {"block": "original", "norm_momentum": 0.75, "global_pooling": False}
    params = initial(**fields)
    _, new = network(**fields).train(params, boards())
    kernel = params.weights["tower"]["layer_0"]["conv"]["kernel"]
    x = jax.lax.conv_general_dilated(
        boards().astype(jnp.float32), kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    first = new["tower"]["layer_0"]["norm"]["layer"]
    assert_close(first["mean"], 0.25 * x.mean((0, 1, 2)))  # from 0
    assert_close(first["var"], 0.75 + 0.25 * x.var((0, 1, 2)))  # from 1


def test_playing_normalises_by_the_running_statistics():
    # scale (x - mean) / sqrt(var + epsilon) + bias stays the same if a larger mean is made up for by the bias, and a
    # larger variance by the scale; without the one or the other it does not.
    params = learned(**BATCH_NORM)
    epsilon = NetworkConfig(**BATCH_NORM).norm_epsilon

    def moved(weights, statistics):
        if "mean" not in statistics:
            parts = {name: moved(weights[name], part) for name, part in statistics.items()}
            return weights | {name: w for name, (w, _) in parts.items()}, {
                name: s for name, (_, s) in parts.items()
            }
        mean, var = statistics["mean"], statistics["var"]
        bias = weights["bias"] + 0.5 * weights["scale"] / jnp.sqrt(var + epsilon)
        scale = weights["scale"] * jnp.sqrt((2 * var + epsilon) / (var + epsilon))
        return weights | {"bias": bias, "scale": scale}, {"mean": mean + 0.5, "var": 2 * var}

    weights, statistics = moved(params.weights, params.statistics)
    apply = network(**BATCH_NORM).apply
    before = apply(params, boards())
    assert_close(apply(layers.Params(weights, statistics), boards()), before)
    for one_alone in (layers.Params(weights, params.statistics), layers.Params(params.weights, statistics)):
        assert jnp.abs(apply(one_alone, boards())[0] - before[0]).max() > 1e-2


def test_with_the_batchs_own_statistics_playing_equals_training():
    fields = BATCH_NORM | {"norm_momentum": 0.0}
    params = learned(**fields)
    outputs, statistics = network(**fields).train(params, boards())
    logits, value = network(**fields).apply(params._replace(statistics=statistics), boards())
    assert_close((logits, value), (outputs.logits, outputs.value), 1e-3)


def test_batch_statistics_are_averaged_over_devices_in_both_ways_to_divide_a_batch():
    script = """
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
        from azjax.envs import Hex
        from azjax.nn import NetworkConfig, make_network

        config = NetworkConfig(blocks=1, channels=4, policy_channels=2, value_hidden=4, normalisation="batch")
        network, game = make_network(config, Hex(4)), Hex(4)
        params = jax.jit(network.init)(jax.random.key(0))
        observation = jax.random.bernoulli(jax.random.key(1), 0.4, (4, 4, 4, 2)).at[:2].set(False)
        expected = jax.jit(network.train)(params, observation)
        half = jax.jit(network.train)(params, observation[:2])

        mesh = jax.make_mesh((2,), ("devices",), axis_types=(AxisType.Auto,))
        divided = jax.device_put(observation, NamedSharding(mesh, P("devices")))
        everywhere = jax.device_put(params, NamedSharding(mesh, P()))
        program = jax.jit(network.train).lower(everywhere, divided).compile()
        mapped = make_network(config, game, axis_name="devices")
        in_out = dict(in_specs=(P(), P("devices")), out_specs=(P("devices"), P()))
        shard_mapped = jax.jit(jax.shard_map(mapped.train, mesh=mesh, **in_out))

        def distance(one, other):
            return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(abs(a - b).max()), one, other)))

        assert distance(program(everywhere, divided), expected) < 1e-5
        assert distance(shard_mapped(params, observation), expected) < 1e-5
        assert distance(half[1], expected[1]) > 1e-3  # or the test would prove nothing
        assert "all-gather(" not in program.as_text()  # activations stay where their part of the batch is

        def gradients(network, mean):
            def loss(weights, params, observation):
                outputs, _ = network.train(params._replace(weights=weights), observation)
                return mean(jnp.mean(outputs.value**2) + jnp.mean(outputs.logits**2))
            return lambda params, observation: jax.grad(loss)(params.weights, params, observation)

        expected = jax.jit(gradients(network, lambda x: x))(params, observation)
        inside = gradients(mapped, lambda x: jax.lax.pmean(x, "devices"))
        found = jax.jit(jax.shard_map(inside, mesh=mesh, in_specs=in_out["in_specs"], out_specs=P()))
        assert distance(found(params, observation), expected) < 1e-5
        print("equal")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=processes.environment(devices=2),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "equal", done.stderr


SIZES = {
    "hex": (Hex(4, swap=True), Hex(7, swap=True)),
    "chinese checkers": (ChineseCheckers(4, 3), ChineseCheckers(5, 3)),
    "dots and boxes": (DotsAndBoxes(2, 2, observation="image"), DotsAndBoxes(3, 4, observation="image")),
    "dots and boxes, compact": (DotsAndBoxes(2, 2), DotsAndBoxes(3, 2)),
}


@pytest.mark.parametrize("small, large", SIZES.values(), ids=SIZES)
def test_parameters_of_one_board_play_on_another(small, large):
    params = learned(small, **SMALL)
    logits, value = network(large, **SMALL).apply(params, boards(large))
    assert logits.shape == (6, large.num_actions)
    assert jnp.isfinite(logits).all() and jnp.isfinite(value).all()


def test_parameters_from_5x5_hex_play_on_11x11():
    logits, _ = network(Hex(11), **SMALL).apply(learned(Hex(5), **SMALL), boards(Hex(11)))
    assert logits.shape == (6, 121)


@dataclasses.dataclass(frozen=True)
class Padded:
    """A game whose observation stands in the corner of a larger array."""

    game: object
    shape: tuple[int, int]

    @property
    def num_actions(self):
        return self.game.num_actions

    @property
    def action_cells(self):
        return self.game.action_cells

    @property
    def observation_shape(self):
        return (*self.shape, self.game.observation_shape[-1])


PADDED = {
    "hex": (Hex(5, swap=True), SMALL),
    "hex, batch normalisation": (Hex(5, swap=True), SMALL | {"normalisation": "batch", "block": "original"}),
    "hex, wide kernels": (Hex(5), SHAPES["bare heads"] | {"kernel_size": 5, "head_kernel_size": 5}),
    "chinese checkers": (ChineseCheckers(4, 3), SMALL),
}


def board_in_a_larger_array(game, full=8):
    """A padded game, its observations with rubbish outside of the board, and the mask of the board."""
    size = game.observation_shape[0]
    padded_game = Padded(game, (full, full))
    rubbish = np.random.default_rng(5).standard_normal((6, *padded_game.observation_shape))
    mask = jnp.zeros((full, full), bool).at[:size, :size].set(True)
    return padded_game, jnp.asarray(rubbish).at[:, :size, :size].set(boards(game)), mask


@pytest.mark.parametrize("game, fields", PADDED.values(), ids=PADDED)
def test_padding_does_not_change_the_answers(game, fields):
    padded_game, observation, mask = board_in_a_larger_array(game)
    params = learned(game, **fields)
    alone = network(game, **fields).apply(params, boards(game))
    assert_close(network(padded_game, **fields).apply(params, observation, mask), alone, 3e-4)


def test_padding_does_not_change_what_batch_normalisation_learns():
    game, fields = PADDED["hex, batch normalisation"]
    padded_game, observation, mask = board_in_a_larger_array(game)
    params = learned(game, **fields)
    alone = network(game, **fields).train(params, boards(game))
    assert_close(network(padded_game, **fields).train(params, observation, mask), alone, 3e-4)


def test_every_board_of_a_batch_may_have_a_mask_of_its_own():
    params = learned(Hex(7), **SMALL)
    small = Padded(Hex(4), (7, 7))  # the actions of 4x4 Hex on a 7x7 array
    padded = jnp.zeros((2, 7, 7, 2)).at[:, :4, :4].set(boards(Hex(4), batch=2))
    masks = jnp.zeros((2, 7, 7), bool).at[:, :4, :4].set(True).at[1].set(True)
    logits, value = network(small, **SMALL).apply(params, padded, masks)
    alone = network(Hex(4), **SMALL).apply(params, boards(Hex(4), batch=2))
    assert_close((logits[0], value[0]), (alone[0][0], alone[1][0]), 1e-3)
    assert jnp.abs(logits[1] - alone[0][1]).max() > 1e-2  # no cell is masked there


def test_a_move_from_cell_to_cell_is_scored_by_both_of_its_cells():
    game, fields = ChineseCheckers(4, 3), SMALL | {"blocks": 0, "kernel_size": 1, "global_pooling": False}
    params = learned(game, **fields)
    logits, _ = network(game, **fields).apply(params, boards(game, batch=1))
    changed = boards(game, batch=1).at[0, 0, 0, 0].set(~boards(game, batch=1)[0, 0, 0, 0])
    changed_logits, _ = network(game, **fields).apply(params, changed)
    # Without any convolution that looks further, only the moves from or to the changed cell may differ.
    touches = (game.action_cells == 0).all(-1).any(-1)
    np.testing.assert_array_equal(np.asarray(jnp.abs(logits - changed_logits)[0] > 1e-6), touches)


def test_a_line_of_the_board_is_scored_at_its_own_pixel():
    game = DotsAndBoxes(2, 3, observation="image")
    fields = SMALL | {"blocks": 0, "kernel_size": 1, "global_pooling": False}
    params = learned(game, **fields)
    image = boards(game, batch=1)
    logits, _ = network(game, **fields).apply(params, image)
    for line, (row, column) in enumerate(np.asarray(game.line_pixels)[:, :2]):
        changed = image.at[0, row, column, 0].set(~image[0, row, column, 0])
        difference = jnp.abs(network(game, **fields).apply(params, changed)[0] - logits)[0] > 1e-6
        assert np.flatnonzero(difference).tolist() == [line]


HALF = [("bfloat16", "none", 0.1), ("float16", "batch", 0.02), ("float16", "layer", 0.02)]


@pytest.mark.parametrize("dtype, normalisation, tolerance", HALF)
def test_half_precision_is_finite_and_close_to_single(dtype, normalisation, tolerance):
    fields = SMALL | {"normalisation": normalisation}
    params = learned(**fields)
    answers = network(**fields | {"compute_dtype": dtype}).apply(params, boards())
    single = network(**fields).apply(params, boards())
    assert all(leaf.dtype == jnp.float32 for leaf in answers)
    scale = 1 + float(jnp.abs(single[0]).max())
    assert_close(answers[0] / scale, single[0] / scale, tolerance)
    assert_close(answers[1], single[1], tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_parameters_and_statistics_are_float32_whatever_is_computed_in(dtype):
    fields = SMALL | {"normalisation": "batch", "compute_dtype": dtype}
    params = initial(**fields)
    _, statistics = network(**fields).train(params, boards())
    assert {leaf.dtype for leaf in jax.tree.leaves((params, statistics))} == {jnp.dtype("float32")}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tpus_multiply_float32_numbers_as_such_in_answers_and_gradients(dtype):
    net = make_network(NetworkConfig(compute_dtype=dtype, **SMALL), HEX)
    params, seen = jax.eval_shape(net.init, KEY), jax.ShapeDtypeStruct((3, 5, 5, 2), jnp.float32)

    def gradient(params, seen):
        return jax.grad(lambda weights: jnp.sum(net.train(params._replace(weights=weights), seen)[0].value))(
            params.weights
        )

    for function, least in ((net.apply, 8), (gradient, 16)):
        text = jax.jit(function).trace(params, seen).lower(lowering_platforms=("tpu",)).as_text()
        products = re.findall(r"stablehlo\.(?:dot_general|convolution).*", text)
        single = [line for line in products if not re.search(r"-> tensor<[\dx]*bf16>", line)]
        assert len(products) >= least and len(single) >= (least if dtype == "float32" else 2)
        assert all(line.count("HIGHEST") == 2 for line in single)


def test_the_half_copy_keeps_normalisation_in_float32_and_halves_all_else():
    copy = half_copy(initial(**BATCH_NORM), jnp.float16)
    names = {True: [], False: []}
    for path, leaf in jax.tree_util.tree_leaves_with_path(copy.weights):
        names[leaf.dtype == jnp.float32].append(jax.tree_util.keystr(path))
    assert names[True] and all("'norm'" in name for name in names[True])
    assert names[False] and not any("'norm'" in name for name in names[False])
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(copy.statistics))


def test_the_half_copy_plays_almost_the_same():
    params = learned(**BATCH_NORM)
    half = network(**BATCH_NORM | {"compute_dtype": "float16"})
    logits, value = network(**BATCH_NORM).apply(params, boards(batch=32))
    half_logits, half_value = half.apply(half_copy(params, jnp.float16), boards(batch=32))
    assert 0 < np.abs(value - half_value).max() < 0.02
    # Total variation: half of the summed differences of the policies.
    assert 0 < (np.abs(jax.nn.softmax(logits) - jax.nn.softmax(half_logits)).sum(-1) / 2).max() < 0.02
    assert np.mean(logits.argmax(-1) == half_logits.argmax(-1)) >= 0.9


def test_the_same_shapes_are_never_traced_twice():
    net = make_network(NetworkConfig(**SMALL), Hex(4))
    apply = jax.jit(chex.assert_max_traces(net.apply, 1))
    for seed in range(3):
        apply(initial(Hex(4), seed, **SMALL), boards(Hex(4), seed=seed))


def test_parameters_are_nothing_but_dictionaries_of_arrays():
    def check(tree):
        if isinstance(tree, dict):
            assert all(isinstance(name, str) for name in tree)
            return all(check(branch) for branch in tree.values())
        return type(tree) is type(jnp.zeros(0))

    assert check(initial(**BATCH_NORM).weights) and check(initial(**BATCH_NORM).statistics)


def test_the_same_key_makes_the_same_parameters_and_another_key_others():
    one, same, other = (initial(Hex(4), seed, **SMALL) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    kernels = [params.weights["tower"]["layer_0"]["kernel"] for params in (one, other)]
    assert not jnp.array_equal(*kernels)


@functools.cache
def hex_positions(plies):
    """Eight random positions of 4x4 Hex with swap."""
    from azjax.envs.core import random_action

    game = Hex(4, swap=True)
    x = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 8))
    for ply in range(plies):
        action = random_action(
            jax.random.key(ply + 1), jax.vmap(game.legal_action_mask)(x).at[:, -1].set(False)
        )
        x = jax.vmap(game.step)(x, action)
    return game, x


@pytest.mark.parametrize("averaged", [False, True])
def test_the_evaluator_masks_exactly_the_illegal_actions(averaged):
    game, x = hex_positions(5)
    params = learned(game, **SMALL)
    evaluate = make_evaluator(game, network(game, **SMALL), symmetry_averaged=averaged)
    logits, value = jax.jit(evaluate)(params, KEY, x)
    np.testing.assert_array_equal(logits != ILLEGAL_LOGIT, jax.vmap(game.legal_action_mask)(x))
    assert value.shape == (8,)


def test_the_evaluator_turns_logits_from_the_movers_frame_into_the_boards():
    game, x = hex_positions(5)  # White is to move, who sees the board transposed
    params = learned(game, **SMALL)
    logits, value = jax.jit(make_evaluator(game, network(game, **SMALL)))(params, KEY, x)
    seen_logits, seen_value = network(game, **SMALL).apply(params, jax.vmap(game.observe)(x))
    transposed = np.swapaxes(np.asarray(seen_logits)[:, :16].reshape(8, 4, 4), 1, 2).reshape(8, 16)
    legal = np.asarray(jax.vmap(game.legal_action_mask)(x))[:, :16]
    np.testing.assert_allclose(np.asarray(logits)[:, :16][legal], transposed[legal])
    np.testing.assert_allclose(value, seen_value)


def test_in_a_finished_game_every_logit_is_finite_and_the_value_is_the_networks():
    game, x = hex_positions(16)
    over = np.asarray(jax.vmap(game.is_terminal)(x))
    assert over.any()
    logits, value = make_evaluator(game, network(game, **SMALL))(learned(game, **SMALL), KEY, x)
    assert (np.asarray(logits)[over] == ILLEGAL_LOGIT).all() and jnp.isfinite(value).all()


def test_averaged_over_symmetries_a_turned_position_has_turned_answers():
    game, x = hex_positions(4)  # Black is to move
    params = learned(game, **SMALL)
    net = network(game, **SMALL)

    def turned_observation(x, player=None):
        return game.observe(x, player)[::-1, ::-1]

    class Turned:  # the same game, seen from behind
        observe = staticmethod(turned_observation)
        legal_action_mask = staticmethod(lambda x: jnp.append(game.legal_action_mask(x)[:16][::-1], False))
        symmetries, action_frames = game.symmetries, game.action_frames

    for averaged in (False, True):
        logits, value = make_evaluator(game, net, symmetry_averaged=averaged)(params, KEY, x)
        turned_logits, turned_value = make_evaluator(Turned, net, symmetry_averaged=averaged)(params, KEY, x)
        gap = (
            jnp.abs(turned_logits[:, :16][:, ::-1] - logits[:, :16]).max()
            + jnp.abs(turned_value - value).max()
        )
        assert (gap < 1e-4) == averaged


def test_a_network_of_another_game_is_refused_by_its_shapes():
    # Dense heads made for a smaller board: as many moves as that one has.
    game, x = hex_positions(4)
    short = network(game, **SMALL)._replace(apply=lambda params, seen: (jnp.zeros((8, 9)), jnp.zeros(8)))
    with pytest.raises(AssertionError, match=r"the network must return logits \[batch, actions\]"):
        make_evaluator(game, short)(None, KEY, x)
    tall = short._replace(apply=lambda params, seen: (jnp.zeros((8, game.num_actions)), jnp.zeros((8, 1))))
    with pytest.raises(AssertionError, match="the network must return one value per position"):
        make_evaluator(game, tall)(None, KEY, x)


WRONG = {
    "tower": {"tower": "transformer"},
    "block": {"block": "bottleneck"},
    "normalisation": {"normalisation": "group"},
    "activation": {"activation": "sine"},
    "value": {"value": "categorical"},
    "compute_dtype": {"compute_dtype": "float64"},
    "blocks": {"blocks": -1},
    "blocks must be at least 1": {"tower": "conv", "blocks": 0},
    "channels": {"channels": 0},
    "kernel_size": {"kernel_size": 4},
    "head_kernel_size": {"head_kernel_size": 11},
    "norm_momentum": {"norm_momentum": 1.0},
    "norm_epsilon": {"norm_epsilon": "small"},
    "global_pooling": {"global_pooling": 1},
    "heads": {"tower": "mlp", "heads": "convolutional"},
    "ownership": {"tower": "mlp", "heads": "dense", "ownership": True},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_configuration_is_refused_by_the_name_of_the_field(field):
    with pytest.raises(ValueError, match=f"^{field}"):
        NetworkConfig(**WRONG[field])


def test_the_refusal_lists_what_is_allowed():
    with pytest.raises(ValueError, match=r"'none', 'layer', 'rms', 'batch', got 'group'"):
        NetworkConfig(normalisation="group")


def test_convolutional_heads_say_what_they_miss_in_a_game():
    class Bare:
        observation_shape, num_actions = (3, 3, 2), 9

    with pytest.raises(ValueError, match=r"action_cells \[actions, 1 or 2, 2\]"):
        make_network(NetworkConfig(), Bare)
    with pytest.raises(ValueError, match=r"action_cells must have shape \(9, 1 or 2, 2\), got \(8, 1, 2\)"):
        make_network(NetworkConfig(), type("Short", (Bare,), {"action_cells": np.zeros((8, 1, 2), int)}))
    with pytest.raises(ValueError, match=r"action_cells\[0\] = \[\[3, 0\]\] lies outside"):
        make_network(NetworkConfig(), type("Far", (Bare,), {"action_cells": np.full((9, 1, 2), (3, 0))}))


def test_towers_of_convolutions_say_that_they_need_planes():
    class Flat:
        observation_shape, num_actions = (9,), 9

    with pytest.raises(ValueError, match=r"\[height, width, planes\].*use tower='mlp'"):
        make_network(NetworkConfig(heads="dense"), Flat)


def test_parameters_of_another_network_are_refused():
    dense = NetworkConfig(**DENSE)
    with pytest.raises(ValueError, match=r"belong to another network.*only heads='convolutional'"):
        make_network(dense, Hex(6)).apply(initial(Hex(5), **DENSE), boards(Hex(6)))


def test_dense_heads_refuse_a_mask():
    with pytest.raises(ValueError, match="heads='convolutional'"):
        network(**DENSE).apply(initial(**DENSE), boards(), jnp.ones((5, 5), bool))
