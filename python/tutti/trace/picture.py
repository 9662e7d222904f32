"""The time line as one SVG: a row for each thread, time to the right, a bar for each call, pale while it waits."""

from __future__ import annotations

from html import escape

from tutti.trace.chrome import arguments
from tutti.trace.recorders import Call, Job

WIDTH, LEFT, TOP, ROW, GAP = 1100, 90, 64, 18, 6
NARROWEST = 0.6  # pixels; calls that are closer than that together share a bar
INK, SOFT, PAPER, GRID = "#1f2a30", "#6b7a82", "#ffffff", "#e3e8ea"
COLOURS = {"MPI_Allreduce": "#00897b", "MPI_Barrier": "#5c6bc0", "MPI_Bcast": "#f0a30a", "MPI_Reduce": "#7cb342",
           "MPI_Allgather": "#8e24aa", "MPI_Alltoall": "#d81b60"}
MESSAGE, OTHER = "#1e88e5", "#90a4ae"


def _colour(call: Call) -> str:
    return COLOURS.get(call.name.replace("MPI_I", "MPI_").replace("MPI_a", "MPI_A"),
                       MESSAGE if call.more["peer"] is not None else OTHER)


def _kind(call: Call) -> str:
    return call.name if _colour(call) not in (MESSAGE, OTHER) else "messages" if _colour(call) == MESSAGE else "other calls"


def picture(job: Job, begin: int, end: int) -> str:
    """Of the time from `begin` to `end`."""
    rows = [(rank.rank, lane, [call for call in rank.calls if call.lane == lane])
            for rank in job.ranks for lane in sorted({call.lane for call in rank.calls}) or [0]]
    height = TOP + len(rows) * (ROW + GAP) + 30
    scale = (WIDTH - LEFT - 20) / max(1, end - begin)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             f'role="img" font-family="Helvetica, Arial, sans-serif" font-size="12">',
             f"<title>{escape(job.program)}, job {escape(job.name)}</title>",
             f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>']
    parts += _legend(job) + _axis(end - begin, scale, height)
    for number, (rank, lane, calls) in enumerate(rows):
        y = TOP + number * (ROW + GAP)
        label = f"rank {rank}" + (f", thread {lane}" if lane else "")
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end" fill="{INK}">{label}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 20}" height="{ROW}" fill="{GRID}"/>')
        parts += _bars(calls, begin, end, scale, y)
    return "\n".join([*parts, "</svg>", ""])


def _legend(job: Job) -> list[str]:
    kinds = {_kind(call): _colour(call) for rank in job.ranks for call in rank.calls}
    parts, x = [f'<text x="{LEFT}" y="20" fill="{INK}" font-weight="bold">{escape(job.program)}, {job.size} ranks</text>'], LEFT
    for kind in sorted(kinds):
        parts.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{kinds[kind]}"/>')
        parts.append(f'<text x="{x + 17}" y="40" fill="{SOFT}">{escape(kind)}</text>')
        x += 34 + 7 * len(kind)
    return [*parts, f'<text x="{x}" y="40" fill="{SOFT}">pale: waits for others; between the bars: outside MPI</text>']


def _axis(span: int, scale: float, height: int) -> list[str]:
    """Some five to ten marks, at round times."""
    step = 10 ** (len(str(max(1, span))) - 1)
    while span / step < 5 and step > 1:
        step //= 2 if str(step)[0] in "12" else 5
    unit, name = next((unit, name) for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns")) if step >= unit
                      or unit == 1)
    parts = []
    for at in range(0, span + 1, step):
        x = LEFT + at * scale
        parts.append(f'<path d="M{x:.1f},{TOP - 6} V{height - 22}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="{SOFT}">{at / unit:g} {name}</text>')
    return parts


def _bars(calls: list[Call], begin: int, end: int, scale: float, y: float) -> list[str]:
    """What is too small to be seen alone is drawn with what follows."""
    parts: list[str] = []
    right = float(LEFT)  # of the last bar
    for call in calls:
        last = call.end if call.finished else end
        if last < begin or call.begin > end:
            continue
        x0, x1 = (LEFT + (min(max(at, begin), end) - begin) * scale for at in (call.begin, last))
        x1 = max(x1, x0 + NARROWEST)
        if x1 - right < NARROWEST:
            continue
        x0 = max(x0, right)
        right = x1
        about = "; ".join(f"{name}: {value}" for name, value in arguments(call).items())
        opacity = ' fill-opacity="0.45"' if call.waited or not call.finished else ""
        parts.append(f'<rect x="{x0:.2f}" y="{y}" width="{x1 - x0:.2f}" height="{ROW}" fill="{_colour(call)}"{opacity}>'
                     f"<title>{escape(call.name)}, {(last - call.begin) / 1e3:.1f} µs; {escape(about)}</title></rect>")
    return parts
