"""What lint looks for: the one table of rules, their limits, and the rules that need no model.

A rule looks at one question or two and notes findings; waivers and the rules that look at answers
are in `spinf_serve.packs.lint`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from os.path import commonprefix

from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Prompt, Question

Tokens = Callable[[str], Sequence[int]]
"""Text to token ids."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule finds, and what to do then."""

    finds: str
    remedy: str


RULES: Mapping[str, Rule] = {
    "floor_skewed": Rule(
        "on no content, nearly all of the options' probability is on few of them",
        "choose options that are about as likely words here, or reword the template's end",
    ),
    "residual_high": Rule(
        "the model would rather write something else than any option",
        "end the template so that an option is the natural next word, or take likelier words",
    ),
    "options_alike": Rule(
        "two options print alike, or one begins another and takes its probability too",
        "give one of them another wording",
    ),
    "template_space": Rule(
        "the template ends in a space, behind which models expect no word",
        "end it without the space and begin the options with it",
    ),
    "no_rest_option": Rule(
        "three or more options, and none for content that fits no other",
        "add an option such as `other` or `none`",
    ),
    "order_sensitive": Rule(
        "the answer changes with the order in which the template lists the options",
        "take the list out of the template, or ask both orders with `view`",
    ),
    "negation": Rule(
        "a statement and the one that denies it do not add up to certainty",
        "reword one of the two, or leave one out",
    ),
    "flat": Rule(
        "the answer hardly moves from one content to another: it tells nothing",
        "reword it, or leave it out",
    ),
    "duplicate_like": Rule(
        "two answers move together: the second costs time and tells nothing new",
        "leave one of them out",
    ),
    "option_tokens": Rule(
        "an option of several tokens stands against options of one, which makes it less likely",
        "take words of equally many tokens",
    ),
    "waiver_unused": Rule(
        "a waiver accepts nothing: the finding is gone, or rule or question do not exist",
        "remove the waiver",
    ),
    "context_brace": Rule(
        "a context has a brace that is no parameter, which the model reads as it stands",
        "declare the parameter, or write the text without braces",
    ),
    "requires_idle": Rule(
        "a category requires one that is never flagged, so it is never flagged either",
        "give the required one a threshold, or take the requirement out",
    ),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Where findings begin.

    Attributes:
        residual: median over contents of the mass outside the options, 0 to 1.
        floor: 1 - entropy / ln(options) of the floor: 0 is uniform, 1 all on one option.
        flat: standard deviation over contents of the log share that moves most, in nats.
        flat_contents: contents that this takes.
        order: mean over contents of the largest change of a p.
        negation: mean over contents of how far p and p of the denial miss a sum of 1.
        correlation: of two reads over contents, either sign.
        correlation_contents: contents that this takes.
    """

    residual: float = 0.9
    floor: float = 0.8
    flat: float = 0.05
    flat_contents: int = 5
    order: float = 0.2
    negation: float = 0.3
    correlation: float = 0.95
    correlation_contents: int = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        rule: its key in `RULES`.
        on: id of the question, category or context; for a waiver what it says.
        message: what was seen, with value and limit.
    """

    rule: str
    on: str
    message: str

    @property
    def remedy(self) -> str:
        """What to do."""
        return RULES[self.rule].remedy


_REST = re.compile(
    "others?|else|something else|anything else|none|none of (these|them)|neither|nothing|nobody|"
    "no one|nowhere|different|neutral|normal|ordinary|okay|ok|average|mixed|unknown|unclear|unsure|"
    "uncertain|undecided|irrelevant|misc|miscellaneous|general|n/a|"
    "otr[oa]|ningun[oa]|nada|autres?|aucune?|rien|khác|không|기타|없음"
)
# Letters of other scripts, digits and marks that print like a Latin letter or another mark.
_LOOKS_LIKE = str.maketrans(
    "IаеорсухкмтвніјѕοανρτυχκΟΑΕΒΗΙΚΜΝΡΤΧΥ01|‘’“”–—−",
    "laeopcyxkmtbhijsoavptuxkoaebhlkmnptxyoll''\"\"---",
)
_GAP_CHARS = 12
"""Most characters between two options of a list in a template: `, or `, quotes, numbering."""


def rest_option(question: Question) -> Iterator[Finding]:
    """`no_rest_option`."""
    words = [option.strip().casefold() for option in question.options]
    if len(words) > 2 and not any(map(_REST.fullmatch, words)):
        yield Finding(
            "no_rest_option",
            question.id,
            f"the options are {', '.join(words)}; a content that is none of these still gets one",
        )


def template_space(question: Question) -> Iterator[Finding]:
    """`template_space`; one finding however many filled templates end so."""
    for prompt in question.prompts:
        last = prompt.text[-1:]
        if last.isspace() and last not in "\r\n":
            yield Finding(
                "template_space", question.id, f"{prompt.text[-24:]!r} ends in {unicode_name(last)}"
            )
            return


def options_alike(question: Question, tokens: Tokens | None) -> Iterator[Finding]:
    """`options_alike`. Without tokens, whether one option begins another is judged by the text."""
    looks = {option: skeleton(option) for option in question.options}
    paths = {} if tokens is None else option_paths(question, tokens)
    for first, second in combinations(question.options, 2):
        if looks[first] == looks[second]:
            yield Finding(
                "options_alike",
                question.id,
                f"{first!a} and {second!a} print alike",
            )
            continue
        for short, long in ((first, second), (second, first)):
            if tokens is None:
                begins = long.strip().casefold().startswith(short.strip().casefold())
            else:
                begins = paths[long][: len(paths[short])] == paths[short]
            if begins:
                yield Finding(
                    "options_alike",
                    question.id,
                    f"{short!r} begins {long!r}, so its probability includes the other's",
                )


def option_tokens(question: Question, tokens: Tokens) -> Iterator[Finding]:
    """`option_tokens`."""
    paths = option_paths(question, tokens)
    single = [option for option, path in paths.items() if len(path) == 1]
    if not single:
        return
    for option, path in paths.items():
        if len(path) > 1:
            yield Finding(
                "option_tokens",
                question.id,
                f"{option!r} has {len(path)} tokens and {single[0]!r} has one",
            )


def option_paths(question: Question, tokens: Tokens) -> dict[str, tuple[int, ...]]:
    """Option -> its tokens behind the first filled template, tokenised together with it."""
    text = question.prompts[0].text
    joint = {option: tuple(tokens(text + option)) for option in question.options}
    kept = len(commonprefix([tuple(tokens(text)), *joint.values()]))
    return {option: path[kept:] for option, path in joint.items()}


def skeleton(text: str) -> str:
    """What a text looks like: no case, no invisible characters, one space, lookalikes as one."""
    shown = "".join(
        c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf"
    )
    alike = shown.translate(_LOOKS_LIKE).casefold().translate(_LOOKS_LIKE)
    return " ".join(alike.split())


def unicode_name(char: str) -> str:
    """How messages call a character that does not print."""
    return {" ": "a space", "\t": "a tab"}.get(char, f"U+{ord(char):04X}")


def reordered(prompt: Prompt, options: Sequence[str]) -> Prompt | None:
    """The prompt with the options it lists in the opposite order; None when it lists them not."""
    words = [option.strip() for option in options]
    by_fold = {word.casefold(): word for word in words}
    if not all(words) or len(by_fold) != len(words):
        return None
    # Longest first, so that an option is not taken for a shorter one that begins it.
    choices = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    found = list(re.finditer(rf"(?<!\w)(?:{choices})(?!\w)", prompt.text, re.IGNORECASE))
    for start in range(len(found) - len(words), -1, -1):
        spots = found[start : start + len(words)]
        listed = [by_fold.get(spot.group().casefold()) for spot in spots]
        near = all(b.start() - a.end() <= _GAP_CHARS for a, b in pairwise(spots))
        if near and set(listed) == set(words):
            return Prompt(_swapped(prompt.text, spots, by_fold), prompt.values)
    return None


def _swapped(text: str, spots: Sequence[re.Match[str]], by_fold: Mapping[str, str]) -> str:
    parts = []
    at = 0
    for spot, other in zip(spots, reversed(spots), strict=True):
        own, word = by_fold[spot.group().casefold()], by_fold[other.group().casefold()]
        if spot.group() != own and spot.group()[0].isupper():
            # The sentence begins here.
            word = word[0].upper() + word[1:]
        parts += [text[at : spot.start()], word]
        at = spot.end()
    return "".join([*parts, text[at:]])


def context_braces(pack: Pack) -> Iterator[Finding]:
    """Braces of a context that mean nothing."""
    known = "|".join(re.escape(name) for name in pack.parameters)
    for context in pack.contexts.values():
        text = f"{context.before} {context.after}"
        rest = re.sub(rf"\{{(?:{known})\}}", "", text) if known else text
        if "{" in rest or "}" in rest:
            found = re.search(r"[{}].{0,20}", rest, re.DOTALL)
            shown = "" if found is None else f" near {found.group()!r}"
            yield Finding("context_brace", context.name, f"a brace is read as text{shown}")


def idle_requirements(pack: Pack) -> Iterator[Finding]:
    """Categories that nothing but a call's own thresholds can flag."""
    for id in pack.categories:
        reached, waiting = {id}, list(pack.categories[id].requires)
        while waiting:
            required = waiting.pop()
            if required == id:
                yield Finding("requires_idle", id, "it requires itself, by way of others")
                break
            if required not in reached:
                reached.add(required)
                waiting += pack.categories[required].requires
        for model, constants in pack.fitted.items():
            without = [
                name
                for name in pack.categories[id].requires
                if constants.categories[name].threshold is None
            ]
            if without:
                yield Finding(
                    "requires_idle", id, f"{without[0]} has no threshold as fitted on {model}"
                )
                break
