"""What `tutti sim` writes besides its table: pictures, and schedules for other simulators."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tutti.errors import UserError
from tutti.report.files import write_text
from tutti.report.table import size_text

MOST_RANKS = 256      # of a timeline that can still be read
Message = tuple[int, int, int, float, float]  # from, to, bytes, posted, visible (us)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=140)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time by nodes where there are several, else by bytes; algorithms side by side at a single point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(6, 4), constrained_layout=True)
    by = next((key for key in ("nodes", "bytes") if len({row[key] for row in rows}) > 1), None)
    if by is None:
        panel.bar([row["alg"] for row in rows], [row["us"] for row in rows], color="#1b6ca8")
    else:
        other = "bytes" if by == "nodes" else "nodes"
        for alg, fixed in dict.fromkeys((row["alg"], row[other]) for row in rows):
            mine = sorted((row[by], row["us"]) for row in rows if (row["alg"], row[other]) == (alg, fixed))
            label = f"{alg}, {size_text(fixed) if other == 'bytes' else f'{fixed} nodes'}"
            panel.plot(*zip(*mine, strict=True), marker="o", markersize=3.5, label=label)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel(by)
        panel.legend(fontsize=8, frameon=False)
    panel.set_ylabel("us")
    panel.set_title(f"{rows[0]['op']} on {rows[0]['net']}, simulated", fontsize=10)
    panel.grid(True, alpha=0.25)
    _save(figure, path)
    pyplot.close(figure)


def draw_timeline(messages: list[Message], row: dict[str, Any], path: Path) -> None:
    """A line from who puts, when it is posted, to who gets it, when it is visible."""
    if row["np"] > MOST_RANKS:
        raise UserError(f"--timeline: {row['np']} ranks cannot be read; at most {MOST_RANKS}")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    figure, panel = pyplot.subplots(figsize=(8, max(2.5, min(10.0, row["np"] * 0.28))), constrained_layout=True)
    lines = [[(posted, source), (visible, target)] for source, target, _, posted, visible in messages]
    panel.add_collection(LineCollection(lines, colors="#1b6ca8", linewidths=0.8))
    panel.plot([m[3] for m in messages], [m[0] for m in messages], "o", markersize=2.5, color="#d1772f", label="put")
    panel.plot([m[4] for m in messages], [m[1] for m in messages], "o", markersize=2.5, color="#1b6ca8", label="visible")
    panel.set_ylim(row["np"] - 0.5, -0.5)
    panel.set_xlabel("us")
    panel.set_ylabel("rank")
    panel.set_title(f"{row['op']} {row['alg']}, {size_text(row['bytes'])}, on {row['net']}", fontsize=10)
    panel.legend(fontsize=8, frameon=False)
    _save(figure, path)
    pyplot.close(figure)


def goal(messages: list[Message], ranks: int) -> str:
    """The messages as a GOAL schedule (Hoefler, Siebert, Lumsdaine 2009), the input of LogGOPSim. A send requires what
    its rank had sent before it, and the last message that had arrived by then; processor time is not in it."""
    steps: dict[int, list[tuple[float, int, str, int]]] = defaultdict(list)
    for tag, (source, target, size, posted, visible) in enumerate(messages):
        steps[source].append((posted, 1, f"send {max(size, 1)}b to {target} tag {tag}", tag))
        steps[target].append((visible, 0, f"recv {max(size, 1)}b from {source} tag {tag}", tag))
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines += ["", f"rank {rank} {{"]
        last_send = last_arrival = None
        for number, (_, is_send, text, _) in enumerate(sorted(steps[rank]), 1):
            lines.append(f"l{number}: {text}")
            if is_send:
                lines += [f"l{number} requires l{needed}" for needed in (last_send, last_arrival) if needed is not None]
                last_send = number
            else:
                last_arrival = number
        lines.append("}")
    return "\n".join(lines) + "\n"


def write_goal(messages: list[Message], ranks: int, path: Path) -> None:
    write_text(path, goal(messages, ranks))
