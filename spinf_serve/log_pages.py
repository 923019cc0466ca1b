"""How the decision log reads on a terminal: a line an entry, and the page that says why."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spinf_serve.packs.files import shown

if TYPE_CHECKING:
    from spinf_serve.evals.gate import Verdict
    from spinf_serve.server.decision_log.entries import Decided, Entry, PackFacts
    from spinf_serve.server.decision_log.reading import Standing

_TEXT_CHARS = 2_000
_LINE_CHARS = 100


def moment(at: int) -> str:
    """Unix seconds as people read them."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def list_lines(entry: "Entry") -> Iterator[str]:
    """A line for each pack's word on a content, or one when no pack was asked."""
    head = f"{entry.id}  {moment(entry.at)}  {entry.request}/{entry.input}"
    for one in entry.decided:
        yield f"{head}  {one.pack} {one.version}  {_word(one)}  {one.reason or ''}".rstrip()
    if not entry.decided:
        told = "; ".join(f"{one.question}: {_leading(one.p)}" for one in entry.answers[:3])
        more = f"; and {len(entry.answers) - 3:,} more" if len(entry.answers) > 3 else ""
        yield f"{head}  {entry.route}  {told}{more}".rstrip()


def standing_line(found: "Standing") -> str:
    """What a log holds, in a line."""
    if found.first is None or found.last is None:
        return "the log is empty"
    return (
        f"{found.entries:,} entries from {moment(found.first)} to {moment(found.last)} UTC,"
        f" {found.drawn:,} of the random sample, {found.with_text:,} with their text"
    )


def why_page(entry: "Entry", packs: "Mapping[str, PackFacts]", log: Path) -> Iterator[str]:
    """Everything that is known of a decision.

    Args:
        packs: digest -> what is kept of each pack of the entry.
        log: the file, for the commands that ask again.
    """
    caller = "without a key" if entry.caller == "anonymous" else f"with the key {entry.caller}"
    endpoint = "" if entry.endpoint is None else f", endpoint {entry.endpoint}"
    yield f"request {entry.request}, content {entry.input} (entry {entry.id})"
    yield f"  asked    {moment(entry.at)} UTC by {entry.route}{endpoint}, {caller}"
    kept = "its text is not kept" if entry.text is None else f"{len(entry.text):,} characters"
    drawn = f"; drawn for the random sample (rate {entry.rate:g})" if entry.drawn else ""
    pieces = "" if entry.chunks == 1 else f"; read in {entry.chunks} chunks"
    yield f"  content  sha256 {entry.digest}; {kept}{pieces}{drawn}"
    if entry.text is not None:
        for line in _cut(entry.text, _TEXT_CHARS).splitlines():
            yield f"    | {line}"
    yield f"  model    {entry.identity.served}"
    yield f"    model digest {entry.identity.model}"
    yield f"    bits digest  {entry.identity.bits}"
    for one in entry.decided:
        yield ""
        yield from _pack_lines(one, packs[one.digest], entry.parameters)
    if entry.answers:
        yield ""
        yield "answers to questions of the request"
        for answer in entry.answers:
            told = ", ".join(f"{option!r} {p:.4f}" for option, p in answer.p.items())
            yield f"  {answer.question}: {_line(answer.asked)} -> {told}"
    if not entry.decided and not entry.answers:
        yield ""
        yield "no pack was asked, so nothing was decided; the answers to a request's own questions are"
        yield "kept only by a server that was started with --log-answers"
    yield ""
    yield from _again(entry, log)


def drift_lines(
    entries: int, contents: int, rates: Sequence[float], found: "Verdict"
) -> Iterator[str]:
    """What a comparison of the random sample came to.

    Args:
        entries, contents: how many were drawn, and how many different contents they have.
        rates: the chances that they were drawn with.
    """
    yield f"{entries:,} entries of the random sample, {contents:,} different contents"
    if len(rates) > 1:
        told = ", ".join(f"{rate:g}" for rate in sorted(rates))
        yield (
            f"  they were drawn at several rates ({told}), so that times of a high rate weigh more;"
            " --since and --until choose one"
        )
    for one in found.outcomes:
        target = f"{one.target}: " if one.target else ""
        yield f"{one.word}: {target}{one.rule}: {one.saw}"
    yield found.sentence


def _pack_lines(one: "Decided", facts: "PackFacts", parameters: Mapping[str, str]) -> Iterator[str]:
    with_parameters = "".join(f", {name} {value!r}" for name, value in parameters.items())
    yield f"pack {one.pack} {one.version} ({one.state}), file sha256 {one.digest[:12]}"
    context = facts.facts["contexts"].get(one.context, "")
    yield f"  context  {one.context}{with_parameters}: {_line(context)}"
    if one.decision is None:
        yield "  nothing was fitted on that model, so that nothing was decided"
        return
    yield f"  decision {_word(one)}, mode {one.decision['mode']}"
    yield f"  because  {one.reason}"
    if one.call:
        yield f"  the request itself said {dict(one.call)!r}"
    if one.route is not None:
        yield f"  route    {one.route['choice']} ({one.route['leader']} leads)"
    shown_first = _explained(one)
    for name in shown_first:
        yield from _category_lines(name, one, facts)
    yield "    z: how far the answer speaks for the category, in standard deviations above the usual"
    if len(one.categories) > len(shown_first):
        yield "  the others"
    for name, found in one.categories.items():
        if name not in shown_first:
            yield f"    {name}: {_category(name, found, facts)}"


def _explained(one: "Decided") -> list[str]:
    """The flagged categories, or else the one that came nearest to its threshold."""
    flagged = [name for name, found in one.categories.items() if found["flagged"]]
    if flagged:
        return flagged
    missed = {
        name: found["score"] - found["threshold"]
        for name, found in one.categories.items()
        if found["threshold"] is not None
    }
    return [max(missed, key=missed.__getitem__)] if missed else list(one.categories)[:1]


def _category_lines(name: str, one: "Decided", facts: "PackFacts") -> Iterator[str]:
    reads = facts.facts["reads"]
    yield f"  {name}: {_category(name, one.categories[name], facts)}"
    own = {id: z for id, z in one.reads.items() if reads[id]["category"] == name}
    for id, z in sorted(own.items(), key=lambda pair: -pair[1]):
        options = " /".join(reads[id]["options"])
        yield f"    z {z:+6.2f}  {_line(reads[id]['question'])} [{_line(options)}]"


def _category(name: str, found: Mapping[str, Any], facts: "PackFacts") -> str:
    threshold, flagged = found["threshold"], found["flagged"]
    parts = [f"score {found['score']:.6g}"]
    if threshold is None:
        parts.append("no threshold")
    else:
        reaches = found["score"] >= threshold
        parts.append(f"{'reaches' if reaches else 'stays below'} {threshold:.6g}")
        requires = ", ".join(facts.facts["categories"][name]["requires"])
        lacks = f" without {requires}" if reaches and not flagged else ""
        parts.append("flagged" if flagged else f"not flagged{lacks}")
    if found["percentile"] is not None:
        parts.append(f"above {found['percentile']:.1%} of normal content")
    if found["band"] is not None:
        parts.append(f"band {found['band']}")
    return ", ".join(parts)


def _again(entry: "Entry", log: Path) -> Iterator[str]:
    if not entry.decided:
        return
    given = " --content FILE" if entry.text is None else ""
    name = shlex.quote(shown(log))
    yield "to ask again (the same model, packs and bits digest give the same numbers):"
    yield f"  spinf-serve log show {name} {entry.id} --as-request{given} > request.json"
    yield f"  spinf-serve score request.json {shlex.quote(entry.identity.served)}"


def _word(one: "Decided") -> str:
    if one.decision is None:
        return "draft"
    word = "unsafe" if one.decision["unsafe"] else "safe"
    return word if one.decision["band"] is None else f"{word} ({one.decision['band']})"


def _leading(p: Mapping[str, float]) -> str:
    option = max(p, key=p.__getitem__)
    return f"{option!r} {p[option]:.4f}"


def _line(text: str) -> str:
    return _cut(" ".join(text.split()), _LINE_CHARS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
