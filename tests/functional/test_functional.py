"""The pure core: arithmetic that can be followed by hand, torch's numbers, and what holds for every input."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
    StateDependentNoiseDistribution,
    make_proba_distribution,
)
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from sbx_flappy.common import programs
from sbx_flappy.common.action_distributions import DistributionSpec, draw_exploration_noise, make_distribution_spec
from sbx_flappy.common.preprocessing import OneHot
from sbx_flappy.common.state_dicts import from_torch_layout, to_torch_layout
from sbx_flappy.common.torch_classes import get_optimizer
from sbx_flappy.functional import losses
from sbx_flappy.functional.convolution import conv2d, conv_output_size, space_to_depth
from sbx_flappy.functional.distributions import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    MultiCategorical,
    StateDependentNoise,
    sde_std,
)
from sbx_flappy.functional.gae import gae
from sbx_flappy.functional.types import ExplorationNoise
from sbx_flappy.functional.update import clip_grad_norm

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
# The same examples each time; the first may wait for a compiler
TRIED = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# Arrays of one shape, so that hypothesis tries numbers and compiles little
FLOATS = st.floats(-5.0, 5.0, width=32)


def floats(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float32, shape, elements=FLOATS)


def flags(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0]))


# --- generalized advantage estimation ---------------------------------------------------------------------------------

jit_gae = jax.jit(gae)


def test_gae_of_three_steps() -> None:
    rewards: Any = np.array([[1], [2], [3]], np.float32)
    values: Any = np.array([[0.5], [1.0], [2.0]], np.float32)
    starts: Any = np.array([[1], [0], [0]], np.float32)
    last_values: Any = np.array([4], np.float32)
    dones: Any = np.array([0], np.float32)
    advantages, returns = gae(rewards, values, starts, last_values, dones, gamma=0.5, gae_lambda=0.8)
    # delta_2 = 3 + 0.5 * 4 - 2 = 3; delta_1 = 2 + 0.5 * 2 - 1 = 2; delta_0 = 1 + 0.5 * 1 - 0.5 = 1
    # A_2 = 3; A_1 = 2 + 0.5 * 0.8 * 3 = 3.2; A_0 = 1 + 0.4 * 3.2 = 2.28
    np.testing.assert_allclose(advantages[:, 0], [2.28, 3.2, 3.0], rtol=1e-6)
    np.testing.assert_allclose(returns[:, 0], [2.78, 4.2, 5.0], rtol=1e-6)


@pytest.mark.fault(2, 3)
def test_gae_is_cut_where_an_episode_starts_and_at_the_last_step_if_it_is_done() -> None:
    rewards: Any = np.array([[1], [2], [3]], np.float32)
    values: Any = np.array([[0.5], [1.0], [2.0]], np.float32)
    starts: Any = np.array([[0], [0], [1]], np.float32)
    last_values: Any = np.array([4], np.float32)
    dones: Any = np.array([1], np.float32)
    advantages, _ = gae(rewards, values, starts, last_values, dones, gamma=0.5, gae_lambda=0.8)
    # Step 1 is the last of its episode: A_1 = 2 - 1 = 1; A_2 = 3 - 2 = 1; A_0 = 1 + 0.5 - 0.5 + 0.4 * 1 = 1.4
    np.testing.assert_allclose(advantages[:, 0], [1.4, 1.0, 1.0], rtol=1e-6)


ROLLOUTS = {
    "rewards": floats(5, 3),
    "values": floats(5, 3),
    "starts": flags(5, 3),
    "last_values": floats(3),
    "dones": flags(3),
}


@TRIED
@given(**ROLLOUTS)
def test_gae_with_lambda_one_is_the_discounted_sum(
    rewards: Any, values: Any, starts: Any, last_values: Any, dones: Any
) -> None:
    _, returns = jit_gae(rewards, values, starts, last_values, dones, 0.9, 1.0)
    expected, following, alive = np.zeros((5, 3)), last_values.astype(np.float64), 1.0 - dones
    for t in reversed(range(5)):
        following = rewards[t] + 0.9 * alive * following
        expected[t], alive = following, 1.0 - starts[t]
    np.testing.assert_allclose(returns, expected, rtol=1e-3, atol=1e-3)


@TRIED
@given(**ROLLOUTS)
def test_gae_with_lambda_zero_is_one_steps_error(rewards: Any, values: Any, starts: Any, last_values: Any, dones: Any) -> None:
    advantages, _ = jit_gae(rewards, values, starts, last_values, dones, 0.9, 0.0)
    following = np.concatenate([values[1:] * (1 - starts[1:]), [last_values * (1 - dones)]])
    np.testing.assert_allclose(advantages, rewards + 0.9 * following - values, rtol=1e-4, atol=1e-4)


@TRIED
@given(**ROLLOUTS)
def test_gae_of_environments_is_independent(rewards: Any, values: Any, starts: Any, last_values: Any, dones: Any) -> None:
    order = np.array([2, 0, 1])
    advantages, _ = jit_gae(rewards, values, starts, last_values, dones, 0.9, 0.7)
    permuted, _ = jit_gae(
        *(array[:, order] for array in (rewards, values, starts)), last_values[order], dones[order], 0.9, 0.7
    )
    np.testing.assert_allclose(advantages[:, order], permuted, rtol=1e-5, atol=1e-5)


# --- distributions ----------------------------------------------------------------------------------------------------


def assert_as_torch(ours: Any, theirs: Any, actions: np.ndarray) -> None:
    tensor = th.as_tensor(actions)
    np.testing.assert_allclose(ours.log_prob(jnp.asarray(actions)), theirs.log_prob(tensor).numpy(), **CLOSE)
    # Where several actions are equally likely, either may take another
    modes = th.as_tensor(np.array(ours.mode())), theirs.mode()
    np.testing.assert_allclose(*(theirs.log_prob(mode).numpy() for mode in modes), **CLOSE)
    entropy = theirs.entropy()
    if entropy is None:
        assert ours.entropy() is None
    else:
        np.testing.assert_allclose(ours.entropy(), entropy.numpy(), **CLOSE)


@TRIED
@given(logits=floats(4, 3), actions=hnp.arrays(np.int64, 4, elements=st.integers(0, 2)))
def test_categorical_is_torchs(logits: np.ndarray, actions: np.ndarray) -> None:
    theirs = CategoricalDistribution(3).proba_distribution(th.as_tensor(logits))
    assert_as_torch(Categorical(jnp.asarray(logits)), theirs, actions)


@pytest.mark.fault(15)
@TRIED
@given(logits=floats(4, 9), rows=hnp.arrays(np.int64, (4, 3), elements=st.integers(0, 11)))
def test_multi_categorical_of_unequal_sizes_is_torchs(logits: np.ndarray, rows: np.ndarray) -> None:
    sizes = [2, 4, 3]
    theirs = MultiCategoricalDistribution(sizes).proba_distribution(th.as_tensor(logits))
    assert_as_torch(MultiCategorical(jnp.asarray(logits), tuple(sizes)), theirs, rows % sizes)


@TRIED
@given(logits=floats(4, 3), actions=flags(4, 3))
def test_bernoulli_is_torchs(logits: np.ndarray, actions: np.ndarray) -> None:
    theirs = BernoulliDistribution(3).proba_distribution(th.as_tensor(logits))
    assert_as_torch(Bernoulli(jnp.asarray(logits)), theirs, actions)


@TRIED
@given(mean=floats(4, 2), log_std=hnp.arrays(np.float32, 2, elements=st.floats(-1, 2, width=32)), actions=floats(4, 2))
def test_gaussian_is_torchs(mean: np.ndarray, log_std: np.ndarray, actions: np.ndarray) -> None:
    theirs = DiagGaussianDistribution(2).proba_distribution(th.as_tensor(mean), th.as_tensor(log_std))
    assert_as_torch(DiagGaussian(jnp.asarray(mean), jnp.asarray(log_std)), theirs, actions)


@pytest.mark.fault(20)
@pytest.mark.parametrize("full_std", [True, False])
@pytest.mark.parametrize("use_expln", [True, False])
@pytest.mark.parametrize("squash_output", [True, False])
def test_state_dependent_noise_is_torchs(full_std: bool, use_expln: bool, squash_output: bool) -> None:
    rng = np.random.default_rng(0)
    latent, mean = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    log_std = rng.normal(size=(5, 2 if full_std else 1)).astype(np.float32)
    actions = rng.uniform(-0.9, 0.9, (4, 2)).astype(np.float32)
    torchs = StateDependentNoiseDistribution(2, full_std, use_expln, squash_output)
    torchs.proba_distribution_net(5, latent_sde_dim=5)
    torchs.sample_weights(th.as_tensor(log_std), batch_size=4)
    theirs = torchs.proba_distribution(*(th.as_tensor(array) for array in (mean, log_std, latent)))
    ours = StateDependentNoise(
        jnp.asarray(mean), sde_std(jnp.asarray(log_std), 2, use_expln), jnp.asarray(latent), squash_output
    )
    assert_as_torch(ours, theirs, actions)
    noise = ExplorationNoise(torchs.exploration_mat.numpy(), torchs.exploration_matrices.numpy())
    np.testing.assert_allclose(ours.sample(noise), theirs.sample().numpy(), **CLOSE)  # a matrix for each row
    fewer = ExplorationNoise(noise.matrix, noise.matrices[:3])
    torchs.exploration_matrices = torchs.exploration_matrices[:3]
    np.testing.assert_allclose(ours.sample(fewer), theirs.sample().numpy(), **CLOSE)  # one for all


N = 20_000
SAMPLED: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
    # (distribution over N equal rows, mean of the actions, variance of the actions)
    "categorical": (
        Categorical(jnp.tile(jnp.log(jnp.array([0.2, 0.5, 0.3])), (N, 1))),
        *(np.array(1.1), np.array(0.5 + 4 * 0.3 - 1.1**2)),
    ),
    "multi-categorical": (
        MultiCategorical(jnp.tile(jnp.log(jnp.array([0.3, 0.7, 0.6, 0.2, 0.2])), (N, 1)), (2, 3)),
        *(np.array([0.7, 0.6]), np.array([0.21, 0.2 + 4 * 0.2 - 0.36])),
    ),
    "bernoulli": (
        Bernoulli(jnp.tile(jnp.log(jnp.array([1 / 3, 4.0])), (N, 1))),  # p = 1 / 4 and 4 / 5
        *(np.array([0.25, 0.8]), np.array([3 / 16, 4 / 25])),
    ),
    "gaussian": (
        DiagGaussian(jnp.tile(jnp.array([1.0, -2.0]), (N, 1)), jnp.log(jnp.array([0.5, 2.0]))),
        *(np.array([1.0, -2.0]), np.array([0.25, 4.0])),
    ),
}


@pytest.mark.parametrize(("distribution", "mean", "variance"), SAMPLED.values(), ids=SAMPLED)
def test_samples_have_the_distributions_mean_and_variance(distribution: Any, mean: np.ndarray, variance: np.ndarray) -> None:
    kind = type(distribution)
    n_outputs = distribution.mean.shape[1] if kind is DiagGaussian else distribution.logits.shape[1]
    sizes = getattr(distribution, "action_dims", (n_outputs,))
    th.manual_seed(0)
    actions = np.asarray(distribution.sample(DistributionSpec(kind, sizes).draw_noise(N)), np.float64)
    # Within five standard errors of the mean
    np.testing.assert_array_less(np.abs(actions.mean(0) - mean), 5 * np.sqrt(variance / N))
    np.testing.assert_allclose(actions.var(0), variance, rtol=0.05)
    if actions.ndim == 2:  # the entries of an action are independent
        correlations: Any = np.corrcoef(actions.T)
        assert abs(correlations[0, 1]) < 5 / math.sqrt(N)


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(3), spaces.MultiDiscrete([2, 3, 4]), spaces.MultiBinary(3), spaces.Box(-1.0, 1.0, (2,))],
    ids=lambda space: type(space).__name__,
)
def test_samples_are_torchs_with_the_same_seed(space: Any) -> None:
    spec, rng = make_distribution_spec(space), np.random.default_rng(0)
    outputs, log_std = (rng.normal(size=shape).astype(np.float32) for shape in ((7, spec.n_outputs), spec.n_outputs))
    is_box = isinstance(space, spaces.Box)
    parameters = {"mean_actions": outputs, "log_std": log_std} if is_box else {"action_logits": outputs}
    theirs = make_proba_distribution(space).proba_distribution(**{k: th.as_tensor(v) for k, v in parameters.items()})
    th.manual_seed(5)
    expected, after = theirs.sample().numpy(), th.get_rng_state()
    th.manual_seed(5)
    ours = spec(jnp.asarray(outputs), jnp.asarray(log_std) if is_box else None, jnp.zeros((7, 1)))
    np.testing.assert_allclose(ours.sample(spec.draw_noise(7)), expected, **CLOSE)
    assert th.equal(th.get_rng_state(), after)


@pytest.mark.parametrize("full_std", [True, False])
def test_exploration_matrices_are_torchs_with_the_same_seed(full_std: bool) -> None:
    log_std = np.random.default_rng(0).normal(size=(3, 2 if full_std else 1)).astype(np.float32)
    torchs = StateDependentNoiseDistribution(2, full_std)
    torchs.proba_distribution_net(3, latent_sde_dim=3)
    th.manual_seed(5)
    torchs.sample_weights(th.as_tensor(log_std), batch_size=4)
    th.manual_seed(5)
    noise = programs.scale_exploration_noise(draw_exploration_noise(log_std.shape, 2, 4), log_std, use_expln=False)
    np.testing.assert_allclose(noise.matrix, torchs.exploration_mat.numpy(), **CLOSE)
    np.testing.assert_allclose(noise.matrices, torchs.exploration_matrices.numpy(), **CLOSE)


@pytest.mark.fault(15)
@pytest.mark.parametrize("scale", [1e4, 1e30, np.inf])
def test_extreme_logits_give_finite_entropies_and_gradients(scale: float) -> None:
    logits = (
        jnp.array([[scale, 0.0, -scale], [0.0, -scale, 0.0]]) if np.isfinite(scale) else jnp.array([[0.0, -jnp.inf, 0.0]] * 2)
    )

    def loss(logits: jax.Array) -> jax.Array:
        distribution = MultiCategorical(jnp.concatenate([logits, logits[:, :2]], axis=-1), (3, 2))
        return distribution.entropy().sum() + distribution.log_prob(jnp.array([[0, 0], [2, 0]])).sum()

    assert np.isfinite(loss(logits))
    if np.isfinite(scale):
        assert np.all(np.isfinite(jax.grad(loss)(logits)))
        binary = jax.grad(lambda x: Bernoulli(x).entropy().sum() + Bernoulli(x).log_prob(jnp.ones_like(x)).sum())(logits)
        assert np.all(np.isfinite(binary))


def test_no_gradient_reaches_the_latent_through_the_noise() -> None:
    std = jnp.ones((5, 2))
    distribution = lambda latent: StateDependentNoise(jnp.zeros((3, 2)), std, latent, False)  # noqa: E731
    latent, actions = jnp.ones((3, 5)), jnp.ones((3, 2))
    gradient = jax.grad(lambda latent: distribution(latent).log_prob(actions).sum())(latent)
    np.testing.assert_array_equal(gradient, 0.0)


# --- convolutions -----------------------------------------------------------------------------------------------------


def torch_conv(x: np.ndarray, kernel: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return torch's convolution and its gradients for a cost that weighs each output differently."""
    image = th.as_tensor(x.transpose(0, 3, 1, 2)).requires_grad_()
    weight = th.as_tensor(kernel.transpose(3, 2, 0, 1).copy()).requires_grad_()
    out = th.nn.functional.conv2d(image, weight, stride=stride)
    (out * th.arange(out.numel()).reshape(out.shape).sin()).sum().backward()
    assert image.grad is not None
    assert weight.grad is not None
    return (
        out.detach().numpy().transpose(0, 2, 3, 1),
        image.grad.numpy().transpose(0, 2, 3, 1),
        weight.grad.numpy().transpose(2, 3, 1, 0),
    )


@pytest.mark.parametrize(
    ("height", "width", "channels", "kernel_size", "stride", "features"),
    [
        (36, 40, 1, 8, 4, 3),  # NatureCNN's first layer on frames of unequal sides
        (9, 11, 2, 4, 2, 3),
        (7, 5, 3, 3, 1, 2),
        (37, 43, 2, 8, 4, 2),  # rows and columns are left over
        (10, 13, 1, 5, 3, 2),  # the stride does not divide the kernel
        (8, 9, 2, 3, 4, 2),  # ... and is larger than it
        (6, 7, 2, 1, 2, 3),
        (8, 8, 1, 8, 4, 2),  # one position
        (1, 1, 2, 1, 1, 2),
    ],
)
def test_convolution_and_its_gradients_are_torchs(
    height: int, width: int, channels: int, kernel_size: int, stride: int, features: int
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, height, width, channels)).astype(np.float32)
    kernel = rng.normal(size=(kernel_size, kernel_size, channels, features)).astype(np.float32)
    expected, image_gradient, kernel_gradient = torch_conv(x, kernel, stride)
    actual = conv2d(jnp.asarray(x), jnp.asarray(kernel), stride)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    weights = np.sin(np.arange(expected.size)).reshape(expected.transpose(0, 3, 1, 2).shape).transpose(0, 2, 3, 1)
    cost = lambda x, kernel: jnp.sum(conv2d(x, kernel, stride) * weights.astype(np.float32))  # noqa: E731
    gradients = jax.grad(cost, argnums=(0, 1))(jnp.asarray(x), jnp.asarray(kernel))
    np.testing.assert_allclose(gradients[0], image_gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradients[1], kernel_gradient, rtol=1e-4, atol=1e-3)


def test_kernel_may_be_oblong() -> None:
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, 7, 9, 2)).astype(np.float32), rng.normal(size=(3, 2, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        conv2d(jnp.asarray(x), jnp.asarray(kernel), 2), torch_conv(x, kernel, 2)[0], rtol=1e-4, atol=1e-4
    )


def test_kernel_larger_than_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match="a kernel of 8 pixels needs an image of at least that size, got 7"):
        conv2d(jnp.zeros((1, 9, 7, 1)), jnp.zeros((8, 8, 1, 1)), 4)


@TRIED
@given(size=st.integers(1, 200), kernel=st.integers(1, 12), stride=st.integers(1, 8))
def test_output_size_counts_the_positions_of_the_kernel(size: int, kernel: int, stride: int) -> None:
    positions = len([start for start in range(0, size, stride) if start + kernel <= size])
    if positions:
        assert conv_output_size(size, kernel, stride) == positions
    else:
        with pytest.raises(ValueError, match="needs an image of at least that size"):
            conv_output_size(size, kernel, stride)


def test_space_to_depth_keeps_every_pixel_in_its_block() -> None:
    x = jnp.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    y = space_to_depth(x, 2)
    assert y.shape == (2, 2, 3, 12)
    # The block in row 1, column 2 holds rows 2 and 3, columns 4 and 5, row by row
    np.testing.assert_array_equal(y[1, 1, 2], x[1, 2:4, 4:6].ravel())


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_clipped_surrogate_of_four_samples() -> None:
    ratio, advantages = jnp.array([1.5, 1.5, 0.5, 0.5]), jnp.array([1.0, -1.0, 1.0, -1.0])
    # min(1.5, 1.2), min(-1.5, -1.2), min(0.5, 0.8), min(-0.5, -0.8): 1.2, -1.5, 0.5, -0.8, whose mean is -0.15
    assert losses.clipped_surrogate(ratio, advantages, 0.2) == pytest.approx(0.15)
    # All but the second and third, where clipping would help the loss, have no gradient
    gradient = jax.grad(lambda ratio: losses.clipped_surrogate(ratio, advantages, 0.2))(ratio)
    np.testing.assert_allclose(gradient, [0.0, 0.25, -0.25, 0.0])


@pytest.mark.fault(9)
@TRIED
@given(advantages=floats(7))
def test_advantages_are_normalized_as_torch_does(advantages: np.ndarray) -> None:
    tensor = th.as_tensor(advantages)
    assume(tensor.std() > 0.01)  # what is left of equal numbers is rounding
    expected = (tensor - tensor.mean()) / (tensor.std() + 1e-8)
    np.testing.assert_allclose(losses.normalize(advantages), expected.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.fault(9)
def test_a_single_advantage_is_left_alone() -> None:
    np.testing.assert_array_equal(losses.normalize(np.array([3.0], np.float32)), [3.0])


@pytest.mark.fault(6)
def test_value_loss_of_two_samples() -> None:
    values, old, returns = jnp.array([2.0, 1.0]), jnp.array([1.0, 1.0]), jnp.array([4.0, 3.0])
    assert losses.value_loss(values, old, returns, None) == pytest.approx((2.0**2 + 2.0**2) / 2)
    assert losses.value_loss(values, old, returns, 0.5) == pytest.approx((2.5**2 + 2.0**2) / 2)


def test_gradient_on_the_bounds_of_the_clip_range_is_torchs() -> None:
    x = np.array([0.8, 1.0, 1.2, 1.3], np.float32)
    tensor = th.as_tensor(x).requires_grad_()
    th.clamp(tensor, 0.8, 1.2).sum().backward()
    assert tensor.grad is not None
    gradient = jax.grad(lambda x: losses.clamp(x, jnp.float32(0.8), jnp.float32(1.2)).sum())(x)
    np.testing.assert_array_equal(gradient, tensor.grad.numpy())


@TRIED
@given(log_ratio=hnp.arrays(np.float32, 6, elements=st.floats(-3, 3, width=32)))
def test_estimated_divergence_is_never_negative_and_zero_for_equal_policies(log_ratio: np.ndarray) -> None:
    assert losses.approx_kl(log_ratio) >= -1e-6
    assert losses.approx_kl(np.zeros_like(log_ratio)) == 0.0


def test_clip_fraction_and_entropy_loss() -> None:
    assert losses.clip_fraction(jnp.array([0.7, 0.9, 1.1, 1.3]), 0.2) == 0.5
    assert losses.entropy_loss(jnp.array([1.0, 3.0]), jnp.array([9.0, 9.0])) == -2.0
    assert losses.entropy_loss(None, jnp.array([-1.0, -4.0])) == -2.5  # -mean(-log_prob)


@pytest.mark.fault(7)
@TRIED
@given(first=floats(3, 2), second=floats(4), max_norm=st.floats(0.01, 20.0))
def test_gradients_are_clipped_by_one_norm_as_torch_does(first: np.ndarray, second: np.ndarray, max_norm: float) -> None:
    parameters = [th.nn.Parameter(th.zeros(array.shape)) for array in (first, second)]
    for parameter, gradient in zip(parameters, (first, second), strict=True):
        parameter.grad = th.as_tensor(gradient.copy())
    expected = th.nn.utils.clip_grad_norm_(parameters, max_norm)
    (a, b), norm = clip_grad_norm((jnp.asarray(first), jnp.asarray(second)), max_norm)
    np.testing.assert_allclose(norm, expected.item(), rtol=1e-5)
    clipped: list[Any] = [parameter.grad for parameter in parameters]
    np.testing.assert_allclose(a, clipped[0].numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(b, clipped[1].numpy(), rtol=1e-4, atol=1e-6)


# --- parameters -------------------------------------------------------------------------------------------------------


@TRIED
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4).filter(lambda shape: len(shape) != 3))
def test_torchs_layout_and_ours_undo_each_other(shape: list[int]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    torchs = to_torch_layout(("layer", "kernel"), array)
    assert torchs.shape[0] == shape[-1]
    np.testing.assert_array_equal(from_torch_layout(("layer", "kernel"), torchs), array)


@given(rows=hnp.arrays(np.int64, (4, 3), elements=st.integers(0, 11)))
@TRIED
def test_one_hot_codes_are_concatenated(rows: np.ndarray) -> None:
    sizes = (3, 5, 2)
    expected = np.concatenate([np.eye(size)[rows[:, i] % size] for i, size in enumerate(sizes)], axis=1)
    np.testing.assert_array_equal(OneHot(sizes)(rows % sizes), expected)


OPTIMIZERS: dict[str, tuple[type, dict[str, Any]]] = {
    "Adam": (th.optim.Adam, {"eps": 1e-5}),
    "Adam with L2": (th.optim.Adam, {"betas": [0.8, 0.9], "weight_decay": 0.1}),
    "AMSGrad": (th.optim.Adam, {"amsgrad": True, "betas": [0.5, 0.6]}),
    "AMSGrad with L2": (th.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    "AdamW": (th.optim.AdamW, {"betas": [0.8, 0.9]}),
    "SGD": (th.optim.SGD, {}),
    "SGD with momentum": (th.optim.SGD, {"momentum": 0.9}),
    "SGD with Nesterov's momentum and L2": (th.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "RMSprop": (th.optim.RMSprop, {"alpha": 0.9}),
    "RMSprop with momentum": (th.optim.RMSprop, {"alpha": 0.9, "momentum": 0.5, "weight_decay": 0.1}),
    "RMSprop, centered": (th.optim.RMSprop, {"alpha": 0.9, "momentum": 0.5, "centered": True}),
    "RMSprop as TensorFlow's": (RMSpropTFLike, {"alpha": 0.9, "eps": 1e-5}),
    "RMSprop as TensorFlow's, centered": (RMSpropTFLike, {"alpha": 0.9, "momentum": 0.5, "centered": True, "eps": 1e-5}),
}


@pytest.mark.parametrize(("cls", "kwargs"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizer_takes_the_steps_of_torchs_while_the_learning_rate_changes(cls: type, kwargs: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(3, 2)).astype(np.float32)
    parameter = th.nn.Parameter(th.as_tensor(start.copy()))
    theirs = cls([parameter], lr=0.1, **kwargs)
    ours = get_optimizer(cls, kwargs).make()
    params = {"w": jnp.asarray(start)}
    state = ours.init(params)
    for i in range(6):
        # Gradients that shrink: the largest second moment so far is not the last
        gradient = (rng.normal(size=(3, 2)) * 0.5**i).astype(np.float32)
        learning_rate = 0.1 * (1.0 - i / 10)
        theirs.param_groups[0]["lr"] = learning_rate
        parameter.grad = th.as_tensor(gradient.copy())
        theirs.step()
        state = state._replace(hyperparams={**state.hyperparams, "learning_rate": jnp.float32(learning_rate)})
        updates, state = ours.update({"w": jnp.asarray(gradient)}, state, params)
        params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(params["w"], parameter.detach().numpy(), rtol=1e-4, atol=1e-5)
