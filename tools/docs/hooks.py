"""What `mkdocs` needs to know of this repository: pages may link to its sources, as a plain file view shows them.

A link that leaves docs/ is taken to a copy of that file in the site (source/PATH.txt, so that every browser shows it), and one to
a file that there is not is a warning, which `make docs` makes an error."""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ROW = re.compile(r"^\| (?:\d{4} \| )?\[[^\]]+\]\(([\w-]+\.md)\)", re.MULTILINE)  # that is about a page
log = logging.getLogger("mkdocs.hooks")


def outside(page: str, target: str) -> str | None:
    """The path in the repository that a page's link means, where it leads out of docs/."""
    if re.match(r"[a-z]+:|#|/", target):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target.split("#")[0]))
    return None if path == "docs" or path.startswith("docs/") else path


def address(path: str) -> str:
    return f"source/{path}.txt"


def on_config(config):
    """A folder in the navigation ("results/") stands for its pages: README.md, then the others as its table of pages has them."""
    config.nav = [_expanded(entry) for entry in config.nav]
    return config


def _expanded(entry):
    if not isinstance(entry, dict):
        return entry
    (title, value), = entry.items()
    if not isinstance(value, str) or not value.endswith("/"):
        return entry
    index = (ROOT / "docs" / value / "README.md").read_text()
    names = ROW.findall(index)
    others = sorted(path.name for path in (ROOT / "docs" / value).glob("*.md") if path.name not in (*names, "README.md"))
    return {title: [value + name for name in ("README.md", *names, *others)]}


def on_files(files: Files, config) -> Files:
    wanted: dict[str, str] = {}
    for page in files.documentation_pages():
        for match in LINK.finditer(Path(page.abs_src_path).read_text()):
            path = outside(page.src_uri, match[2])
            if path:
                wanted.setdefault(path, page.src_uri)
    for path, page in wanted.items():
        if (ROOT / path).is_file():
            files.append(File.generated(config, address(path), abs_src_path=str(ROOT / path)))
        else:
            log.warning("%s links to %s, which is no file of the repository", page, path)
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    here = page.file.src_uri

    def rewritten(match: re.Match) -> str:
        path = outside(here, match[2])
        if not path:
            return match[0]
        return match[1] + posixpath.relpath(address(path), posixpath.dirname(here) or ".") + match[3]

    return LINK.sub(rewritten, markdown)
