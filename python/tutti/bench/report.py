"""`tutti bench report`: pages of results, and a scorecard of goals, from the data in bench/results.

    SUBJECT.toml          title, lead, the tables with command, machine and date, single readings
    SUBJECT/NAME.csv      the cells of a table
    goals.toml            what was wanted, and where the value stands

Some tables are computed from measurements that are kept whole (coll.csv, own.csv, predict.csv): tutti.bench.summaries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tutti.bench import summaries
from tutti.bench.summaries import Table
from tutti.errors import UserError
from tutti.report.files import read_toml

MADE = "<!-- Made by `tutti bench report` from bench/results/{source}; change the data, not this page. -->\n"
NUMBER = re.compile(r"[+-]?\d{4,}(\.\d+)?")


def command(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the measurements.")] = Path("bench/results"),
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the pages.")] = Path("docs/results"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing, and fail if a page differs from the data.")] = False,
) -> None:
    """Make the pages of results and the scorecard from the measurements that are kept."""
    if not (data / "goals.toml").is_file():
        raise UserError(f"{data} has no goals.toml: --data must name the measurements (bench/results of a checkout)")
    made = pages(data)
    stale = [name for name, text in made.items() if not (out / name).is_file() or (out / name).read_text() != text]
    if check:
        if stale:
            raise UserError(f"out of date: {', '.join(stale)} (tutti bench report makes them anew)")
        return
    out.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (out / name).write_text(made[name])
    goals = scores(data)
    met = sum(goal["met"] for goal in goals)
    print(f"{len(made)} pages in {out}, {len(stale)} of them new or changed; {met} of {len(goals)} goals met")


def pages(data: Path) -> dict[str, str]:
    """The text of each page, by the name of its file."""
    made = {f"{subject}.md": page(data, subject) for subject in subjects(data)}
    return {"README.md": scorecard(data), **made}


def subjects(data: Path) -> list[str]:
    return read(data / "goals.toml")["subjects"]


def read(path: Path) -> dict[str, Any]:
    return read_toml(path, "tutti bench report")


# ---- a subject -----------------------------------------------------------------------------------


def page(data: Path, subject: str) -> str:
    """A subject's page: tables first, with what they were made by, then readings that stand alone."""
    content = read(data / f"{subject}.toml")
    parts = [f"# {content['title']}\n", MADE.format(source=f"{subject}.toml")]
    if "lead" in content:
        parts.append(content["lead"].strip() + "\n")
    for picture in [content["picture"]] if "picture" in content else content.get("pictures", []):
        parts.append(f"![{picture['title']}](../pictures/{picture['file']})\n")
    for table in content.get("table", []):
        parts += section(data, subject, table)
    if "readings" in content:
        parts += ["## Other readings\n", markdown(readings(content["readings"]["entries"]))]
    return "\n".join(parts)


def section(data: Path, subject: str, table: dict[str, Any]) -> list[str]:
    if "computed" in table:
        cells = summaries.COMPUTED[table["computed"]](data)
    else:
        cells = summaries.load(data / subject / f"{table['name']}.csv")
    unit = f" ({table['unit']})" if "unit" in table else ""
    parts = [f"## {table['title']}{unit}\n", markdown(bold(cells, table), table.get("group", 0))]
    if "text" in table:
        parts.append(table["text"].strip() + "\n")
    parts.append(provenance(table))
    return parts


def provenance(entry: dict[str, Any]) -> str:
    """Where figures come from, in a line each."""
    lines = [f"* **Command**: {code(entry['command'])}"]
    if "machine" in entry:
        lines.append(f"* **Machine**: {entry['machine']}")
    lines.append(f"* **Recorded**: {entry['date']}")
    if "computed" in entry:
        lines.append(f"* **Cells**: `bench/results/{summaries.SOURCES[entry['computed']]}`")
    return "\n".join(lines) + "\n"


def code(command_line: str) -> str:
    """A command as code, unless it says in words how something was found."""
    return command_line if "`" in command_line or command_line.startswith(("(", "the ")) else f"`{command_line}`"


def readings(entries: list[dict[str, Any]]) -> Table:
    return Table(["what", "value", "command, machine", "recorded"],
                 [[entry["what"], entry["value"], ", ".join(filter(None, [code(entry["command"]) if "command" in entry else "",
                                                                          entry.get("machine", "")])), str(entry["date"])]
                  for entry in entries])


# ---- tables --------------------------------------------------------------------------------------


def bold(table: Table, how: dict[str, Any]) -> Table:
    """Marks the columns of `bold` where they are at or below the one of `bold_at_most`."""
    if "bold_at_most" not in how:
        return table
    rows = [list(row) for row in table.rows]
    for limit, columns in how["bold_at_most"].items():
        for row in rows:
            for column in columns:
                place = table.columns.index(column)
                if row[place] and float(row[place]) <= float(row[table.columns.index(limit)]):
                    row[place] = f"**{grouped(row[place])}**"
    return Table(table.columns, rows)


def markdown(table: Table, group: int = 0) -> str:
    """A table; of the first `group` columns a value that repeats the one above is left out."""
    lines = [table.columns, ["---"] * len(table.columns)]
    above: list[str] = []
    for row in table.rows:
        shown = list(row)
        for place in range(group):
            if above[:place + 1] == row[:place + 1]:
                shown[place] = ""
        lines.append([grouped(cell) for cell in shown])
        above = row
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def grouped(cell: str) -> str:
    """Numbers from 1,000 on with commas."""
    if not NUMBER.fullmatch(cell):
        return cell
    whole, _, rest = cell.partition(".")
    return f"{int(whole):,}" + (f".{rest}" if rest else "")


# ---- goals ---------------------------------------------------------------------------------------


def scores(data: Path) -> list[dict[str, Any]]:
    """Each goal with its value and whether it is met."""
    goals = []
    for goal in read(data / "goals.toml")["goal"]:
        value = value_of(data, goal["value"])
        met = value <= goal["at_most"] if "at_most" in goal else value >= goal["at_least"]
        goals.append({**goal, "value": value, "met": met})
    return goals


def value_of(data: Path, where: Any) -> float:
    """A number; or one of a table: the least or the greatest of some columns in the rows that fit."""
    if not isinstance(where, dict):
        return float(where)
    if "computed" in where:
        return summaries.VALUES[where["computed"]](data, *where.get("of", []))
    table = summaries.load(data / f"{where['table']}.csv")
    place = table.columns.index
    wanted = where.get("where", {}).items()
    rows = [row for row in table.rows if all(row[place(column)] == value for column, value in wanted)]
    cells = [float(row[place(column)]) for row in rows for column in where["columns"]]
    if not cells:
        raise UserError(f"goals.toml: no cell of {where['table']}.csv fits {where}")
    return {"least": min, "greatest": max}[where.get("take", "greatest")](cells)


def scorecard(data: Path) -> str:
    """The first page: goals, then what there is to read."""
    goals = scores(data)
    table = Table(["goal", "wanted", "value", "met", "command", "machine", "recorded", "more"], [
        [goal["goal"], f"at most {goal['at_most']:,}" if "at_most" in goal else f"at least {goal['at_least']:,}",
         f"{value_text(goal['value'])} {goal.get('unit', '')}".strip(), "yes" if goal["met"] else "**no**", code(goal["command"]),
         goal["machine"], str(goal["date"]), f"[{goal['page']}]({goal['page']}.md)"] for goal in goals])
    contents = Table(["page", "what it has"], [
        [f"[{content['title']}]({subject}.md)", content["lead"].strip().split(". ")[0].rstrip(".") + "."]
        for subject in subjects(data) for content in [read(data / f"{subject}.toml")]])
    return "\n".join([
        "# Results\n", MADE.format(source="goals.toml"),
        "Only what was run and seen, with the command that gives it. "
        f"{sum(goal['met'] for goal in goals)} of {len(goals)} goals are met.\n",
        "## Scorecard\n", markdown(table),
        "## Each MPI with tutti\n", "![Each MPI with tutti, times as fast as alone](../pictures/results.svg)\n",
        "## Pages\n", markdown(contents)])


def value_text(value: float) -> str:
    if value == int(value) and abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")
