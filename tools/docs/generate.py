"""Makes the generated pages of docs/, or says which of them are out of date.

    tools/docs/generate.py            # writes them
    tools/docs/generate.py --check    # changes nothing; exit status 1 where one differs

They are the index of the decisions, the results (of bench/results) and the pictures. docs/settings.md comes from the build
(target settings_doc)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "python")]


def pages() -> dict[Path, str]:
    """What each generated file has to hold."""
    import decisions
    import pictures
    from tutti.bench import report

    docs = ROOT / "docs"
    found = {docs / "decisions" / "README.md": decisions.index()}
    found |= {docs / "pictures" / name: text for name, text in pictures.all_pictures().items()}
    found |= {docs / "results" / name: text for name, text in report.pages(ROOT / "bench" / "results").items()}
    return found


def main() -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run tools/docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
