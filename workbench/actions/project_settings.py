"""Settings of a project, each change of which stands in the audit trail. Knows no screen."""

from typing import Any, Final

from spinf_serve.packs.errors import Unusable
from spinf_serve.workbench import audit
from spinf_serve.workbench.desk import Desk

WORDS: Final = {
    "per_day": "messages a day",
    "mask": "mask personal data",
    "mask_orders": "mask order numbers too",
    "open_texts": "show texts of packs about harm at once",
    "user": "own name",
    "hour_price": "price of an hour",
    "other_server": "address of another server",
}
"""Setting -> what the audit trail calls it."""

MOST_A_DAY: Final = 10_000_000_000
MOST_NAME: Final = 80


def change(desk: Desk, user: str, name: str, value: Any) -> bool:
    """Change a setting. Returns whether it was another before.

    Args:
        name: of `WORDS`.
        value: None, False, 0 or "" for as it was at first; an hour may cost 0.

    Raises `Unusable` for a value that cannot be.
    """
    if name == "per_day" and value is not None and not 0 <= value <= MOST_A_DAY:
        raise Unusable(f"messages a day are a number from 0 to {MOST_A_DAY:,}")
    if name == "user" and value:
        value = " ".join(str(value).split())
        if len(value) > MOST_NAME or not value.isprintable():
            raise Unusable(f"a name has at most {MOST_NAME} characters, all of them printable")
    if name != "hour_price":
        value = value or None
    before = desk.settings().get(name)
    if before == value:
        return False
    desk.set(**{name: value})
    audit.note(desk, user, "change setting", WORDS[name], before=before, after=value)
    return True
