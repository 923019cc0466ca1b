"""From a plain sentence, such as "the customer threatens to leave", to questions that models answer well.

The rules are those for very small models: the beginning of a sentence that a short everyday word goes on
with, against a word that would stand there otherwise; never true or false. English only, by form and
small word lists: no model is asked. Knows no screen and no file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MOST_CHARS: Final = 200

_SUBJECT: Final = re.compile(
    r"(?:(?:the|a|an|this|some|our|my) )?(customer|client|user|writer|author|sender|buyer|reader|caller|guest|"
    r"patient|student|employee|member|player|reviewer|person|someone|somebody|he|she|they|it|message|text|email|"
    r"e-mail|mail|review|post|comment|ticket|content|tone|matter|case|issue)\b",
    re.IGNORECASE,
)
_THINGS: Final = frozenset(
    "message text email e-mail mail review post comment ticket content tone matter case issue it".split()  # noqa: SIM905
)
_FEELS: Final = frozenset(
    "is are was were feels sounds seems looks gets becomes appears".split()  # noqa: SIM905
)
_DEGREE: Final = frozenset(
    "very really quite rather too so extremely a bit clearly being obviously".split()  # noqa: SIM905
)
_ASKS: Final = re.compile(
    r"(asks? for|wants|needs|demands?|requests?|expects?|insists? on|is waiting for|waits for|would like|is asking for|"
    r"is looking for|looks for|is missing|misses|has lost|lost) (?!to\b)(.+)",
    re.IGNORECASE,
)
_ABOUT: Final = re.compile(
    r"(?:mentions?|talks? about|speaks? about|is about|are about|complains? about|asks? about|reports?|describes?|"
    r"has (?:a )?(?:problem|trouble|question|issue)s? (?:with|about)|is talking about|refers? to|names?|contains?|includes?|writes? about) (.+)",
    re.IGNORECASE,
)
_TO: Final = re.compile(
    r"(.*?\b(?:wants|would like|threatens|plans|intends|tries|asks|demands|promises|refuses|offers|needs|has|is going|"
    r"is about|is trying|is planning|is threatening|hopes|decides|wishes)) to (?!be\b)(\w+)(.*)",
    re.IGNORECASE,
)
_DETERMINER: Final = re.compile(
    r"(?:(?:a|an|the|their|his|her|its|my|our|your|some|any|another|this|that|these|those|more|too many|new) )+",
    re.IGNORECASE,
)
_STOP: Final = re.compile(
    r"\b(?:for|of|with|from|in|on|at|to|about|by|because|when|that|which|who|and|or|but|without|before|after|since|"
    r"is|are|was|were|again|back|very|now|soon|immediately)\b|[,.;:(]",
    re.IGNORECASE,
)

_OPPOSITE: Final[Mapping[str, str]] = {
    # How somebody or something is.
    "angry": "calm", "furious": "calm", "mad": "calm", "upset": "content", "annoyed": "pleased",
    "frustrated": "satisfied", "unhappy": "happy", "happy": "unhappy", "sad": "cheerful",
    "satisfied": "disappointed", "dissatisfied": "satisfied", "disappointed": "satisfied",
    "pleased": "annoyed", "grateful": "angry", "thankful": "angry", "excited": "bored",
    "rude": "polite", "impolite": "polite", "polite": "rude", "friendly": "hostile",
    "hostile": "friendly", "aggressive": "peaceful", "abusive": "polite", "insulting": "polite",
    "threatening": "harmless", "violent": "peaceful", "dangerous": "safe", "sexual": "innocent",
    "sarcastic": "sincere", "ironic": "sincere", "sincere": "sarcastic", "honest": "false",
    "urgent": "ordinary", "critical": "ordinary", "important": "ordinary", "confused": "certain",
    "worried": "relaxed", "anxious": "relaxed", "scared": "relaxed", "afraid": "relaxed",
    "desperate": "relaxed", "impatient": "patient", "patient": "impatient", "fake": "real",
    "broken": "fine", "damaged": "intact", "late": "early", "wrong": "right", "missing": "there",
    "expensive": "cheap", "cheap": "expensive", "positive": "negative", "negative": "positive",
    "racist": "harmless", "hateful": "kind", "offensive": "harmless", "illegal": "legal",
    "spam": "normal", "private": "public", "personal": "general", "sick": "healthy",
    "tired": "awake", "lonely": "happy", "new": "old", "loyal": "new", "interested": "bored",
    # What somebody wants to do.
    "leave": "stay", "cancel": "continue", "quit": "stay", "switch": "stay", "return": "keep",
    "exchange": "keep", "complain": "thank", "thank": "complain", "buy": "wait", "order": "wait",
    "pay": "wait", "sue": "wait", "sell": "keep", "unsubscribe": "subscribe", "subscribe": "cancel",
    "harm": "help", "hurt": "help", "kill": "help", "attack": "help", "die": "live", "fight": "talk",
    "meet": "wait", "upgrade": "stay", "downgrade": "stay", "renew": "cancel", "stop": "continue",
    "delete": "keep", "close": "keep", "change": "keep", "replace": "keep", "escalate": "wait",
    # What somebody does.
    "threatens": "thanks", "complains": "thanks", "praises": "complains", "insults": "thanks",
    "thanks": "complains", "asks": "complains", "demands": "thanks", "offers": "asks",
    "sells": "asks", "recommends": "warns", "warns": "recommends", "refuses": "accepts",
    "accepts": "refuses", "apologizes": "complains", "lies": "explains", "swears": "thanks",
    "cancels": "continues", "leaves": "stays", "agrees": "disagrees", "disagrees": "agrees",
    "loves": "hates", "hates": "loves", "likes": "dislikes", "dislikes": "likes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ask:
    """A question.

    Attributes:
        template: ends in `{?}`.
        options: two; the first speaks for the category.
        small: whether a very small model can be expected to answer it.
    """

    template: str
    options: tuple[str, str]
    small: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a sentence becomes.

    Attributes:
        sentence: as it was written.
        category: id of the category.
        label: for people.
        asks: the questions, the surest first; at least one.
        advice: how to write the sentence so that better ones come out; empty when all is well.
    """

    sentence: str
    category: str
    label: str
    asks: tuple[Ask, ...]
    advice: str = ""


def propose(sentence: str, *, large: bool = False) -> Proposal:
    """Questions for a sentence that says what is to be noticed.

    Args:
        large: the model is a large one that follows instructions: the sentence itself is asked too.
    """
    sentence = "".join(one if one.isprintable() else " " for one in sentence)
    said = " ".join(sentence.split()).strip(" .!?;,:\"'")[:MOST_CHARS]
    # Braces would be placeholders.
    said = said.replace("{", "(").replace("}", ")")
    subject, rest = _split(said)
    asks = _unique(_cloze(subject, rest)) if rest else ()
    advice = ""
    if not asks:
        advice = (
            "No question for a small model comes out of this sentence. Begin it with who and what,"
            ' such as "the customer wants to leave", "the writer is angry" or "the message is about'
            ' a refund".'
        )
    if large or not asks:
        asks = (
            *asks,
            Ask(f"\n{_capital(said)}. True or false? It is{{?}}", ("true", "false"), False),
        )
    return Proposal(sentence, _slug(rest or said), _capital(said), asks, advice)


def _split(said: str) -> tuple[str, str]:
    """Who or what the sentence is about, with its article, and what it says of it."""
    found = _SUBJECT.match(said)
    if not found:
        return "", ""
    noun = found[1].lower()
    if noun in ("he", "she", "they", "someone", "somebody", "person"):
        noun = "writer"
    elif noun == "it":
        noun = "message"
    rest = said[found.end() :].strip()
    rest = re.sub(r"^(?:who|that|which) ", "", rest)
    verb = rest.split(" ")[0]
    if (
        found[1].lower() == "they"
        and verb.isalpha()
        and verb.lower() not in ("are", "were", "would")
    ):
        # "They insult": the writer insults.
        rest = rest if verb.endswith("s") else f"{verb}s{rest[len(verb) :]}"
    return f"the {noun}", rest


def _cloze(subject: str, rest: str) -> Iterator[Ask]:
    words = rest.split()
    verb = words[0].lower()
    who = _capital(subject)
    to = _TO.match(rest)
    asks, about = _ASKS.match(rest), _ABOUT.match(rest)
    if to:
        act = to[2].lower()
        if not to[3].strip() or act in _OPPOSITE:
            other = _OPPOSITE.get(act, "ask")
            yield Ask(f"\n{who} wants to{{?}}", (act, other))
            yield Ask(f"\nWhat {subject} will do next:{{?}}", (act, other))
        else:
            yield Ask(f"\n{who} wants to{{?}}", (act, "ask" if act != "ask" else "complain"))
        if to[1].lower() not in ("wants", "would like", "has", "needs"):
            yield from _does(subject, to[1].split()[-1].lower())
    elif asks and (noun := _head(asks[2])):
        article = _article(noun)
        yield Ask(f"\n{who} asks for{article}{{?}}", (noun, _unlike(noun, "answer", "reply")))
        yield Ask(f"\nWhat {subject} needs:{{?}}", (noun, _unlike(noun, "information", "advice")))
    elif about and (noun := _head(about[1])):
        yield Ask("\nThis is about{?}", (noun, _unlike(noun, "something", "other")))
        yield Ask("\nTopic:{?}", (noun, _unlike(noun, "other", "general")))
        if verb in ("complains", "complain"):
            yield from _does(subject, "complains")
    elif verb in _FEELS:
        yield from _state(subject, [word for word in words[1:] if word.lower() not in _DEGREE])
    elif verb.isalpha() and verb.endswith("s") and len(verb) > 3:
        yield from _does(subject, verb)


def _state(subject: str, words: list[str]) -> Iterator[Ask]:
    """Questions about how somebody or something is."""
    is_not = len(words) > 1 and words[0].lower() == "not"
    bare = [re.sub(r"\W", "", word.lower()) for word in words[is_not:]]
    known = bool(bare) and bare[0] in _OPPOSITE
    is_person = subject.split()[-1] not in _THINGS
    if is_not and known:
        yield from _is(subject, _OPPOSITE[bare[0]], bare[0], is_person)
    elif not is_not and (known or (len(bare) == 1 and bare[0].isalpha())):
        yield from _is(subject, bare[0], _OPPOSITE.get(bare[0], "ordinary"), is_person)


def _is(subject: str, word: str, other: str, is_person: bool) -> Iterator[Ask]:
    yield Ask(f"\n{_capital(subject)} is{{?}}", (word, other))
    if is_person:
        yield Ask(f"\nIn one word, {subject} sounds{{?}}", (word, other))
    else:
        yield Ask(f"\nIn one word, {subject} is rather{{?}}", (word, other))


def _does(subject: str, verb: str) -> Iterator[Ask]:
    yield Ask(f"\nIn the message, {subject}{{?}}", (verb, _OPPOSITE.get(verb, "thanks")))


def _head(phrase: str) -> str:
    """The word that a phrase is about: the last one before it is told more closely."""
    bare = _DETERMINER.sub("", phrase.strip(), count=1)
    stop = _STOP.search(bare)
    words = re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", bare[: stop.start()] if stop else bare)
    return words[-1].lower() if words else ""


def _article(noun: str) -> str:
    if noun.endswith("s") or noun in ("money", "information", "help", "advice", "support"):
        return ""
    return " an" if noun[0] in "aeiou" else " a"


def _unlike(word: str, *others: str) -> str:
    """The first of some words that neither begins with the word nor is its beginning."""
    return next(
        one for one in (*others, "rest") if not one.startswith(word) and not word.startswith(one)
    )


def _unique(asks: Iterator[Ask]) -> tuple[Ask, ...]:
    found: dict[str, Ask] = {}
    for ask in asks:
        first, second = ask.options
        if first != second and not first.startswith(second) and not second.startswith(first):
            found.setdefault(ask.template, ask)
    return tuple(found.values())


def _slug(text: str) -> str:
    """A short id from a sentence's words."""
    words = re.findall(r"[^\W_]+", text.lower())
    bare = [
        word
        for word in words
        if word
        not in (
            "is",
            "are",
            "the",
            "a",
            "an",
            "to",
            "for",
            "of",
            "about",
            "very",
            "feels",
            "sounds",
        )
    ]
    return "_".join((bare or words or ["category"])[:3])[:40]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
