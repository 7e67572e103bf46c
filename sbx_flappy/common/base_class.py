"""SB3's ``BaseAlgorithm`` over a policy in JAX: construction, devices, seeds, saving and loading."""

import inspect
import io
import pathlib
from collections.abc import Iterable
from typing import Any, TypeVar

import jax
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import VecEnv

from sbx_flappy.common.devices import get_device_name, get_jax_device, get_torch_device
from sbx_flappy.common.initialization import limit_parameters
from sbx_flappy.common.policies import ActorCriticPolicy
from sbx_flappy.common.preprocessing import check_supported
from sbx_flappy.common.seeding import first_env_seed
from sbx_flappy.common.validation import suggest
from sbx_flappy.saving import files
from sbx_flappy.saving.archive import UNREADABLE, check_archive
from sbx_flappy.saving.resume import Resumption

#: The attribute of a saved model that lets its training go on
RESUME_STATE = "_resume_state"

SelfJaxAlgorithm = TypeVar("SelfJaxAlgorithm", bound="JaxAlgorithm")


class JaxAlgorithm(BaseAlgorithm):
    """
    The base of algorithms whose policy is in JAX.

    ``save``, ``set_parameters`` and the rest are SB3's own methods: the policy and its optimizer offer what these ask for.

    Difference: with a seed, the environments' seeds are those of :func:`first_env_seed` and the following, so that the games
    of models with neighbouring seeds are not the same.
    """

    policy: ActorCriticPolicy
    #: torch SB3's policies and ours that do the same, for models saved by torch SB3 and for callers who pass the classes
    torch_policy_classes: dict[type, type[ActorCriticPolicy]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._device_name = get_device_name(get_jax_device(kwargs.pop("device", "auto")))
        self.resumption = Resumption()
        super().__init__(*args, **{**kwargs, "device": "cpu"})

    @property
    def _jax_device(self) -> jax.Device:
        return get_jax_device(self._device_name)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_device_name", "resumption"]

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        check_supported(getattr(env, "observation_space", None))
        return BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def _setup_model(self) -> None:
        self.resumption.pending = self.__dict__.pop(RESUME_STATE, self.resumption.pending)  # where `load` has put it
        if self.env is None and not hasattr(self, "observation_space"):
            raise ValueError("`env` must be an environment or its id, got None.")
        if not isinstance(self.policy_kwargs, dict):
            raise TypeError(f"`policy_kwargs` must be a dictionary, got {self.policy_kwargs!r}.")
        self._translate_arguments()
        self._check_hyperparameters()
        self.device = get_torch_device(self._jax_device)  # as in SB3, setting it later moves nothing
        super()._setup_model()  # type: ignore[safe-super]  # the algorithm's, which comes after this class
        self.policy.to(self._jax_device)

    def _translate_arguments(self) -> None:
        """Put this package's classes in place of torch SB3's, in what the constructor or ``load`` was given."""
        self.policy_class = self._own_policy_class(self.policy_class)
        self.policy_kwargs = self._own_policy_kwargs(self.policy_kwargs)

    def _check_hyperparameters(self) -> None:
        """
        Check what the constructor or ``load`` was given.

        :raises ValueError: for what can only be a mistake
        """

    def _own_policy_kwargs(self, policy_kwargs: dict[str, Any]) -> dict[str, Any]:
        """
        Return the arguments of the policy in terms of this package.

        :param policy_kwargs: what the user gave, or what a file of torch SB3 holds
        """
        return policy_kwargs

    def _own_policy_class(self, policy_class: Any) -> type[ActorCriticPolicy]:
        """
        Return the policy's class of this package.

        :param policy_class: one of this package's, or the class of torch SB3 that it stands for
        :raises ValueError: for any other
        """
        own = self.torch_policy_classes.get(policy_class, policy_class) if isinstance(policy_class, type) else policy_class
        if isinstance(own, type) and issubclass(own, ActorCriticPolicy):
            return own
        raise ValueError(
            f"`policy` must be one of {list(self.policy_aliases)} or a subclass of the policies of sbx_flappy.ppo, got "
            f"{policy_class!r}: a policy in torch, or that of another algorithm, cannot be used here."
        )

    def set_random_seed(self, seed: int | None = None) -> None:
        """
        Set the seed of the pseudo-random generators (python, numpy, pytorch, gym, action_space).

        :param seed: the environments get :func:`first_env_seed` of it and the following numbers
        """
        super().set_random_seed(seed)
        if seed is not None and self.env is not None:
            self.env.seed(first_env_seed(seed))

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """
        Set the environment, see SB3's method.

        :param env: The environment for learning a policy; after a change, ``learn`` does not resume a saved training
        :param force_reset: Force call to ``reset()`` before training to avoid unexpected behavior.
        """
        before = self.env
        super().set_env(env, force_reset)
        if before is not None and before is not self.env:
            self.resumption.drop("the environment has changed", self.verbose)

    def drop_resume_state(self) -> None:
        """Let ``learn`` reset the environment instead of resuming the training that was saved."""
        self.resumption.drop()

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        resumable: bool = False,
    ) -> None:
        """
        Save all the attributes of the object and the model parameters in a zip-file, see SB3's method.

        The file is SB3's, with a description in plain JSON for ``load(..., safe=True)``. It is written whole or not at all: if
        the process is killed, the previous file is still there.

        :param path: path to the file where the rl agent should be saved
        :param exclude: name of parameters that should be excluded in addition to the default ones
        :param include: name of parameters that might be excluded but should be included anyway
        :param resumable: (not in SB3) also save the states of environment and random generators, so that
            ``learn(..., reset_num_timesteps=False)`` of the loaded model goes on as if it had never stopped
        :raises ValueError: with ``resumable``, see :meth:`Resumption.get_state`
        """
        content = files.begin(path)
        if resumable:
            self.__dict__[RESUME_STATE] = self.resumption.get_state(self)
        try:
            super().save(content, exclude, include)
            files.add_description(content, self.__dict__, self.get_parameters())
        finally:
            self.__dict__.pop(RESUME_STATE, None)
        files.write(path, content)

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """
        Load parameters from a given zip-file or a nested dictionary, see SB3's method.

        :param load_path_or_dict: path, file or dictionary of state dicts
        :param exact_match: whether every parameter must be given
        :param device: without effect, parameters go to where the policy is
        :raises ValueError: if the file is truncated, damaged or not a saved model
        """
        if not isinstance(load_path_or_dict, dict):
            check_archive(load_path_or_dict, needs_data=False)
        super().set_parameters(load_path_or_dict, exact_match=exact_match, device="cpu")

    @classmethod
    def load(
        cls: type[SelfJaxAlgorithm],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: Any = None,
        device: Any = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        safe: bool = False,
        **kwargs: Any,
    ) -> SelfJaxAlgorithm:
        """
        Load the model from a zip-file, written by this package or by torch SB3, see SB3's method.

        As SB3's, it unpickles, so that a file can run any code, unless ``safe`` is asked for.

        :param path: path to the file (or a file-like) where to load the agent from
        :param env: the new environment to run the loaded model on
        :param device: Device on which the code should run.
        :param custom_objects: Dictionary of objects to replace upon loading.
        :param print_system_info: Whether to print system info from the saved model and the current system info
        :param force_reset: Force call to ``reset()`` before training to avoid unexpected behavior.
        :param safe: (not in SB3) read the plain description and the bytes of the arrays, and unpickle nothing: for files of
            people you do not know
        :param kwargs: extra arguments to change the model when loading
        :return: new model instance with loaded parameters
        :raises ValueError: if the file is truncated, damaged or not a saved model; with ``safe``, also if it was not written
            by this package, or holds what only a pickle can (a class or function of the user's own), which is then named
        """
        if safe:
            if print_system_info:
                files.print_system_info(path)
            data, parameters = files.read_description(path, custom_objects or {})
            files.check_attributes(data, cls)
            cls._check_changes(kwargs, data)
            return cls._assemble(data, parameters, env, device, force_reset, kwargs)
        data = check_archive(path)
        cls._check_changes(kwargs, data)
        # The archive is read on the CPU; the attribute says where the model that SB3's method builds will run
        kwargs["_device_name"] = get_device_name(get_jax_device(device))
        try:
            return super().load(path, env, "cpu", custom_objects, print_system_info, force_reset, **kwargs)
        except KeyError as e:  # a state dict that is not there
            raise ValueError(f"Error: the file {path} does not hold a whole model: it lacks {e}") from e

    @classmethod
    def _assemble(
        cls: type[SelfJaxAlgorithm],
        data: dict[str, Any],
        parameters: dict[str, Any],
        env: Any,
        device: Any,
        force_reset: bool,
        changes: dict[str, Any],
    ) -> SelfJaxAlgorithm:
        """
        Return a model from its attributes and state dicts, as SB3's ``load`` does.

        :param data: attributes
        :param parameters: state dicts by name
        :param env: as of :meth:`load`, like the next two
        :param device: Device on which the code should run.
        :param force_reset: Force call to ``reset()`` before training to avoid unexpected behavior.
        :param changes: attributes to replace
        :raises ValueError: if they do not make a model
        """
        if "policy_kwargs" in changes and changes["policy_kwargs"] != data["policy_kwargs"]:
            raise ValueError(
                "The specified policy kwargs do not equal the stored policy kwargs. "
                f"Stored kwargs: {data['policy_kwargs']}, specified kwargs: {changes['policy_kwargs']}"
            )
        if env is not None:
            env = cls._wrap_env(env, data["verbose"])
            check_for_correct_spaces(env, data["observation_space"], data["action_space"])
            data = {**data, "n_envs": env.num_envs, **({"_last_obs": None} if force_reset else {})}
        model = cls(policy=data["policy_class"], env=env, device=device, _init_setup_model=False)
        model.__dict__.update({**data, **changes})
        try:
            with limit_parameters(files.count(parameters["policy"])):
                model._setup_model()
            model.set_parameters(parameters)
        except UNREADABLE as e:
            raise ValueError(f"Error: the attributes and parameters in the file do not make a model: {e}") from e
        if model.use_sde:
            model.policy.reset_noise()
        return model

    @classmethod
    def _check_changes(cls, changes: dict[str, Any], data: dict[str, Any]) -> None:
        """
        Check the keyword arguments of ``load``.

        :param changes: keyword arguments of ``load``, which become attributes
        :param data: the saved attributes
        :raises TypeError: for a name that neither the constructor nor the saved model knows
        """
        known = [name for name in inspect.signature(cls).parameters if not name.startswith("_")]
        for name in changes:
            if name not in known and name not in data:
                raise TypeError(f"{cls.__name__}.load() got an unexpected keyword argument '{name}'.{suggest(name, known)}")
