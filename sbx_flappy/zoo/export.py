"""The command ``sbx-flappy export``: a trained agent of a log folder for torch SB3, to be played only, or as an ONNX file."""

import argparse
import shutil
import tempfile
from pathlib import Path

from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import get_latest_run_id

from sbx_flappy import PPO
from sbx_flappy.zoo.agents import explaining, find_model

#: Attributes that a training left behind, without which a model plays
OF_TRAINING = ("_last_obs", "_last_episode_starts", "_last_original_obs", "ep_info_buffer", "ep_success_buffer")


def export(arguments: list[str], prog: str) -> None:
    """
    Write a trained agent as a run of "ppo" in a log folder, which RL-Zoo's commands play, or as an ONNX file.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    """
    parser = argparse.ArgumentParser(prog=prog, description="Export a trained agent for torch SB3 (default) or as ONNX.")
    parser.add_argument("--env", required=True, type=EnvironmentName, help="environment ID")
    parser.add_argument(
        "--algo", default="ppo_jax", choices=["ppo_jax", "ppo"], help="folder of the agent's algorithm (default: ppo_jax)"
    )
    parser.add_argument("-f", "--folder", default="logs", help="Log folder")
    parser.add_argument("--exp-id", default=0, type=int, help="Experiment ID (default: 0: latest, -1: no exp folder)")
    parser.add_argument("--load-best", action="store_true", help="Export the best model instead of the last one")
    parser.add_argument("-o", "--output", help="Log folder to write to (default: the same)")
    parser.add_argument("--framework", choices=["torch", "jax"], default="torch", help="Whose file it is (default: torch)")
    parser.add_argument("--to-play", action="store_true", help="Leave out what only a training needs: a quarter of the size")
    parser.add_argument("--onnx", metavar="PATH", help="Write this ONNX file instead")
    args = parser.parse_args(arguments)
    with explaining(parser):
        path = find_model(args, args.folder, args.algo)
    with explaining(parser, f"{path} cannot be loaded as a model of PPO: ", (Exception,)):
        model = PPO.load(path, device="cpu")
    with explaining(parser):
        if args.onnx is not None:
            model.export_onnx(args.onnx)
            print(f"ONNX file:  {args.onnx}")
            return
        if args.to_play:
            forget_optimizer(model)
        folder = Path(args.output or args.folder, "ppo")
        folder.mkdir(parents=True, exist_ok=True)
        # RL-Zoo takes the folder with the highest number as the latest run: it gets its name when all is in it
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as scratch:
            new = Path(scratch, "run")
            new.mkdir()
            settings = path.parent / args.env  # config.yml, args.yml, vecnormalize.pkl
            if settings.is_dir():
                # command.txt names a place on the machine that trained
                shutil.copytree(settings, new / args.env, ignore=shutil.ignore_patterns("command.txt" if args.to_play else ""))
            exclude = OF_TRAINING if args.to_play else ()
            model.save(new / f"{args.env}.zip", exclude, as_torch=args.framework == "torch")
            target = folder / f"{args.env}_{get_latest_run_id(str(folder), args.env) + 1}"
            new.rename(target)
    name = "torch SB3's model" if args.framework == "torch" else "Model"
    print(f"{name}: {target / args.env}.zip")


def forget_optimizer(model: PPO) -> None:
    """Let a model's optimizer be as before its first step, whose state takes no room in a file."""
    optimizer = model.policy.optimizer
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {}})
