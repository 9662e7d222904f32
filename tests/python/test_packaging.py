"""The recipes for package managers of sites: EasyBuild reads and validates its own; Spack, which is in no package index, is
stood in for by its directives. Both must say what the build says."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment

PACKAGING = ROOT / "packaging"
EASYCONFIG = next(PACKAGING.glob("easybuild/*.eb"))
CMAKE = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "cmake" / "TuttiDependencies.cmake").read_text()
VERSION = re.search(r"project\(tutti VERSION ([\d.]+)", CMAKE).group(1)
OPTIONS = set(re.findall(r"(?:option|set)\((TUTTI_[A-Z]+) ", CMAKE))
LIBRARIES = dict(re.findall(r"tutti_library\(NAME (\S+) .*?TESTED ([\d.]+)", CMAKE, re.DOTALL))
PYPROJECT = (ROOT / "pyproject.toml").read_text()

READ = """
import json, sys
from easybuild.tools.options import set_up_configuration
set_up_configuration(args=["--allow-use-as-root-and-accept-consequences", "--ignore-osdeps"], silent=True)
from easybuild.framework.easyconfig.easyconfig import EasyConfig, get_easyblock_class
config = EasyConfig(sys.argv[1], validate=True)
block = get_easyblock_class(config["easyblock"], name=config["name"])
with config.disable_templating():
    said = {key: config[key] for key in ("name", "version", "configopts", "sanity_check_paths", "moduleclass")}
said["block"] = block.__name__
said["dependencies"] = {each["name"]: each["version"] for each in config.dependencies()}
print("READ" + json.dumps(said))
"""


def easybuild() -> Path:
    """The Python of an environment with EasyBuild, kept between runs: nothing else needs it, so it is not in .venv."""
    folder = ROOT / "build" / "easybuild"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=100)
        answer = subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                                 "easybuild-framework>=5", "easybuild-easyblocks>=5"],
                                capture_output=True, text=True, timeout=100, check=False)
        if answer.returncode != 0:
            pytest.skip(f"EasyBuild cannot be installed ({answer.stderr.strip().splitlines()[-1]})")
        (folder / "complete").touch()
    return python


@pytest.fixture(scope="module")
def easyconfig(tmp_path_factory):
    """The EasyBuild file as EasyBuild understands it."""
    lmod = next(Path("/usr/share/lmod").glob("*/libexec"), None)
    if lmod is None:
        pytest.skip("EasyBuild wants a module tool, and lmod is not installed")
    home = str(tmp_path_factory.mktemp("home"))
    environment = clean_environment(PATH=f"{lmod}:{os.environ['PATH']}", HOME=home)
    answer = subprocess.run([str(easybuild()), "-c", READ, str(EASYCONFIG)], capture_output=True, text=True, timeout=60,
                            check=False, cwd=home, env=environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return json.loads(answer.stdout.split("READ")[1])


def test_easybuild_validates_the_file(easyconfig):
    assert (easyconfig["name"], easyconfig["version"], easyconfig["block"]) == ("tutti", VERSION, "CMakeNinja")
    assert EASYCONFIG.name.startswith(f"tutti-{VERSION}-")
    assert set(re.findall(r"-D(\w+)=", easyconfig["configopts"])) <= OPTIONS


def test_easybuild_has_all_that_the_build_needs(easyconfig):
    names = {"toml++": "tomlplusplus"}
    for library, least in LIBRARIES.items():
        found = easyconfig["dependencies"][names.get(library, library)]
        assert numbers(found) >= numbers(least), library


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


# ---- Spack ---------------------------------------------------------------------------------------


class Recorded(dict):
    """What the directives of a recipe were given, by directive."""

    def directive(self, name):
        def record(*words, **options):
            self.setdefault(name, []).append((words, options))

        return record


@pytest.fixture(scope="module")
def recipe():
    """The recipe's class, and what its directives were given. A directive that Spack lacks is a NameError."""
    recorded = Recorded()
    package = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "conflicts", "generator"):
        setattr(package, name, recorded.directive(name))
    package.when = lambda condition: contextlib.nullcontext()
    package.run_after = package.on_package_attributes = lambda *words, **options: lambda function: function
    cmake = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    cmake.CMakePackage = type("CMakePackage", (), {
        "define": staticmethod(lambda name, value: f"-D{name}:BOOL={'ON' if value else 'OFF'}"),
        "define_from_variant": lambda self, name, variant: f"-D{name}:BOOL={variant}"})
    modules = {"spack": types.ModuleType("spack"), "spack.package": package, "spack_repo": types.ModuleType("spack_repo"),
               "spack_repo.builtin": types.ModuleType("builtin"), "spack_repo.builtin.build_systems": types.ModuleType("systems"),
               "spack_repo.builtin.build_systems.cmake": cmake}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        spec = importlib.util.spec_from_file_location("tutti_recipe", PACKAGING / "spack" / "packages" / "tutti" / "package.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.Tutti, recorded


def dependencies(recorded: Recorded) -> dict[str, str]:
    """Name and least version of each."""
    return {words[0].partition("@")[0]: words[0].partition("@")[2].rstrip(":") for words, _ in recorded["depends_on"]}


def test_spack_builds_this_version_with_options_that_exist(recipe):
    tutti, recorded = recipe
    assert [words[0] for words, _ in recorded["version"]] == [VERSION]
    given = {re.match(r"-D(\w+):", word).group(1) for word in tutti().cmake_args()}
    assert given and given <= OPTIONS
    variants = {words[0] for words, _ in recorded["variant"]}
    used = {word.rpartition("=")[2] for word in tutti().cmake_args()} - {"ON", "OFF"}
    assert used == variants, "each variant decides something"


def test_spack_has_all_that_the_build_needs(recipe):
    found = dependencies(recipe[1])
    names = {"Highway": "highway", "toml++": "tomlplusplus"}
    for library, least in LIBRARIES.items():
        assert numbers(found[names.get(library, library)]) >= numbers(least.removesuffix(".0")), library
    for name, least in re.findall(r'"(typer|rich|nanobind)>=([\d.]+)"', PYPROJECT):
        assert found[f"py-{name}"] == least
    assert found["cmake"] == re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", CMAKE).group(1)
    assert found["python"] == re.search(r'requires-python = ">=([\d.]+)"', PYPROJECT).group(1)
