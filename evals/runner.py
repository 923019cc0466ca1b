"""A run: a pack's questions asked of a dataset, as far as the store does not hold the answers.

What was answered is kept every few seconds in one transaction, so that whatever ends a run, the next
one goes on from there. Rows that are refused are kept with their code; what failed is asked again
next time. Judges nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import duckdb

from spinf_serve.evals.asking import (
    Item,
    asked_about,
    count_rows,
    in_order,
    items,
    prompts,
)
from spinf_serve.evals.pace import Pace, Watch
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Findings, keep, known
from spinf_serve.evals.scorer import Scorer, Work, cautions
from spinf_serve.evals.windows import Window, Windows
from spinf_serve.packs.answer import QuestionAnswer
from spinf_serve.packs.errors import Fault, Refused, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.question import Question
from spinf_serve.packs.recording import Logprobs

SAVE_SECONDS = 3.0
"""How often what was answered is kept."""

MOST_FAULTS = 32
"""Faults in a row without an answer after which a run ends: it is the engine, and not the row."""

SHOWN_ROWS = 5
"""Rows that are named of those a pack cannot present."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did. Answers are filled templates on contents, or on chunks of long ones.

    Attributes:
        rows: of the dataset or split.
        asked: answers that were asked for and given.
        reused: answers that were kept before, or that an equal row had.
        floors: prompts that were asked on empty content.
        refused: error code -> rows with a refusal, of this run or an earlier one; they belong into
            every denominator.
        failed: rows without an answer through no fault of theirs; the next run asks them again.
        seconds: that it took.
        cut: rows that were read in chunks.
    """

    rows: int
    asked: int
    reused: int
    floors: int
    refused: Mapping[str, int]
    failed: int
    seconds: float
    cut: int = 0

    def __str__(self) -> str:
        refused = sum(self.refused.values())
        codes = ", ".join(f"{code} {count:,}" for code, count in self.refused.items())
        tail = f", {self.cut:,} rows read in chunks" if self.cut else ""
        tail += f", {self.failed:,} failed and are asked again next time" if self.failed else ""
        return (
            f"{self.rows:,} rows: {self.asked:,} answers asked, {self.reused:,} reused,"
            f" {refused:,} rows refused{f' ({codes})' if codes else ''}{tail};"
            f" {self.seconds:.1f} s"
        )


def run(
    project: Project,
    dataset: str,
    pack: Pack,
    scorer: Scorer,
    say: Callable[[str], None],
    *,
    split: str | None = None,
    watch: Watch | None = None,
) -> RunReport:
    """Ask what is missing of a pack's questions about a dataset.

    Args:
        say: gets a line now and then: rate, time left, what was reused.
        split: of these rows only; None asks of all.
        watch: gets the progress behind every batch and every look at the store.

    A content that is longer than the model reads at once is cut as the server does it, where the
    pack says so and the scorer tells how much it reads; else it is refused. Floors are asked for once a prompt, unless the scorer rounds, also for packs that want none in
    their answers: lifts are measured against them.

    Raises:
        Unusable: there is no such dataset, the model refuses a question as such, or nobody answers.
        Fault: the model fails on everything.
    """
    for line in cautions(scorer.identity):
        say(line)
    return _Run(project, dataset, pack, scorer, say, split, watch).report()


class _Run:
    """One run: counts, and what is not kept yet."""

    def __init__(
        self,
        project: Project,
        dataset: str,
        pack: Pack,
        scorer: Scorer,
        say: Callable[[str], None],
        split: str | None,
        watch: Watch | None,
    ) -> None:
        self._project = project
        self._dataset = dataset
        self._pack = pack
        self._scorer = scorer
        self._identity = scorer.identity
        self._split = split
        self._prompts = prompts(pack.questions)
        self._lengths = {
            digest: len(pack.questions[number].options)
            for digest, (number, _) in self._prompts.items()
        }
        self._sets: dict[tuple[tuple[str, ...], bool], tuple[Question, ...]] = {}
        self._no_floor: set[str] = set()
        self._found = Findings()
        self._saved_at = time.monotonic()
        self._refused: Counter[str] = Counter()
        self._asked = self._reused = self._floors = self._failed = self._cut = 0
        self._reader = None if pack.on_long == "refuse" else scorer.reader
        self._windows = Windows(project, self._identity, pack, self._reader, self._prompts)
        self._faults = self._unpresented = 0
        self._pace = Pace(say, watch)
        self._say = say

    def report(self) -> RunReport:
        """Does it all."""
        begun = time.monotonic()
        with self._project.open(write=False) as connection:
            total = count_rows(connection, self._dataset, self._split)
            held = known(connection, self._identity, (), self._prompts)
        if not self._identity.rounded:
            self._no_floor = set(self._prompts) - held.floors
        after = seen = 0
        try:
            while seen < total:
                with self._project.open(write=False) as connection:
                    rows = items(
                        connection, self._dataset, self._pack, split=self._split, after=after
                    )
                    window = self._look_up(connection, rows)
                if not rows:
                    # Rows were deleted meanwhile.
                    break
                self._windows.fill(window)
                self._found.cuts |= window.cuts
                self._found.texts |= window.cut_texts
                self._cut += window.cut_rows
                after = rows[-1].number
                seen += len(rows)
                self._work_off(window, seen / total)
                # Before the next look at the store, which may hold equal rows by then.
                self._save()
        finally:
            self._save()
        seconds = time.monotonic() - begun
        counts = self._asked, self._reused, self._floors
        if self._reader is None and self._pack.on_long != "refuse":
            for line in _uncut(self._refused["content_too_long"], self._identity.served):
                self._say(line)
        return RunReport(seen, *counts, dict(self._refused), self._failed, seconds, self._cut)

    def _look_up(self, connection: duckdb.DuckDBPyConnection, rows: Sequence[Item]) -> Window:
        """Rows that the pack presents, with what is kept of them; notes the others."""
        for item in rows:
            if isinstance(item.content, Refused):
                self._note_unpresented(item.id, item.content)
        return self._windows.looked_up(connection, rows)

    def _work_off(self, window: Window, share: float) -> None:
        """Asks what is missing of some rows; `share` is that of the dataset up to their end."""
        held = window.held
        missing = {
            digest: tuple(
                prompt for prompt in self._prompts if prompt not in held.prompts.get(digest, ())
            )
            for digest in window.contents
            if len(held.prompts.get(digest, ())) < len(self._prompts)
        }
        for digest, count in window.counts.items():
            if digest not in held.refused:
                self._reused += count * len(self._prompts) - len(missing.get(digest, ()))
        lost: dict[str, str | None] = dict(held.refused)
        todo = dict(missing)
        self._pace.expect(len(todo), share)
        self._pace.look(*self._told())
        for digest in [*missing, *(one for one in window.contents if one not in missing)]:
            if not self._no_floor:
                break
            if digest not in held.refused:
                lost |= self._ask([digest], window, todo.pop(digest, ()), floors=True)
                self._pace.done(int(digest in missing), *self._told())
        groups: dict[tuple[str, ...], list[str]] = {}
        for digest, absent in todo.items():
            groups.setdefault(absent, []).append(digest)
        for absent, digests in groups.items():
            at = 0
            while at < len(digests):
                batch = digests[at : at + self._pace.batch]
                at += len(batch)
                lost |= self._ask(batch, window, absent)
                self._pace.done(len(batch), *self._told())
                if time.monotonic() - self._saved_at > SAVE_SECONDS:
                    self._save()
        for digest in lost:
            if digest not in held.refused:
                # Of equal rows, none has what the first one did not get.
                self._reused -= (window.counts[digest] - 1) * len(missing.get(digest, ()))
        for parts in window.rows:
            codes = [lost[part] for part in parts if part in lost]
            refusals = [code for code in codes if code is not None]
            if refusals:
                self._refused[refusals[0]] += 1
            elif codes:
                self._failed += 1

    def _ask(
        self,
        digests: Sequence[str],
        window: Window,
        absent: tuple[str, ...],
        *,
        floors: bool = False,
    ) -> dict[str, str | None]:
        """Asks the same prompts of some contents.

        Returns the contents that have no whole answer: with the refusal's code, None for a fault.
        """
        wanted = absent
        if floors:
            wanted += tuple(
                prompt for prompt in self._prompts if prompt in self._no_floor - set(absent)
            )
        lost: dict[str, str | None] = {}
        contents = [window.contents[digest] for digest in digests]
        questions = self._questions(wanted, floors)
        outcomes = self._scorer.run([Work(content, questions) for content in contents])
        self._found.texts |= {digest: window.texts[digest] for digest in digests}
        for digest, content, outcome in zip(digests, contents, outcomes, strict=True):
            left = wanted
            while isinstance(outcome, Refused) and (named := self._named(outcome, left)):
                # The others of its questions may well be answered.
                if not self._asked:
                    id = self._pack.questions[self._prompts[named[0]][0]].id
                    row = window.first[digest]
                    raise Unusable(f"row {row}: question {id}: {outcome.message}")
                self._refuse(digest, [one for one in named if one in absent], outcome)
                lost[digest] = outcome.code
                left = tuple(prompt for prompt in left if prompt not in named)
                if not left:
                    break
                outcome = self._scorer.run([Work(content, self._questions(left, floors))])[0]
            if isinstance(outcome, Refused):
                if left:
                    self._refuse(digest, [one for one in left if one in absent], outcome)
                    lost[digest] = outcome.code
            elif isinstance(outcome, Fault):
                lost.setdefault(digest, None)
                self._faults += 1
                if self._faults == MOST_FAULTS:
                    raise outcome
            else:
                self._faults = 0
                self._add(digest, left, absent, outcome, floors)
        return lost

    def _named(self, refused: Refused, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """The prompts of the question that a refusal is about; none when it is about the content."""
        head, _, rest = (refused.param or "").partition(".")
        number = rest.partition(".")[0]
        if head != "questions" or not number.isdecimal():
            return ()
        owners = dict.fromkeys(
            self._prompts[prompt][0] for prompt in in_order(self._prompts, wanted)
        )
        owner = list(owners)[int(number)]
        return tuple(prompt for prompt in wanted if self._prompts[prompt][0] == owner)

    def _questions(self, wanted: tuple[str, ...], floors: bool) -> tuple[Question, ...]:
        """The pack's questions, cut down to some prompts; one tuple for each, compiled once."""
        if (wanted, floors) not in self._sets:
            self._sets[wanted, floors] = asked_about(self._pack, wanted, floors=floors)
        return self._sets[wanted, floors]

    def _add(
        self,
        digest: str,
        wanted: tuple[str, ...],
        absent: tuple[str, ...],
        answers: Sequence[QuestionAnswer],
        floors: bool,
    ) -> None:
        """Takes the answers to prompts; those that are kept already were asked for their floors."""
        told = [prompt for answer in answers for prompt in answer.prompts]
        new = frozenset(absent)
        for prompt, answer in zip(in_order(self._prompts, wanted), told, strict=True):
            question = self._pack.questions[self._prompts[prompt][0]]
            if tuple(option.text for option in answer.options) != question.options:
                raise Unusable(f"question {question.id} was answered over other options")
            logprobs = tuple(option.logprob for option in answer.options)
            if prompt in new:
                self._found.scores[digest, prompt] = _finite(logprobs, question)
                self._asked += 1
            if floors and prompt in self._no_floor:
                values = [option.floor_logprob for option in answer.options]
                given = tuple(value for value in values if value is not None)
                if len(given) < len(values):
                    raise Unusable(f"question {question.id} was answered without its floor")
                self._found.floors[prompt] = _finite(given, question)
                self._no_floor.discard(prompt)
                self._floors += 1

    def _refuse(self, digest: str, wanted: Sequence[str], refused: Refused) -> None:
        for prompt in wanted:
            self._found.refusals[digest, prompt] = refused.code, refused.message

    def _note_unpresented(self, id: str, refused: Refused) -> None:
        """Counts a row that the pack cannot present; names the first ones of the run."""
        if self._unpresented < SHOWN_ROWS:
            self._say(f"row {id}: {refused.message}")
        self._unpresented += 1
        self._refused[refused.code] += 1

    def _save(self) -> None:
        if self._found:
            with self._project.open(write=True) as connection:
                keep(connection, self._identity, self._lengths, self._found)
            self._found = Findings()
        self._saved_at = time.monotonic()

    def _told(self) -> tuple[float | None, int]:
        """Share of the answers that were kept before, and rows with a refusal."""
        both = self._asked + self._reused
        return self._reused / both if both else None, sum(self._refused.values())


def _uncut(rows: int, served: str) -> list[str]:
    """What to know of rows that the pack would have cut, where nobody could."""
    if not rows:
        return []
    told = (
        f"{rows:,} rows are longer than {served} reads at once; the pack has such rows cut, which"
        " takes the model in this process: leave out --server"
    )
    return [told]


def _finite(values: Logprobs, question: Question) -> Logprobs:
    if not all(map(isfinite, values)):
        raise Fault(f"question {question.id}: {list(values)} are not all finite numbers")
    return values
