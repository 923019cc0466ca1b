"""The pages in the order of the work, each imported when it is opened."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page.

    Attributes:
        path: its place in addresses, and its module below `pages`.
        title, icon: as the navigation shows it.
        purpose: what it is for, in words a support lead knows.
    """

    path: str
    title: str
    icon: str
    purpose: str

    def draw(self) -> None:
        """One run of the page."""
        module = import_module(f"spinf_serve.workbench.pages.{self.path}")
        draw: Callable[[], None] = module.draw
        draw()


PAGES: Final = (
    PageEntry("pack", "Pack", ":material/edit_note:", "Write the questions and see what they ask."),
    PageEntry("try_it", "Try", ":material/science:", "Ask the pack about a text, right now."),
    PageEntry("data", "Data", ":material/table_rows:", "Bring in texts, and label them."),
    PageEntry("run", "Run", ":material/play_circle:", "Ask a model about many texts."),
    PageEntry("scores", "Scores", ":material/scatter_plot:", "See what it answered, text by text."),
    PageEntry("thresholds", "Thresholds", ":material/tune:", "Choose cuts that hold a promise."),
    PageEntry(
        "calibration", "Calibration", ":material/balance:", "Is 80 % right 80 % of the time?"
    ),
    PageEntry("compare", "Compare", ":material/compare_arrows:", "Is the new pack better?"),
    PageEntry(
        "report", "Report", ":material/description:", "Hand it over, and keep it true in CI."
    ),
    PageEntry("history", "History", ":material/history:", "Who changed what, and when."),
)
