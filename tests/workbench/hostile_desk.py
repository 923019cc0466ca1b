"""A project in which every name and text that others can choose would be fetched, run or drawn."""

import io
import re
from pathlib import Path

from spinf_serve.workbench import audit
from spinf_serve.workbench.actions import trying, uploads
from spinf_serve.workbench.desk import Desk
from tests.workbench.data_desks import example


def evil(name: str) -> str:
    """A picture of elsewhere that names where it was drawn, and what else Markdown and HTML know."""
    return (
        f"![{name}](http://elsewhere.invalid/{name}.png) <img src=x onerror='window.hasRun=1'>"
        " [l](javascript:window.hasRun=1) :material/delete: $x^2$ `c` :red[r] </script>"
    )


def hostile(folder: Path) -> Desk:
    """The example with such rows, slices, groups, splits, labels, notes, packs, changes and files."""
    desk = example(folder)
    with desk.project.open(write=True) as connection:
        for table in ("dataset", "item", "label"):
            column = "name" if table == "dataset" else "dataset"
            connection.execute(f"UPDATE {table} SET {column} = ?", [evil("data")])
        rows = connection.execute("SELECT row_id FROM item WHERE number % 10 = 1").fetchall()
        for number, (row,) in enumerate(rows):
            new = evil(f"row{number}")
            connection.execute(
                "UPDATE item SET row_id = ?, text = ?, slices = MAP {?: ?}, grp = ?, split = ?"
                " WHERE row_id = ?",
                [new, evil("text"), evil("slice"), evil("value"), evil(f"group{number % 5}"),
                 evil("split"), row],
            )  # fmt: skip
            connection.execute(
                "UPDATE label SET row_id = ?, annotator = ? WHERE row_id = ?",
                [new, evil("annotator"), row],
            )
            connection.execute(
                "INSERT INTO note VALUES (?, ?, 'angry', ?, now()::TIMESTAMP, ?)",
                [evil("data"), new, evil("noter"), evil("note")],
            )
        connection.execute("UPDATE label SET target = ? WHERE target = 'case'", [evil("target")])
    file = folder / "packs" / "triage" / "pack.yaml"
    text = re.sub(
        r"^( *)(name|label|description): .*$",
        lambda found: f'{found[1]}{found[2]}: "{evil("pack-" + found[2])}"',
        file.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    file.write_text(text, "utf-8")
    (folder / "packs" / "![f](x) `f` *f*.yaml").write_text("pack: [\n")
    audit.note(desk, evil("user"), evil("action"), evil("subject"), **{evil("detail"): evil("is")})
    desk.set(user=evil("me")[:80], **{"guideline:angry": evil("guideline")})
    cells = f'id,"{evil("column")}",label\n1,"{evil("cell")}",maybe\n'.encode()
    uploads.keep_file(desk, evil("uploader"), "![u](x).csv", io.BytesIO(cells))
    trying.note_tried(desk, trying.Content(evil("tried")))
    return desk
