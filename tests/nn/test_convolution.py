"""The convolution against XLA's own, and the choice between the two."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azjax.nn.convolution import convolve

SHAPES = [
    (1, 1, 3),
    (2, 3, 3),
    (5, 5, 3),
    (7, 7, 3),
    (8, 8, 3),
    (9, 6, 3),
    (11, 13, 3),
    (6, 13, 5),
    (4, 4, 7),
]


def xla_convolution(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("HWNC", "HWIO", "HWNC"), precision="highest"
    )


@functools.cache
def example(height=5, width=5, size=3, dtype="float32"):
    x = jax.random.normal(jax.random.key(1), (height, width, 3, 4))
    kernel = jax.random.normal(jax.random.key(2), (size, size, 4, 6)) / size
    return x.astype(dtype), kernel.astype(dtype)


def loss_gradients(convolution, x, kernel):
    return jax.jit(jax.grad(lambda x, kernel: jnp.sum(jnp.tanh(convolution(x, kernel))), (0, 1)))(x, kernel)


@pytest.mark.parametrize("height, width, size", [*SHAPES, (9, 9, 1)])
def test_it_equals_xlas_convolution_on_every_board_and_kernel(height, width, size):
    x, kernel = example(height, width, size)
    np.testing.assert_allclose(convolve(x, kernel), xla_convolution(x, kernel), atol=5e-4)


@pytest.mark.parametrize("height, width, size", [(5, 5, 3), (11, 13, 3), (6, 13, 5)])
def test_its_gradients_equal_those_of_xlas_convolution(height, width, size):
    x, kernel = example(height, width, size)
    ours, theirs = loss_gradients(convolve, x, kernel), loss_gradients(xla_convolution, x, kernel)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-3, rtol=1e-4), ours, theirs)


def test_its_gradients_are_the_same_inside_a_loop():
    x, kernel = example()

    def descent(convolution, carry, _):
        gradients = jax.grad(lambda pair: jnp.sum(jnp.tanh(convolution(*pair))))(carry)
        return jax.tree.map(lambda leaf, gradient: leaf - 0.1 * gradient, carry, gradients), None

    def run(convolution):
        return jax.lax.scan(functools.partial(descent, convolution), (x, kernel), None, length=3)[0]

    jax.tree.map(
        functools.partial(np.testing.assert_allclose, atol=2e-4), run(convolve), run(xla_convolution)
    )


def test_its_gradients_agree_with_finite_differences():
    x, kernel = example(3, 3)
    direction = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(3), leaf.shape), (x, kernel))

    def loss(step):
        moved = jax.tree.map(lambda leaf, along: leaf + step * along, (x, kernel), direction)
        return jnp.sum(jnp.tanh(convolve(*moved)))

    slope = (loss(1e-2) - loss(-1e-2)) / 2e-2
    np.testing.assert_allclose(jax.grad(loss)(0.0), slope, rtol=1e-2)


@pytest.mark.parametrize("dtype, tolerance", [("bfloat16", 0.1), ("float16", 0.02)])
def test_half_precision_stays_half_precision_and_close(dtype, tolerance):
    y = convolve(*example(7, 7, 3, dtype))
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype("float32"), xla_convolution(*example(7, 7, 3)), atol=tolerance)


def test_many_kernels_can_be_mapped_over():
    x, kernel = example()
    kernels = jnp.stack([kernel, -2 * kernel])
    mapped = jax.vmap(convolve, (None, 0))(x, kernels)
    np.testing.assert_allclose(mapped[1], convolve(x, -2 * kernel), atol=1e-4)


@pytest.mark.parametrize("platform, native", [("cpu", False), ("tpu", True), ("cuda", True)])
def test_accelerators_get_their_own_convolution_and_cpus_matrix_products(platform, native):
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in example()]
    program = jax.export.export(jax.jit(convolve), platforms=(platform,))(*shapes).mlir_module()
    assert ("stablehlo.convolution" in program) == native
    assert ("stablehlo.dot_general" in program) == (not native)
