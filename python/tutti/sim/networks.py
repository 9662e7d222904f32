"""Network profiles: where they are, and what the command line says when one is not there."""

from __future__ import annotations

from pathlib import Path

from tutti.errors import UserError


def folders() -> list[Path]:
    """Beside this package where it is installed; in the source tree otherwise."""
    package = Path(__file__).absolute().parent.parent
    return [folder for folder in (package / "profiles", package.parent.parent / "profiles") if folder.is_dir()]


def names() -> list[str]:
    return sorted({path.stem for folder in folders() for path in folder.glob("*.toml")})


def path_of(name: str) -> str:
    """The file of a profile: its name, or a path that ends in .toml."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UserError(f"there is no network profile '{name}'")
        return name
    for folder in folders():
        if (folder / f"{name}.toml").is_file():
            return str(folder / f"{name}.toml")
    raise UserError(f"there is no network profile '{name}'; there are {', '.join(names())}, or a file FILE.toml")
