"""Prints what a run makes of the first rows of a file, for preflight: `python -m finetune.rows.first`.

Standard input is JSON with the section data of a recipe, the file, and how many rows to read.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from finetune.rows.sources import of_file
from finetune.rows.store import Reader, Unusable, checked
from finetune.settings.sections import Data
from shared.errors import InputError


def first_rows(data: Data, file: Path, count: int) -> dict[str, Any]:
    """The columns, and for each row its turns, or why it is left out. Raises InputError for a broken file."""
    reader = Reader(data)
    rows = [*islice(reader.rows([of_file(data, file, file.name)]), count)]
    outcomes = []
    for row in map(checked, rows) if data.image else rows:
        if isinstance(row, Unusable):
            outcomes.append({"reason": row.reason, "detail": row.detail})
        else:
            outcomes.append({"turns": json.loads(row[-1]["row"])["turns"]})
    return {"columns": [*reader.keys], "outcomes": outcomes, "whole": len(rows) < count}


def main() -> None:
    """Print the first rows, or end with one line."""
    asked = json.load(sys.stdin)
    try:
        print(json.dumps(first_rows(Data(**asked["data"]), Path(asked["file"]), asked["count"])))
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
