"""The packs of the documented runs: few questions, since a CPU answers them."""

from collections.abc import Mapping

_SPAM = """\
pack: real/spam
version: 1.0.0
name: Spam
contexts:
  default: "E-mail: {X}\\n"
scoring:
  queries:
    - id: kind
      template: "\\nThis e-mail is{?}"
      options: [spam, personal, news, technical, other]
      categories: {spam: spam}
    - id: folder
      template: "\\nMove it to the folder:{?}"
      options: [spam, inbox]
      category: spam
    - id: wants
      template: "\\nThe sender wants to{?}"
      options: [sell, discuss]
      category: spam
    - id: sender
      template: "\\nThe sender is a{?}"
      options: [scammer, colleague, company, developer]
      categories: {scammer: spam, company: spam}
    - id: topic
      template: "\\nIt is about{?}"
      options: [money, software, news, health, people]
      categories: {money: spam, health: spam}
decision: {mode: per_category}
"""

_R8_CLASSES: Mapping[str, str] = {
    "earn": "earnings",
    "acq": "acquisition",
    "crude": "oil",
    "trade": "trade",
    "money-fx": "currency",
    "interest": "interest",
    "ship": "shipping",
    "grain": "grain",
}
# A category's name is an identifier.
R8_CATEGORIES: Mapping[str, str] = {name: name.replace("-", "_") for name in _R8_CLASSES}
"""Class of the dataset -> category of the pack."""


def _r8() -> str:
    listed = ", ".join(_R8_CLASSES.values())
    topics = ", ".join(f"{word}: {R8_CATEGORIES[name]}" for name, word in _R8_CLASSES.items())
    frames = {"topic": "Topic:", "about": "This article is about", "section": "Section:"}
    queries = "".join(
        f'    - id: {id}\n      template: "\\n{text}{{?}}"\n'
        f"      options: [{listed}, other]\n      categories: {{{topics}}}\n"
        for id, text in frames.items()
    )
    return (
        "pack: real/r8\nversion: 1.0.0\nname: Reuters R8\n"
        'contexts:\n  default: "News: {X}\\n"\n'
        f"scoring:\n  queries:\n{queries}"
        "decision: {mode: per_category}\n"
        f"route: {{categories: [{', '.join(R8_CATEGORIES.values())}]}}\n"
    )


_REVIEWS = """\
pack: real/reviews
version: 1.0.0
name: Film reviews
contexts:
  default: "Film review: {X}\\n"
scoring:
  queries:
    - id: sentiment
      template: "\\nSentiment:{?}"
      options: [positive, negative]
      category: positive
    - id: film
      template: "\\nThe film is{?}"
      options: [great, terrible]
      category: positive
    - id: verdict
      template: "\\nThe reviewer{?}"
      options: [loved it, hated it]
      category: positive
    - id: advice
      template: "\\nThe reader should{?}"
      options: [see it, skip it]
      category: positive
    - id: words
      template: "\\nThe words are words of{?}"
      options: [praise, blame]
      category: positive
decision: {mode: per_category}
"""

PACKS: Mapping[str, str] = {"spam": _SPAM, "r8": _r8(), "reviews": _REVIEWS}
"""Dataset -> its pack in the author's form."""
