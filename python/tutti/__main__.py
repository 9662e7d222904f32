"""`python -m tutti`, and `python .../tutti/__main__.py` where tutti lies outside Python's own folders."""

import sys
from pathlib import Path

if not __package__:  # started as a file: Python has put the package itself into the path, not its folder
    sys.path[0] = str(Path(__file__).absolute().parent.parent)

from tutti.cli import main

main()
