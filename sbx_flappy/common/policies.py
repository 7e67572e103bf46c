"""Policies: SB3's ``ActorCriticPolicy`` and its two relatives, over a network in Flax."""

import warnings
from collections.abc import Mapping
from typing import Any

import cloudpickle
import jax
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution, make_proba_distribution
from stable_baselines3.common.type_aliases import Schedule

from sbx_flappy.common.action_distributions import make_distribution_spec
from sbx_flappy.common.actor_critic import BaseActorCritic
from sbx_flappy.common.devices import get_jax_device
from sbx_flappy.common.features_extractors import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    get_extractor_class,
    make_features_extractor,
)
from sbx_flappy.common.initialization import find_features_dim, find_shapes, initial_variables, torch_order
from sbx_flappy.common.optimizer import PolicyOptimizer
from sbx_flappy.common.preprocessing import make_preprocessor
from sbx_flappy.common.torch_classes import get_activation
from sbx_flappy.common.validation import check_integer, check_keywords, check_number
from sbx_flappy.functional.networks import ActorCritic, MlpExtractor
from sbx_flappy.functional.types import ExplorationNoise


def split_net_arch(net_arch: list[int] | dict[str, list[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """
    Return the layer sizes of actor and critic.

    :param net_arch: one list for both, or a dictionary with "pi" and "vf"
    :raises ValueError: if it is anything else
    """
    if isinstance(net_arch, Mapping):
        unknown = set(net_arch) - {"pi", "vf"}
        if unknown:
            raise ValueError(f"`net_arch` takes the keys 'pi' and 'vf', got {sorted(map(str, unknown))}.")
        sizes = net_arch.get("pi", []), net_arch.get("vf", [])
    else:
        sizes = net_arch, net_arch
    for layers in sizes:
        if not isinstance(layers, (list, tuple)):
            raise ValueError(f"`net_arch` must be a list, or a dictionary of lists under 'pi' and 'vf', got {net_arch!r}.")
        for size in layers:
            check_integer("net_arch", size)
    return tuple(map(int, sizes[0])), tuple(map(int, sizes[1]))


def is_own(cls: type) -> bool:
    """Return whether a class is of this package, whose layers start as torch's do."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


class ActorCriticPolicy(BaseActorCritic):
    """
    Policy with both action and value prediction, SB3's class over a network in Flax.

    Observations may be given as tensors, as SB3's are, or as NumPy or JAX arrays; results come back as tensors in the
    first case and as JAX arrays otherwise. No gradient flows through tensors.

    :param observation_space: Observation space
    :param action_space: Action space
    :param lr_schedule: Learning rate schedule (could be constant)
    :param net_arch: The specification of the policy and value networks.
    :param activation_fn: Activation function: torch's class or a function such as ``flax.linen.tanh``
    :param ortho_init: Whether to use or not orthogonal initialization
    :param use_sde: Whether to use State Dependent Exploration or not
    :param log_std_init: Initial value for the log standard deviation
    :param full_std: Whether to use (n_features x n_actions) parameters
        for the std instead of only (n_features,) when using gSDE
    :param use_expln: Use ``expln()`` function instead of ``exp()`` to ensure a positive standard deviation
    :param squash_output: Whether to squash the output using a tanh function, this ensures bounds when using gSDE.
    :param features_extractor_class: Features extractor to use: a Flax module, or torch SB3's class of the same name.
        By default ``default_features_extractor_class``
    :param features_extractor_kwargs: Keyword arguments to pass to the features extractor.
    :param share_features_extractor: If True, the features extractor is shared between the policy and value networks.
    :param normalize_images: Whether to normalize images or not, dividing by 255.0 (True by default)
    :param optimizer_class: The optimizer to use: torch's class or a factory of optax such as ``optax.adam``
    :param optimizer_kwargs: Additional keyword arguments, excluding the learning rate, to pass to the optimizer
    :param obs_center: (not in SB3) taken off each observation, after images became 0..1; a number or one per entry
    :param obs_scale: (not in SB3) what each observation is multiplied with then
    :param action_bias_init: (not in SB3) initial biases of the action layer, for a policy that starts with other than
        equal probabilities; one number per output
    """

    #: The features extractor where the constructor is given none
    default_features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor

    @check_keywords
    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: Any = th.nn.Tanh,
        ortho_init: bool = True,
        use_sde: bool = False,
        log_std_init: float = 0.0,
        full_std: bool = True,
        use_expln: bool = False,
        squash_output: bool = False,
        features_extractor_class: Any = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: Any = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        obs_center: Any = 0.0,
        obs_scale: Any = 1.0,
        action_bias_init: list[float] | None = None,
    ) -> None:
        if optimizer_kwargs is None:
            # Small values to avoid NaN in Adam optimizer
            optimizer_kwargs = {"eps": 1e-5} if optimizer_class is th.optim.Adam else {}
        if features_extractor_class is None:
            features_extractor_class = self.default_features_extractor_class
        features_extractor_class = get_extractor_class(features_extractor_class)
        features_extractor_kwargs = dict(features_extractor_kwargs or {})
        # Automatically deactivate dtype and bounds checks
        if not normalize_images and issubclass(features_extractor_class, (NatureCNN, CombinedExtractor)):
            features_extractor_kwargs["normalized_image"] = True
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            squash_output=squash_output,
            normalize_images=normalize_images,
        )
        assert not (squash_output and not use_sde), "squash_output=True is only available when using gSDE (use_sde=True)"
        check_number("log_std_init", log_std_init)
        self.net_arch = self._default_net_arch(net_arch)
        self.activation_fn = activation_fn
        self.ortho_init = ortho_init
        self.share_features_extractor = share_features_extractor
        self.log_std_init = log_std_init
        self.use_sde = use_sde
        self.full_std = full_std
        self.use_expln = use_expln
        self.obs_center, self.obs_scale = obs_center, obs_scale
        self.action_bias_init = action_bias_init
        self.exploration_noise: ExplorationNoise | None = None
        self._build(lr_schedule)

    def _default_net_arch(self, net_arch: Any) -> list[int] | dict[str, list[int]]:
        if isinstance(net_arch, list) and len(net_arch) > 0 and isinstance(net_arch[0], dict):
            warnings.warn(
                "As shared layers in the mlp_extractor are removed since SB3 v1.8.0, "
                "you should now pass directly a dictionary and not a list "
                "(net_arch=dict(pi=..., vf=...) instead of net_arch=[dict(pi=..., vf=...)])",
                stacklevel=2,
            )
            return net_arch[0]
        if net_arch is not None:
            return net_arch
        return [] if self.features_extractor_class is NatureCNN else {"pi": [64, 64], "vf": [64, 64]}

    # --- construction ---------------------------------------------------------------------------------------------

    def _build(self, lr_schedule: Schedule) -> None:
        """
        Create the network, its parameters and the optimizer.

        :param lr_schedule: Learning rate schedule, lr_schedule(1) is the initial learning rate
        """
        self.network = self._make_network()
        shapes = find_shapes(self.network, self.observation_space)
        self.param_order = torch_order(shapes)
        own_extractor = is_own(self.features_extractor_class)
        variables, noise = initial_variables(
            self.network, shapes, self.observation_space, self.ortho_init, own_extractor, self.action_bias_init
        )
        self.variables = jax.device_put(variables)
        self.optimizer = PolicyOptimizer(self, self.optimizer_class, self.optimizer_kwargs, lr_schedule(1))
        self.action_dist = self._make_torch_distribution()
        if noise is not None:
            self._keep_noise(noise)

    def _make_network(self) -> ActorCritic:
        pi, vf = split_net_arch(self.net_arch)
        spec = make_distribution_spec(self.action_space, self.use_sde, self.use_expln, self.squash_output)
        self.distribution_spec = spec
        self.preprocess = make_preprocessor(self.observation_space, self.normalize_images, self.obs_center, self.obs_scale)
        self.features_extractor = self.make_features_extractor()
        self.features_dim = find_features_dim(self.features_extractor, self.preprocess, self.observation_space)
        return ActorCritic(
            preprocess=self.preprocess,
            features_extractor=self.features_extractor,
            vf_features_extractor=None if self.share_features_extractor else self.make_features_extractor(),
            mlp_extractor=MlpExtractor(pi, vf, get_activation(self.activation_fn)),
            action_dim=spec.n_outputs,
            make_distribution=spec,
            log_std_shape=spec.log_std_shape(pi[-1] if pi else self.features_dim, self.full_std),
            log_std_init=float(self.log_std_init),
        )

    def make_features_extractor(self) -> Any:
        """Create a features extractor."""
        return make_features_extractor(self.features_extractor_class, self.observation_space, self.features_extractor_kwargs)

    def _make_torch_distribution(self) -> Distribution:
        kwargs = {"full_std": self.full_std, "squash_output": self.squash_output, "use_expln": self.use_expln}
        return make_proba_distribution(
            self.action_space, self.use_sde, {**kwargs, "learn_features": False} if self.use_sde else None
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        names = (
            *("net_arch", "activation_fn", "use_sde", "log_std_init", "squash_output", "full_std", "use_expln", "ortho_init"),
            *("optimizer_class", "optimizer_kwargs", "features_extractor_class", "features_extractor_kwargs"),
            *("share_features_extractor", "obs_center", "obs_scale", "action_bias_init"),
        )
        data.update({name: getattr(self, name) for name in names}, lr_schedule=self._dummy_schedule)
        return data

    # --- copies and files -----------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds: all but the network, whose functions JAX does not let be pickled."""
        made_anew = ("network", "preprocess", "features_extractor")
        return {name: value for name, value in self.__dict__.items() if name not in made_anew}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.network = self._make_network()
        self.variables = self.on_device(self.variables)  # as before, or equal programs would be compiled again

    def save(self, path: str) -> None:
        """
        Save model to a given location, with cloudpickle, which takes functions such as ``flax.linen.relu`` too.

        :param path: path of the file
        """
        content = {"state_dict": self.state_dict(), "data": self._get_constructor_parameters()}
        th.save(content, path, pickle_module=cloudpickle)

    @classmethod
    def load(cls, path: str, device: Any = "auto") -> "ActorCriticPolicy":
        """
        Load model from path, written by :meth:`save` or by torch SB3's policy.

        :param path: path of the file
        :param device: Device on which the policy should be loaded, see ``common.devices``.
        """
        policy = super().load(path, "cpu")
        policy.to(get_jax_device(device))
        return policy


class ActorCriticCnnPolicy(ActorCriticPolicy):
    """
    Policy for images, with the parameters of :class:`ActorCriticPolicy`.

    Its features extractor is the network of the DQN paper (:class:`NatureCNN`).
    """

    default_features_extractor_class = NatureCNN


class MultiInputActorCriticPolicy(ActorCriticPolicy):
    """
    Policy for dictionaries of observations, with the parameters of :class:`ActorCriticPolicy`.

    Its features extractor is :class:`CombinedExtractor`.
    """

    default_features_extractor_class = CombinedExtractor
