"""tutti: one-sided communication for the MPI you already have.

The command line is `tutti` (see `tutti --help`); the libraries that it preloads lie in
`library_folder()`."""

import sys
from pathlib import Path


def __getattr__(name: str):
    """`tutti.sim(...)` without an import of its own, and the version, which the extension module knows: neither is loaded
    for commands that do without."""
    if name == "__version__":
        try:
            from tutti._core import version
        except ImportError:  # an incomplete installation; the commands say so
            return "unknown"
        return version
    if name == "sim":
        import importlib

        return importlib.import_module("tutti.sim")
    raise AttributeError(f"module 'tutti' has no attribute '{name}'")


def command() -> list[str]:
    """What starts this very tutti again, wherever it is installed."""
    return [sys.executable, str(Path(__file__).absolute().parent / "__main__.py")]


def library_folder() -> Path:
    """Where the preload libraries and their plugins are: beside this package in a wheel, above it
    where a site installed with CMake (lib/tutti/python/tutti)."""
    package = Path(__file__).absolute().parent
    site = package.parent.parent
    return site if any(site.glob("libtutti-preload-*.so")) else package / "lib"
