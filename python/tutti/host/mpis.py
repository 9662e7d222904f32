"""MPIs on this machine: in PATH, in environments beside tutti's own (.envs/NAME, as `make demo` makes
them), in the current folder's, or where the user says."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tutti.errors import UserError
from tutti.launch import launcher as launchers
from tutti.launch.launcher import Launcher

NAMES = {"MPICH": "mpich", "Open MPI": "openmpi", "Intel MPI": "impi"}


@dataclass(frozen=True)
class Mpi:
    """One installed MPI."""

    name: str      # mpich, openmpi or impi
    product: str   # "MPICH", "Open MPI", "Intel MPI"
    version: str
    launcher: Path
    where: str     # "PATH" or the folder that it was found in

    @property
    def prefix(self) -> Path:
        return self.launcher.parent.parent

    @property
    def compiler(self) -> Path | None:
        """Its mpicc, where it has one."""
        path = self.launcher.parent / self.launcher.name.replace("mpiexec", "mpicc").replace("mpirun", "mpicc")
        return path if path.exists() else None


def from_launcher(path: Path, where: str) -> Mpi | None:
    """The MPI that a launcher belongs to; None for one that is not known."""
    try:
        launcher: Launcher = launchers.identify(str(path))
    except UserError:
        return None
    name = NAMES.get(launcher.mpi)
    return Mpi(name, launcher.mpi, launcher.version, path, where) if name else None


def in_folder(folder: Path) -> Mpi | None:
    """The MPI whose bin folder is `folder`/bin, or None."""
    path = folder / "bin" / "mpiexec"
    return from_launcher(path, str(folder)) if os.access(path, os.X_OK) else None


def environment_folders() -> list[Path]:
    """Folders that hold one environment per MPI."""
    candidates = [Path(sys.prefix).parent / ".envs", Path.cwd() / ".envs"]
    seen: list[Path] = []
    for candidate in candidates:
        if candidate.is_dir() and candidate.resolve() not in [path.resolve() for path in seen]:
            seen.append(candidate)
    return seen


def discover() -> list[Mpi]:
    """All MPIs that are found without being told where, environments first."""
    found = [in_folder(folder) for envs in environment_folders() for folder in sorted(envs.iterdir())]
    places: list[Path] = []
    for folder in os.environ.get("PATH", "").split(":"):
        for name in launchers.NAMES:
            path = Path(folder) / name
            # One entry per MPI: mpiexec and mpirun of a folder are usually the same program.
            usable = folder and name.startswith("mpiexec") and os.access(path, os.X_OK)
            if usable and path.resolve() not in [place.resolve() for place in places]:
                places.append(path)
    found += [from_launcher(path, "PATH") for path in places]
    unique: list[Mpi] = []
    for mpi in found:
        if mpi is not None and mpi.launcher.resolve() not in [other.launcher.resolve() for other in unique]:
            unique.append(mpi)
    return unique


def find(request: str) -> Mpi:
    """The MPI for "mpich", "openmpi", "impi" or "NAME=FOLDER". Raises UserError."""
    name, _, folder = request.partition("=")
    if name not in NAMES.values():
        raise UserError(f"unknown MPI '{name}'; expected mpich, openmpi or impi, or NAME=FOLDER")
    if folder:
        mpi = in_folder(Path(folder).absolute())
        if mpi is None or mpi.name != name:
            raise UserError(f"no {name} in {folder}: expected its mpiexec in {folder}/bin")
        return mpi
    for mpi in discover():
        if mpi.name == name:
            return mpi
    raise UserError(f"no {name} found in PATH or in .envs/{name}; say where it is with {name}=FOLDER "
                    "(the folder that has bin/mpiexec)")
