"""The words of the workbench, each explained once, for readers who know messages and no models.

Help texts of fields and the glossary show the same definitions. Knows no screen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Term:
    """A word.

    Attributes:
        word: as pages write it.
        theme: under which the glossary lists it.
        means: what it is, in one to three sentences.
        also: other words for it, which are found too.
    """

    word: str
    theme: str
    means: str
    also: tuple[str, ...] = ()


THEMES: Final = ("The pack", "The answers", "The rows", "The cuts", "The work")

TERMS: Final = (
    # The pack
    Term(
        "pack",
        "The pack",
        "One file with everything that is asked about a message and what follows from the answers:"
        " questions, categories, cuts and the decision.",
        ("prompt pack",),
    ),
    Term(
        "content",
        "The pack",
        "What a pack is asked about: a message, a review, a post. Its text is put where a context"
        " has {X}.",
        ("message", "text"),
    ),
    Term(
        "context",
        "The pack",
        "How the content is introduced to the model, such as \"Support ticket: …\". The first one is"
        " used unless a call names another.",
    ),
    Term(
        "parameter",
        "The pack",
        "A value that a context needs besides the content, such as the name of the shop.",
    ),
    Term(
        "question",
        "The pack",
        "The beginning of a sentence that the model goes on with by one of the options, such as"
        " \"The writer is\" with angry and calm.",
        ("query",),
    ),
    Term(
        "template",
        "The pack",
        "The wording of a question. It ends in {?}, where one of the options is read, and may have"
        " placeholders such as {F}.",
        ("wording",),
    ),
    Term(
        "option",
        "The pack",
        "One of the words that may stand at the end of a question. Short everyday words work best.",
        ("options",),
    ),
    Term(
        "placeholder",
        "The pack",
        "A name in braces, such as {F}, for which several values are put in, so that one wording"
        " asks about many things.",
        ("F",),
    ),
    Term(
        "grid",
        "The pack",
        "All wordings that come out when every value is put into every placeholder.",
        ("combinations", "values"),
    ),
    Term(
        "category",
        "The pack",
        "Something that holds for a message or does not, such as \"angry\". Several questions may"
        " speak for one category; it has one score.",
        ("categories",),
    ),
    Term(
        "sign",
        "The pack",
        "Which of two options speaks for the category: the first, or with sign -1 the second.",
    ),
    Term(
        "requires",
        "The pack",
        "Categories that must be flagged too; without them this one is not flagged either.",
    ),
    Term(
        "decides",
        "The pack",
        "Whether a category takes part in the decision. One that does not is still scored and"
        " shown.",
    ),
    Term(
        "read",
        "The pack",
        "How the answer to one question becomes one number for one category. Pages make reads from"
        " the category that a question speaks for.",
        ("reads",),
    ),
    Term(
        "view",
        "The pack",
        "Questions that look at the same thing in one way. A category may average within each view"
        " first, so that many similar questions do not outvote one other.",
    ),
    Term(
        "decision",
        "The pack",
        "What the pack says about a message as a whole: unsafe when a category that decides is"
        " flagged, or in the mode \"max\" when the highest score reaches a cut.",
        ("verdict",),
    ),
    Term(
        "mode",
        "The pack",
        "How the decision is made: from each category's own cut (per category), from the highest"
        " score (max), or by a small fitted formula over all of them (micro layer).",
    ),
    Term(
        "critical",
        "The pack",
        "A category that decides alone when it is flagged, whatever the mode.",
    ),
    Term(
        "route",
        "The pack",
        "Sends a message to the category with the highest score, unless that one is too low or leads"
        " by too little; then the answer is the word for \"unsure\".",
    ),
    Term("margin", "The pack", "How far the first category has to lead over the second to be routed to."),
    Term("minimum", "The pack", "How high the first category's score has to be to be routed to."),
    Term("abstain", "The pack", "The answer of a route when no category is clear enough."),
    Term(
        "on_long",
        "The pack",
        "What happens to a message longer than the model reads at once: it is refused, or read in"
        " pieces whose answers are combined.",
        ("chunks", "long contents"),
    ),
    Term(
        "lint",
        "The pack",
        "A check of the questions that finds wording which works badly: options that nobody would"
        " write there, answers that never move, two questions that say the same.",
    ),
    Term("waiver", "The pack", "A finding of lint that is accepted, with the reason."),
    Term(
        "version",
        "The pack",
        "A published state of a pack that never changes. Work goes on in the file; a higher version"
        " is published when it is ready.",
        ("published",),
    ),
    # The answers
    Term(
        "p",
        "The answers",
        "How likely the model finds an option, compared with the other options of the question:"
        " between 0 and 1, and 1 for all options together.",
        ("probability",),
    ),
    Term(
        "floor",
        "The answers",
        "The answer on no message at all: what the model would say from the wording alone. One"
        " number for each option, the same for every row.",
        ("floor_p",),
    ),
    Term(
        "lift",
        "The answers",
        "How much the message moves the answer: p minus the floor. Above 0 the message speaks for"
        " the option, below 0 against it.",
    ),
    Term(
        "logit lift",
        "The answers",
        "The lift on a scale that keeps small probabilities apart: from 1 % to 2 % counts as much as"
        " from 10 % to 18 %.",
    ),
    Term(
        "residual",
        "The answers",
        "The share of the model's belief that lies on other words than the options. Near 1 the"
        " options are not what one would write there.",
    ),
    Term(
        "score",
        "The answers",
        "What the answers say about a category, as one number between 0 and 1. Cuts are set on it.",
    ),
    Term(
        "calibrated",
        "The answers",
        "A score corrected so that it can be read as a share: of messages with 80 %, about 80 in 100"
        " hold.",
        ("calibrated score",),
    ),
    Term(
        "z",
        "The answers",
        "A read's number against ordinary messages: 0 is usual, 2 is far above what is usual.",
    ),
    Term(
        "percentile",
        "The answers",
        "The share of ordinary messages with a lower score.",
        ("normal quantiles",),
    ),
    Term("flagged", "The answers", "The score of a category reaches its cut.", ("flag",)),
    Term(
        "band",
        "The answers",
        "What to do by score: act at once, have a person review it, or let it pass.",
        ("bands", "act", "review", "pass"),
    ),
    Term(
        "reason",
        "The answers",
        "Which category, with which score and cut, made the decision.",
    ),
    Term(
        "refused",
        "The answers",
        "A row that could not be read, such as one too long for the model. It stays counted and"
        " named; it is never dropped in silence.",
    ),
    # The rows
    Term("row", "The rows", "One message with its id, its labels and what is known about it.", ("rows",)),
    Term("dataset", "The rows", "Rows that were imported under one name.", ("data",)),
    Term(
        "label",
        "The rows",
        "What a person says about a row: yes, no, or unsure. No label means not known, never no.",
        ("labels",),
    ),
    Term(
        "unsure",
        "The rows",
        "The label of a person who could not tell. Such rows take no part in figures.",
    ),
    Term(
        "drawn",
        "The rows",
        "How a row was chosen: at random, from a queue that shows hard rows first, or imported"
        " without saying. Only rows drawn at random can carry a promise.",
        ("random", "queue", "import"),
    ),
    Term(
        "weight",
        "The rows",
        "How many messages of the traffic a row stands for, when some were drawn more often than"
        " others.",
    ),
    Term(
        "group",
        "The rows",
        "Rows that belong together, such as one thread or near copies. They never lie in two splits,"
        " and count once for a promise.",
    ),
    Term(
        "split",
        "The rows",
        "A part of a dataset with a purpose: one to fit on, one (test) that is held back to check"
        " with.",
        ("fit", "test"),
    ),
    Term(
        "slice",
        "The rows",
        "Rows that share something, such as a language, so that figures can be looked at for each.",
    ),
    Term(
        "conflict",
        "The rows",
        "A row on which people who labelled it disagree. It counts for nothing until it is settled.",
    ),
    Term(
        "adjudication",
        "The rows",
        "Settling a conflict: one person decides which label holds.",
    ),
    Term(
        "agreement",
        "The rows",
        "How often two people give a row the same label. Kappa is the same beyond what chance alone"
        " would give: 1 is perfect, 0 is chance.",
        ("kappa",),
    ),
    Term("base rate", "The rows", "The share of the traffic for which a category holds."),
    # The cuts
    Term(
        "cut",
        "The cuts",
        "The score from which on a category is flagged. Higher means fewer false alarms and more"
        " misses.",
        ("threshold",),
    ),
    Term(
        "precision",
        "The cuts",
        "Of the flagged messages, the share for which the category really holds. 90 % means one"
        " false alarm in ten flags.",
    ),
    Term(
        "recall",
        "The cuts",
        "Of the messages for which the category holds, the share that is flagged. 80 % means two in"
        " ten are missed.",
    ),
    Term(
        "npv",
        "The cuts",
        "Of the messages that are not flagged, the share for which the category really does not"
        " hold.",
        ("negative predictive value",),
    ),
    Term("flag rate", "The cuts", "The share of all messages that is flagged.", ("coverage",)),
    Term(
        "target",
        "The cuts",
        "What a cut is to keep, such as precision of at least 90 %.",
    ),
    Term(
        "promise",
        "The cuts",
        "A cut for which an exact test on labelled rows shows that the target holds in the traffic,"
        " except with the small chance delta.",
        ("certificate",),
    ),
    Term(
        "delta",
        "The cuts",
        "The chance that a promise is wrong; 5 % unless stated. Every try on the same rows spends a"
        " part of it.",
    ),
    Term(
        "interval",
        "The cuts",
        "Where the true figure lies with 95 % certainty, as far as so few rows can tell.",
        ("confidence interval",),
    ),
    Term(
        "proof",
        "The cuts",
        "What stands behind a promise: rows, hits, model, date. It is written into the pack's file.",
    ),
    Term(
        "cost",
        "The cuts",
        "How many false alarms one miss is worth. The cheapest cut follows from it; nothing is"
        " promised of it.",
    ),
    Term(
        "confusion",
        "The cuts",
        "Four counts: rightly flagged, wrongly flagged, rightly left, wrongly left.",
        ("true positives", "false positives"),
    ),
    Term(
        "ROC area",
        "The cuts",
        "The chance that a message for which the category holds scores above one for which it does"
        " not: 0.5 is guessing, 1 is perfect. No cut is needed for it.",
        ("AUC",),
    ),
    Term(
        "calibration",
        "The cuts",
        "Whether scores are shares: whether of the messages with 80 % about 80 in 100 really hold.",
        ("reliability",),
    ),
    Term(
        "calibration error",
        "The cuts",
        "How far scores are from the shares that really hold, on average. It is never quite 0: few"
        " rows give some by chance alone, which stands beside it.",
        ("ece",),
    ),
    Term(
        "Brier score",
        "The cuts",
        "The mean squared distance of scores from what is true: 0 is perfect, lower is better.",
        ("brier",),
    ),
    Term(
        "draft",
        "The cuts",
        "A pack without numbers for this model: it answers questions and decides nothing.",
    ),
    Term(
        "provisional",
        "The cuts",
        "A pack with numbers for this model of which nothing is promised.",
    ),
    Term(
        "certified",
        "The cuts",
        "A pack whose file proves a promise for every cut in force, on this very model.",
    ),
    # The work
    Term("fit", "The work", "Finding the numbers of a pack, above all its cuts, from labelled rows."),
    Term(
        "run",
        "The work",
        "Asking a model a pack's questions about many rows. Answers are kept: what was asked once is"
        " never asked again.",
        ("job",),
    ),
    Term(
        "sheet",
        "The work",
        "A table of messages without labels that comes back with scores, decisions and reasons.",
    ),
    Term(
        "model",
        "The work",
        "What reads the messages. Numbers that were fitted on one model hold on that one only.",
    ),
    Term(
        "fingerprint",
        "The work",
        "A short code for the model, its number format and the machine. When it changes, kept scores"
        " and promises are no longer of what answers now.",
        ("bits", "digest"),
    ),
    Term(
        "baseline",
        "The work",
        "A stored evaluation that a later one is compared with, to see whether anything got worse.",
    ),
    Term(
        "regression",
        "The work",
        "Something that got worse than the baseline beyond what chance explains.",
    ),
    Term(
        "drift",
        "The work",
        "Today's messages differ from those that the cuts were chosen on.",
    ),
    Term(
        "unsaved changes",
        "The work",
        "Changes to a pack that are kept as you type and are not in its file yet. Save puts them"
        " there.",
        ("autosave", "revision"),
    ),
    Term(
        "approver",
        "The work",
        "Who may publish a version and put promised cuts in force. Everybody may where no names were"
        " given at the start.",
    ),
    Term(
        "audit trail",
        "The work",
        "The list of all changes in this project: when, who, what.",
        ("history",),
    ),
)  # fmt: skip


def _index() -> Mapping[str, Term]:
    found: dict[str, Term] = {}
    # A word of its own goes before the same word as another one's second name.
    for term in TERMS:
        found[term.word.casefold()] = term
    for term in TERMS:
        for name in term.also:
            found.setdefault(name.casefold(), term)
    return found


_BY_NAME: Final = _index()


def help(word: str) -> str:
    """What a word means, as the help text of a field. Raises `KeyError` for an unknown word."""
    return _BY_NAME[word.casefold()].means


def found(text: str = "") -> list[Term]:
    """Terms with a text in word, other words or meaning, in the order of the themes.

    A term whose word begins with the text stands first.
    """
    wanted = " ".join(text.casefold().split())
    hits = [
        term
        for term in TERMS
        if wanted in "\n".join((term.word, *term.also, term.means)).casefold()
    ]
    return sorted(hits, key=lambda term: _rank(term, wanted)) if wanted else hits


def _rank(term: Term, wanted: str) -> int:
    names = [name.casefold() for name in (term.word, *term.also)]
    if wanted in names:
        return 0
    return 1 if any(name.startswith(wanted) for name in names) else 2
