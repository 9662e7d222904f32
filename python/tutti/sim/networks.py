"""Network profiles: where they are, and what the command line says when one is not there."""

from __future__ import annotations

import re
import tempfile
from functools import cache
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


@cache
def _variants() -> tempfile.TemporaryDirectory[str]:
    """Kept until the process ends."""
    return tempfile.TemporaryDirectory(prefix="tutti-profiles-")


def variant(name: str, table: str, key: str, value: str) -> str:
    """The file of a profile in which one term is another, which its table [`table`] may lack."""
    text = Path(path_of(name)).read_text()
    head = f"[{table}]"
    if head not in text:
        raise UserError(f"the profile '{name}' has no table {head}")
    before, _, rest = text.partition(head)
    inside, bracket, after = rest.partition("\n[")
    inside = re.sub(rf"(?m)^{re.escape(key)} = .*$", "", inside) + f"\n{key} = {value}"
    path = Path(_variants().name) / f"{Path(name).stem}-{key}-{value}.toml"  # a variant of a variant has both in its name
    path.write_text(before + head + inside + bracket + after)
    return str(path)
