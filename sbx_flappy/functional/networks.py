"""Networks in Flax. The names in their parameter tree are torch SB3's, so that a state dict is a matter of layout."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from sbx_flappy.functional.convolution import conv2d, pad_same
from sbx_flappy.functional.distributions import Distribution
from sbx_flappy.functional.types import PyTree, Variables

Activation = Callable[[jax.Array], jax.Array]


class DistributionMaker(Protocol):
    """Builds a distribution from the network's outputs; hashable by value."""

    def __call__(self, mean_actions: jax.Array, log_std: jax.Array | None, latent: jax.Array) -> Distribution:
        """
        Return the distribution over actions.

        :param mean_actions: output of the action layer (means or logits), float32 ``[B, A]``
        :param log_std: the learned log standard deviations, or None for discrete actions
        :param latent: input of the action layer, float32 ``[B, L]``
        """


def torch_uniform(fan_in: int) -> Callable[..., jax.Array]:
    """
    Return torch's default initializer of a linear or convolutional layer, uniform within 1 / sqrt(fan_in).

    :param fan_in: number of inputs of one output
    """
    bound = 1.0 / np.sqrt(fan_in)
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, bound)


class Linear(nn.Module):
    """A dense layer with torch's default initialization: ``[B, I]`` to ``[B, features]``."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the layer's outputs, float32 ``[B, features]``."""
        init = torch_uniform(x.shape[-1])
        kernel = self.param("kernel", init, (x.shape[-1], self.features))
        return x @ kernel + self.param("bias", init, (self.features,))


class Conv2d(nn.Module):
    """
    A convolution with torch's default initialization: ``[B, H, W, C]`` to ``[B, H', W', features]``.

    :param features: output channels
    :param kernel_size: pixels, the same in both directions
    :param stride: pixels
    :param padding: "VALID" (none), or "SAME", see :func:`pad_same`
    """

    features: int
    kernel_size: int
    stride: int = 1
    padding: str = "VALID"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the channels, ``[B, H', W', features]``."""
        shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
        init = torch_uniform(int(np.prod(shape[:3])))
        kernel = self.param("kernel", init, shape)
        if self.padding == "SAME":
            x = pad_same(x, self.kernel_size, self.stride)
        return conv2d(x, kernel, self.stride) + self.param("bias", init, (self.features,))


class Mlp(nn.Module):
    """Dense layers, each followed by the activation. Layer i is named 2 i, as in a ``torch.nn.Sequential``."""

    net_arch: tuple[int, ...]
    activation_fn: Activation

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the outputs of the last activation function."""
        for i, features in enumerate(self.net_arch):
            x = self.activation_fn(Linear(features, name=str(2 * i))(x))
        return x


class ConvolutionStack(nn.Module):
    """
    Convolutions, each followed by ReLU, and flattened in torch's order (channels first).

    :param layers: (features, kernel size, stride) of each
    :param padding: of all, see :class:`Conv2d`
    """

    layers: tuple[tuple[int, int, int], ...]
    padding: str = "VALID"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """
        Return the flattened features of images.

        :param x: float ``[B, C, H, W]``
        :return: float ``[B, C' * H' * W']``
        """
        x = x.transpose(0, 2, 3, 1)
        for i, (features, kernel_size, stride) in enumerate(self.layers):
            x = nn.relu(Conv2d(features, kernel_size, stride, self.padding, name=str(2 * i))(x))
        return x.transpose(0, 3, 1, 2).reshape(x.shape[0], int(np.prod(x.shape[1:])))


class MlpExtractor(nn.Module):
    """The separate dense layers of the actor and of the critic."""

    pi: tuple[int, ...]
    vf: tuple[int, ...]
    activation_fn: Activation

    def setup(self) -> None:
        """Make the layers."""
        self.policy_net = Mlp(self.pi, self.activation_fn)
        self.value_net = Mlp(self.vf, self.activation_fn)

    def forward_actor(self, features: jax.Array) -> jax.Array:
        """Return the input of the action layer."""
        return self.policy_net(features)

    def forward_critic(self, features: jax.Array) -> jax.Array:
        """Return the input of the value layer."""
        return self.value_net(features)


class ActorCritic(nn.Module):
    """
    The whole network of actor and critic: one parameter tree.

    :param preprocess: pure function from raw observations to what the features extractor takes; hashable by value
    :param features_extractor: the actor's, and the critic's too unless that has its own
    :param vf_features_extractor: the critic's own, or None to share
    :param mlp_extractor: dense layers after the features
    :param action_dim: number of outputs of the action layer
    :param make_distribution: see :class:`DistributionMaker`
    :param log_std_shape: shape of the learned log standard deviations, None for discrete actions
    :param log_std_init: their initial value
    """

    preprocess: Callable[[PyTree], PyTree]
    features_extractor: nn.Module
    vf_features_extractor: nn.Module | None
    mlp_extractor: MlpExtractor
    action_dim: int
    make_distribution: DistributionMaker
    log_std_shape: tuple[int, ...] | None = None
    log_std_init: float = 0.0

    def setup(self) -> None:
        """Make the layers that do not depend on the extractor."""
        self.action_net = Linear(self.action_dim)
        self.value_net = Linear(1)
        if self.log_std_shape is not None:
            self.log_std = self.param("log_std", nn.initializers.constant(self.log_std_init), self.log_std_shape)

    def __call__(self, observations: PyTree, train: bool = False) -> tuple[Distribution, jax.Array]:
        """
        Return the distribution over actions and the values, float32 ``[B, 1]``.

        :param observations: raw observations ``[B, ...]``, or a dictionary of them
        :param train: whether features extractors are in training mode, see :func:`takes_train`
        """
        pi_features, vf_features = self._both_features(observations, train)
        distribution = self._distribution(self.mlp_extractor.forward_actor(pi_features))
        return distribution, self.value_net(self.mlp_extractor.forward_critic(vf_features))

    def features(self, observations: PyTree, train: bool = False) -> Any:
        """Return the features, float32 ``[B, L]``, or the actor's and the critic's if they are not shared."""
        features = self._both_features(observations, train)
        return features[0] if self.vf_features_extractor is None else features

    def actor(self, observations: PyTree, train: bool = False) -> Distribution:
        """Return the distribution over actions alone."""
        features = extract(self.features_extractor, self.preprocess(observations), train)
        return self._distribution(self.mlp_extractor.forward_actor(features))

    def critic(self, observations: PyTree, train: bool = False) -> jax.Array:
        """Return the values alone, float32 ``[B, 1]``."""
        extractor = self.features_extractor if self.vf_features_extractor is None else self.vf_features_extractor
        features = extract(extractor, self.preprocess(observations), train)
        return self.value_net(self.mlp_extractor.forward_critic(features))

    def _both_features(self, observations: PyTree, train: bool) -> tuple[jax.Array, jax.Array]:
        inputs = self.preprocess(observations)
        features = extract(self.features_extractor, inputs, train)
        own = self.vf_features_extractor
        return features, features if own is None else extract(own, inputs, train)

    def _distribution(self, latent: jax.Array) -> Distribution:
        log_std = None if self.log_std_shape is None else self.log_std
        return self.make_distribution(self.action_net(latent), log_std, latent)


def takes_train(extractor: Any) -> bool:
    """Return whether a features extractor's call has an argument ``train``: its layers differ when the network learns."""
    return "train" in inspect.signature(type(extractor).__call__).parameters


def extract(extractor: Any, inputs: PyTree, train: bool) -> jax.Array:
    """
    Return the features of preprocessed observations.

    :param extractor: a features extractor
    :param inputs: ``[B, ...]``, or a dictionary of them
    :param train: training mode, for those that :func:`takes_train`
    """
    return extractor(inputs, train=train) if takes_train(extractor) else extractor(inputs)


def apply(network: nn.Module, variables: Variables, observations: PyTree, method: Any = None) -> Any:
    """
    Return what a network, or a method of it, makes of observations when it does not learn.

    :param network: actor and critic
    :param variables: its parameters and its other variables
    :param observations: raw observations ``[B, ...]``
    :param method: of :class:`ActorCritic`, by default its call
    """
    return network.apply({"params": variables.params, **variables.state}, observations, method=method)


def apply_in_training(
    network: nn.Module, variables: Variables, observations: PyTree, key: jax.Array, method: Any = None
) -> tuple[Any, PyTree]:
    """
    Return what a network makes of observations while it learns, and its other variables after that.

    :param network: actor and critic
    :param variables: its parameters and its other variables
    :param observations: raw observations ``[B, ...]``
    :param key: for layers such as ``flax.linen.Dropout``
    :param method: of :class:`ActorCritic`, by default its call
    """
    collections = {"params": variables.params, **variables.state}
    mutable, rngs = list(variables.state), {"dropout": key}
    return network.apply(collections, observations, train=True, method=method, mutable=mutable, rngs=rngs)
