"""tutti: one-sided communication for the MPI you already have.

The command line is `tutti` (see `tutti --help`); the libraries that it preloads lie in
`library_folder()`."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("tutti")
except PackageNotFoundError:  # run from the source tree without being installed
    __version__ = "unknown"


def library_folder() -> Path:
    """Where the preload libraries and their plugins are: beside this package in a wheel, above it
    where a site installed with CMake (lib/tutti/python/tutti)."""
    package = Path(__file__).absolute().parent
    site = package.parent.parent
    return site if any(site.glob("libtutti-preload-*.so")) else package / "lib"
