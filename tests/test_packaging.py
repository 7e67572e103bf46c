"""The wheel, its metadata and the pinned set of versions."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import sbx_flappy

ROOT = Path(__file__).parents[1]


def pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *map(str, arguments)], check=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel, built from a copy of the sources and without a network."""
    folder = tmp_path_factory.mktemp("wheel") / "source"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "logs"))
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder / "dist", folder)
    (built,) = (folder / "dist").glob("sbx_flappy-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with nothing but the installed wheel."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


def run(*command: str | Path, site: Path, cwd: Path) -> str:
    """Run a command in ``cwd``, with the wheel in front of everything else that is installed, and return what it printed."""
    env = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pinned}


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    """Yield the names of all that a distribution needs here, at any depth."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    for requirement in map(Requirement, metadata.requires(name) or []):
        environments = [{"extra": extra} for extra in extras or {""}]
        if requirement.marker is None or any(map(requirement.marker.evaluate, environments)):
            yield canonicalize_name(requirement.name)
            yield from needed(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)


def test_wheel_holds_every_source_file_and_no_other(wheel: Path) -> None:
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "sbx_flappy").rglob("*.py")} | {"sbx_flappy/py.typed"}
    settings = {f"sbx_flappy/hyperparams/{path.name}" for path in (ROOT / "hyperparams").glob("*.*")}
    assert "sbx_flappy/hyperparams/ppo.yml" in settings
    listed = subprocess.run(["git", "ls-files", "rl-trained-agents"], cwd=ROOT, capture_output=True, text=True, check=True)
    agents = {name.replace("rl-trained-agents", "sbx_flappy/rl_trained_agents") for name in listed.stdout.splitlines()}
    assert "sbx_flappy/rl_trained_agents/ppo/FlappyBird-v0_1/FlappyBird-v0.zip" in agents
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == ours | settings | agents


def test_wheel_works_from_another_folder(site: Path, tmp_path: Path) -> None:
    script = (
        "import gymnasium as gym, sbx_flappy, sbx_flappy.hyperparams.ppo as settings\n"
        "env = gym.make('FlappyBird-v0')\n"
        "env.reset(seed=0)\n"
        "print(sbx_flappy.__file__, settings.__file__, settings.hyperparams['FlappyBird-v0']['n_steps'], sep='\\n')\n"
    )
    package, settings, n_steps = run(sys.executable, "-c", script, site=site, cwd=tmp_path).splitlines()
    assert Path(package).is_relative_to(site)
    assert Path(settings).is_relative_to(site)
    assert n_steps == "64"


@pytest.mark.expensive
def test_command_of_the_wheel_trains(site: Path, tmp_path: Path) -> None:
    budget = ["-n", "32", "--eval-freq", "-1", "-params", "n_envs:2", "n_steps:16"]
    agent = ["--algo", "ppo_jax", "--env", "FlappyBirdFeatures-v0"]
    output = run(site / "bin" / "sbx-flappy", "train", *agent, *budget, site=site, cwd=tmp_path)
    assert "Loading hyperparameters from: sbx_flappy.hyperparams.ppo" in output
    assert (tmp_path / "logs/ppo_jax/FlappyBirdFeatures-v0_1/FlappyBirdFeatures-v0.zip").is_file()
    agent = ["--algo", "ppo", "--env", "FlappyBird-v0", "--no-render"]
    output = run(site / "bin" / "sbx-flappy", "enjoy", *agent, "-n", "20", site=site, cwd=tmp_path)
    assert str(site / "sbx_flappy" / "rl_trained_agents") in output


def test_version_is_that_of_the_metadata() -> None:
    assert re.search(rf"^version = {re.escape(sbx_flappy.__version__)}$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)


@pytest.mark.fault(36)
def test_dependencies_are_bounded_on_both_sides() -> None:
    runtime = [Requirement(text) for text in metadata.requires("sbx-flappy") or [] if "extra" not in text]
    assert len(runtime) > 10
    for requirement in runtime:
        assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}, requirement


def test_all_that_is_needed_is_pinned() -> None:
    missing = set(needed("sbx-flappy", frozenset({"tests", "docs"}), set())) - pins().keys()
    assert not missing
    assert not {"tensorflow-probability", "distrax"} & pins().keys()


@pytest.mark.fault(36)
def test_nothing_rests_on_a_nightly_or_on_what_jax_keeps_private() -> None:
    for name, pin in pins().items():
        (version,) = pin.specifier
        assert not Version(version.version).is_prerelease, name
    for path in (ROOT / "sbx_flappy").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names = [ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)]
        for name in (*modules, *names):
            assert not name.startswith(("jax._", "jaxlib", "flax._", "optax._", "tensorflow", "tfp")), f"{path}: {name}"


def test_pins_are_within_the_bounds() -> None:
    for requirement in map(Requirement, metadata.requires("sbx-flappy") or []):
        (pin,) = pins()[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(pin.version), f"{requirement} against {pin}"
