"""The networks of the theses: their parameter counts as published, their shapes and their quirks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.envs import ChineseCheckers, DotsAndBoxes, Hex
from azjax.nn.networks import NetworkConfig, count_parameters, make_network
from azjax.theses import alphago_zero, daliri2022, jacobsen2019, karki2024, kromann2019, peters2018


def count(config, game):
    return count_parameters(make_network(config, game))


@pytest.mark.parametrize(
    "size, blocks, expected", [(7, 13, 15_372_538), (7, 19, 22_456_570), (9, 19, 22_473_114)]
)
@pytest.mark.parametrize("block", ["original", "preactivation"])
def test_jacobsens_networks_have_the_parameters_of_alphago_zeros_anatomy(size, blocks, expected, block):
    assert count(jacobsen2019.network(blocks, block=block), Hex(size)).trained == expected


PETERS = {  # blocks, channels, kernel size: all numbers, and those that are not trained
    (8, 128, 5): (6_586_882, 4_352),
    (8, 256, 3): (9_475_074, 8_704),
    (4, 64, 3): (301_826, 1_152),
    (16, 256, 3): (18_932_738, 16_896),
}


@pytest.mark.parametrize("sizes", PETERS)
@pytest.mark.parametrize("board", [(4, 5), (10, 10)])
def test_peterss_networks_have_his_parameter_counts_on_any_board(sizes, board):
    trained, statistics = count(peters2018.network(*sizes), DotsAndBoxes(*board, observation="image"))
    assert (trained + statistics, statistics) == PETERS[sizes]


def test_daliris_three_models_have_openspiels_parameters():
    # 6x6, width 128, depth 7, 2 planes, counted by hand; a convolution has a bias, a normalisation 2 numbers
    # a channel.
    first, inner = 2 * 9 * 128 + 128 + 256, 128 * 9 * 128 + 128 + 256
    policy = 128 * 2 + 2 + 4 + 72 * 36 + 36
    value = 128 + 1 + 2 + 36 * 128 + 128 + 128 + 1
    dense = 72 * 128 + 128 + 6 * (128 * 128 + 128)
    dense_heads = 2 * (128 * 128 + 128) + 128 * 36 + 36 + 128 + 1
    assert count(daliri2022.network(7, 128, "resnet"), Hex(6)).trained == first + 14 * inner + policy + value
    assert count(daliri2022.network(7, 128, "conv2d"), Hex(6)).trained == first + 6 * inner + policy + value
    assert count(daliri2022.network(7, 128, "mlp"), Hex(6)) == (dense + dense_heads, 0)


def test_karkis_value_head_reads_the_flattened_tower():
    # 5x5, 256 channels, no biases but in dense layers: counted by hand.
    game = ChineseCheckers(5, 6)
    tower = 2 * 9 * 256 + 512 + 18 * 2 * (9 * 256 * 256 + 512)
    policy = 256 * 256 + 512 + 25 * 256 * game.num_actions + game.num_actions
    value = 25 * 256 * 256 + 256 + 256 + 1
    assert count(karki2024.network(), game).trained == tower + policy + value


class Go:
    observation_shape, num_actions = (19, 19, 17), 362


def test_alphago_zero_has_its_published_shapes():
    # The first layer, 19 blocks, and heads of 2 and 1 filters, for 17 planes on 19x19: counted by hand.
    layer = 9 * 256 * 256 + 512
    policy, value = 256 * 2 + 4 + 722 * 362 + 362, 256 + 2 + 361 * 256 + 256 + 256 + 1
    assert (
        count(alphago_zero.variant("dual-res"), Go).trained
        == 9 * 17 * 256 + 512 + 38 * layer + policy + value
    )
    assert (
        count(alphago_zero.variant("dual-conv"), Go).trained
        == 9 * 17 * 256 + 512 + 11 * layer + policy + value
    )


@pytest.mark.parametrize("kind", ["res", "conv"])
def test_separate_towers_of_alphago_zero_differ_by_one_tower(kind):
    dual, separate = (
        count(alphago_zero.variant(f"{towers}-{kind}"), Go).trained for towers in ("dual", "sep")
    )
    heads = 256 * 2 + 4 + 722 * 362 + 362 + 256 + 2 + 361 * 256 + 256 + 256 + 1
    assert separate - dual == dual - heads


@pytest.mark.parametrize("variant", ["dual-res", "sep-res", "dual-conv", "sep-conv"])
def test_every_variant_of_alphago_zero_answers_for_362_moves(variant):
    network = make_network(alphago_zero.variant(variant, blocks=1), Go)
    params = jax.eval_shape(network.init, jax.random.key(0))
    logits, value = jax.eval_shape(network.apply, params, jax.ShapeDtypeStruct((3, 19, 19, 17), jnp.float32))
    assert logits.shape == (3, 362) and value.shape == (3,)


KROMANN = {  # board size, hidden units: parameters of the value net and of the policy net
    (3, (80, 40)): (3_960, 4_280),
    (5, (20, 10)): (710, 950),
    (5, (80, 40)): (5_240, 6_200),
    (5, (160, 80)): (16_880, 18_800),
    (7, (80, 40)): (7_160, 9_080),
}


@pytest.mark.parametrize("size, hidden", KROMANN)
def test_the_nets_of_kromann_and_bennetsen_have_no_biases(size, hidden):
    counts = [
        count_parameters(make(Hex(size), hidden)).trained
        for make in (kromann2019.value_network, kromann2019.policy_network)
    ]
    assert tuple(counts) == KROMANN[size, hidden]


@functools.cache
def kromann_example(make, activation):
    network = make(Hex(3), (4, 3), activation)
    params = network.init(jax.random.key(0))
    params = params._replace(weights=jax.tree.map(lambda leaf: 5 * leaf, params.weights))
    observation = np.random.default_rng(0).random((6, 3, 3, 2)) < 0.4
    stones = (observation[..., 0].astype(float) - observation[..., 1]).reshape(6, 9)
    matrices = [np.asarray(params.weights[f"layer_{i}"]) for i in range(3)]
    return network.apply(params, jnp.asarray(observation)), stones, matrices


ACTIVATIONS = {"linear": lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_td_net_answers_by_a_logistic_chance_of_winning(activation):
    (logits, value), x, (first, second, last) = kromann_example(kromann2019.value_network, activation)
    g = ACTIVATIONS[activation]
    chance = 1 / (1 + np.exp(-g(g(x @ first) @ second) @ last))[:, 0]
    np.testing.assert_allclose((value + 1) / 2, chance, rtol=1e-5)
    np.testing.assert_array_equal(logits, np.zeros((6, 9)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_evolved_net_activates_its_logits_too(activation):
    (logits, value), x, (first, second, last) = kromann_example(kromann2019.policy_network, activation)
    g = ACTIVATIONS[activation]
    np.testing.assert_allclose(logits, g(g(g(x @ first) @ second) @ last), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(value, np.zeros(6))


def test_the_nets_of_kromann_and_bennetsen_start_with_variance_one_over_their_size():
    weights = kromann2019.policy_network(Hex(5), (160, 80)).init(jax.random.key(0)).weights
    numbers = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(weights)])
    # 18,800 numbers: the sample variance is within 5 % at far more than four standard errors of 1 %.
    np.testing.assert_allclose(numbers.var() * 18_800, 1, atol=0.05)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation must be one of linear, tanh, relu, got 'sine'"):
        kromann2019.value_network(Hex(3), activation="sine")


def test_peterss_first_layer_normalises_after_its_activation():
    # One layer with a rectifier last would never give a negative number; with a normalisation last it does.
    game = DotsAndBoxes(2, 2, observation="image")
    image = jnp.asarray(np.random.default_rng(0).random((4, *game.observation_shape)) < 0.4)

    def least_answer(config):
        network = make_network(config, game)
        params = network.init(jax.random.key(0))
        # The policy head reads one channel of the first layer as it is.
        score = params.weights["policy"]["score"]
        score["kernel"] = jnp.zeros_like(score["kernel"]).at[1, 1, 0, 0].set(1)
        return float(jax.jit(network.train)(params, image)[0].logits.min())

    config = peters2018.network(blocks=0, channels=4)
    assert least_answer(config) < -0.1
    assert least_answer(NetworkConfig(**vars(config) | {"first_activation_before_norm": False})) > -1e-4


@functools.cache
def pixel_net():
    network = peters2018.pixel_network()
    return network, network.init(jax.random.key(0))


def test_the_pixel_net_gives_two_classes_to_every_pixel_of_any_board():
    network, params = pixel_net()
    for shape in ((2, 7, 7, 1), (1, 5, 9, 1)):
        images = jax.ShapeDtypeStruct(shape, jnp.float32)
        assert jax.eval_shape(network.apply, params, images).shape == (*shape[:3], 2)


def test_the_pixel_net_has_seven_convolutions():
    # 64 filters of 3x3, biases, 4 numbers of normalisation a channel behind the first six, 2 filters at last.
    layers = 9 * 64 + 5 * 9 * 64 * 64 + 6 * (64 + 4 * 64)
    assert sum(count_parameters(pixel_net()[0])) == layers + 9 * 64 * 2 + 2


def test_the_pixel_net_plays_by_how_much_whiter_a_line_shall_be():
    game = DotsAndBoxes(1, 2, observation="grey")
    network = make_network(NetworkConfig(tower="peters2018-pixels", channels=64, kernel_size=3), game)
    pixels, params = pixel_net()
    seen = jax.vmap(game.observe)(jax.tree.map(lambda leaf: leaf[None], game.init()))
    classes = np.asarray(jax.jit(pixels.apply)(params, seen))[0]
    logits, value = jax.jit(network.apply)(params, seen)
    # The picture of 1x2 boxes has 5 x 7 pixels; its lying lines are in rows 1 and 3, the upright ones in row 2.
    places = [(1, 2), (1, 4), (3, 2), (3, 4), (2, 1), (2, 3), (2, 5)]
    expected = [classes[place][1] - classes[place][0] for place in places]
    np.testing.assert_allclose(logits[0], expected, atol=1e-6)
    assert value.tolist() == [0.0]
    with pytest.raises(ValueError, match="observation='grey'"):
        make_network(NetworkConfig(tower="peters2018-pixels"), DotsAndBoxes(1, 2))


def test_the_sequence_net_has_the_published_number_of_parameters():
    assert sum(count_parameters(peters2018.sequence_network())) == 407_001


@functools.cache
def sequence_answers(causal):
    """Answers to a short game, and to the same with another last picture."""
    network = peters2018.sequence_network(causal)
    params = jax.jit(network.init)(jax.random.key(0))
    images = jnp.asarray(np.random.default_rng(0).random((2, 4, 5, 5, 1)) < 0.3, jnp.float32)
    apply = jax.jit(network.apply)
    return apply(params, images), apply(params, images.at[:, 3].set(1 - images[:, 3]))


def test_the_sequence_net_answers_a_picture_for_every_picture():
    answers, _ = sequence_answers(True)
    assert answers.shape == (2, 4, 5, 5, 1) and jnp.isfinite(answers).all()


@pytest.mark.parametrize("causal, first_changed", [(True, 3), (False, 2)])
def test_only_the_published_sequence_net_looks_one_picture_ahead(causal, first_changed):
    answers, others = sequence_answers(causal)
    changed = np.asarray(jnp.abs(answers - others).max((0, 2, 3, 4)) > 1e-6)
    assert changed.tolist() == [time >= first_changed for time in range(4)]


def test_a_convolutional_lstm_steps_as_the_equations_say():
    # One cell of the board, so that of every kernel only the centre counts; two pictures, by hand.
    network = peters2018.sequence_network(causal=True)
    params = jax.jit(network.init)(jax.random.key(0))
    cell = params.weights["lstms"]["layer_0"]
    read, bias, recall = (
        np.asarray(leaf)
        for leaf in (cell["read"]["kernel"][1, 1], cell["read"]["bias"], cell["recall"]["kernel"][1, 1])
    )
    hard = lambda x: np.clip(0.2 * x + 0.5, 0, 1)  # noqa: E731
    memory = output = np.zeros(40)
    outputs = []
    for picture in (1.0, 0.0):
        enter, keep, new, leave = np.split(picture * read[0] + bias + output @ recall, 4)
        memory = hard(keep) * memory + hard(enter) * np.tanh(new)
        output = hard(leave) * np.tanh(memory)
        outputs.append(output)
    # The running statistics of the first normalisation show the mean and variance over both pictures.
    images = jnp.array([1.0, 0.0]).reshape(1, 2, 1, 1, 1)
    _, statistics = jax.jit(network.train)(params, images)
    first = statistics["lstms"]["layer_0"]["norm"]["layer"]
    np.testing.assert_allclose(first["mean"], 0.01 * np.mean(outputs, 0), atol=1e-6)
    np.testing.assert_allclose(first["var"], 0.99 + 0.01 * np.var(outputs, 0), atol=1e-6)
