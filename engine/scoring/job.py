"""A work on its way through the engine: compiled on any thread, answered on the engine's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice

import numpy as np

from spinf_serve.engine.extraction.answers import SlotAnswers
from spinf_serve.engine.extraction.kinds import begun
from spinf_serve.engine.extraction.steps import Slot
from spinf_serve.engine.scoring.compile import Forest, build_forest
from spinf_serve.engine.scoring.question_set import Compiler, PromptKey, QuestionSet
from spinf_serve.engine.scoring.read import read_scores
from spinf_serve.engine.text.cut import Cut, cut
from spinf_serve.engine.text.joins import PromptTokens
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.tree.packing import Tree, new_tree
from spinf_serve.engine.tree.plan import IntArray
from spinf_serve.engine.work import Counts, Limits, Result, Work
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.errors import Refused

_keys = count(1)


@dataclass(eq=False, slots=True)
class FloorRead:
    """A tree that reads floors: prompts on empty content, for every job that waits for them.

    Attributes:
        waiting: how many jobs do.
    """

    tree: Tree
    forest: Forest
    keys: list[PromptKey]
    waiting: int = 0


@dataclass(eq=False, slots=True)
class Job:
    """A compiled work.

    Attributes:
        work: what was compiled. Its questions may differ from the set's in the names of their
            placeholders, which move no token.
        question_set: its compiled questions, shared with other works.
        forest: its prompts behind its own tail.
        tree: its content and forest, as tokens.
        counts: what it costs.
        join_merged: whether content and questions were tokenised jointly.
        waits_for: floor reads that must finish before it can be answered.
        slots: what is to be filled in, for each opening of the forest; used up by one run.
    """

    work: Work
    question_set: QuestionSet
    forest: Forest
    tree: Tree
    counts: Counts
    join_merged: bool
    waits_for: list[FloorRead] = field(default_factory=list)
    slots: tuple[Slot, ...] = ()


def compile_job(
    work: Work, compiler: Compiler, tokenizer: Tokenizer, limits: Limits, context_tokens: int
) -> Job:
    """Tokenises a work and checks its token limits.

    Args:
        context_tokens: the most tokens that bos, content, prompt and option may have together.

    Raises:
        Refused: with a param relative to the work: `content`, or below `questions` or `slots`.
    """
    if not (work.questions or work.slots):
        raise Refused("empty_queries", "a content without questions; give at least one", None)
    questions = compiler.question_set(work.questions, work.frame, work.slots)
    content = _cut_within(tokenizer, work.content, limits)
    before = questions.lead
    if not before:
        _check_empty_prompts(work, questions)
    trunk = before + content.trunk if content.trunk else ()
    lead = () if trunk else before
    chain = lead + content.stem
    merged = content.merged
    if questions.all_paths and questions.joins_cleanly(tokenizer, content):
        forest = questions.forest
    else:
        prompts = compiler.join(content, questions)
        of_slots = compiler.join_slots(content, questions)
        merged = merged and all(prompt.merged for prompt in prompts + of_slots)
        openings = questions.slots.openings(of_slots, lead)
        forest, chain = build_forest(prompts, [lead] * len(prompts), openings), ()
    longest = len(trunk) + len(chain) + forest.longest_tokens
    if longest > context_tokens:
        raise Refused(
            "content_too_long",
            f"content, longest question and option have {longest} tokens together; the model "
            f"reads at most {context_tokens}",
            "content",
        )
    tree = new_tree(next(_keys), _ints(trunk), _ints(chain), forest.trie, forest.reads)
    counts = Counts(
        content_tokens=content.content_tokens,
        query_tokens=questions.query_tokens,
        packed_tokens=tree.packed_tokens,
        floors=questions.floor_tokens,
    )
    slots = tuple(begun(slot, compiler.vocabulary) for slot in questions.slots.each)
    return Job(work, questions, forest, tree, counts, merged, slots=slots)


def next_key() -> int:
    """A key that no other tree has."""
    return next(_keys)


def floor_read(
    keys: list[PromptKey], prompts: list[PromptTokens], lead: tuple[int, ...]
) -> FloorRead:
    """The read of prompts on empty content: what stands before every content, then the prompt."""
    forest = build_forest(prompts, [lead] * len(prompts))
    tree = new_tree(next(_keys), _ints(()), _ints(()), forest.trie, forest.reads)
    return FloorRead(tree=tree, forest=forest, keys=keys)


def _cut_within(tokenizer: Tokenizer, content: str, limits: Limits) -> Cut:
    try:
        parts = cut(tokenizer, content)
    except Refused:
        # Whole, since the refusal of a part counts characters from the part's beginning.
        tokenizer.encode(content)
        raise
    if parts.content_tokens > limits.max_content_tokens:
        raise Refused(
            "content_too_long",
            f"the content has {parts.content_tokens} tokens; the limit is "
            f"{limits.max_content_tokens} (max_content_tokens)",
            "content",
        )
    return parts


def answer(job: Job, found: Sequence[SlotAnswers] = (), decode_seconds: float = 0.0) -> Result:
    """Answers of a job whose tree and floors are complete.

    Args:
        found: what each of its slots gave.
        decode_seconds: how long that took behind the tree.
    """
    at = iter(found)
    return Result(
        answers=_answers(job) if job.work.questions else (),
        counts=_counts(job, found),
        join_merged=job.join_merged,
        slots=tuple(tuple(islice(at, len(slot.prompts))) for slot in job.work.slots),
        decode_seconds=decode_seconds,
    )


def _answers(job: Job) -> tuple[QuestionAnswer, ...]:
    scores = read_scores(job.forest, job.tree.logprobs)
    questions, floors = job.question_set, job.question_set.floors
    if floors is None:
        raise AssertionError("a job is answered before its floors are known")
    options = list(
        map(
            OptionAnswer,
            questions.texts,
            scores.logprob.tolist(),
            scores.p.tolist(),
            floors.p,
            floors.logprob,
        )
    )
    residual = scores.residual.tolist()
    start = job.forest.prompt_start.tolist()
    single = job.forest.single_read
    answers: list[QuestionAnswer] = []
    at = 0
    for question in job.work.questions:
        prompts = tuple(
            PromptAnswer(
                prompt.values,
                tuple(options[start[n] : start[n + 1]]),
                residual[n],
                floors.residual[n],
            )
            for n, prompt in enumerate(question.prompts, at)
        )
        end = at + len(prompts)
        answers.append(QuestionAnswer(question.id, prompts, all(single[at:end])))
        at = end
    return tuple(answers)


def _counts(job: Job, slots: Sequence[SlotAnswers]) -> Counts:
    """What the job cost: content tokens that a kept trunk held were not read, what stands before
    the content aside.
    """
    found = job.tree.trunk_found
    if not (found or slots):
        return job.counts
    searched = [one for one in slots if not one.generated]
    return replace(
        job.counts,
        cached_tokens=found - len(job.question_set.lead) if found else 0,
        decode_tokens=sum(one.tokens for one in searched),
        generated_tokens=sum(text.tokens for one in slots for text in one.generated),
    )


def _check_empty_prompts(work: Work, questions: QuestionSet) -> None:
    """Refuses a prompt of no token at all on a model without bos: nothing to read its answer from."""
    texts = iter(questions.keys)
    for index, question in enumerate(work.questions):
        for _ in question.prompts:
            if not next(texts)[0] and (question.empty_floor or not work.content):
                raise Refused(
                    "invalid_field",
                    "this model has no start token, so a template without text cannot be asked "
                    "of an empty content: put text before {?} or set empty_floor to false",
                    f"questions.{index}.template",
                )
    if work.content:
        return
    for index, slot in enumerate(work.slots):
        if not all(prompt.text for prompt in slot.prompts):
            raise Refused(
                "invalid_field",
                "this model has no start token, so a template without text cannot be asked of an "
                "empty content: put text before the slot",
                f"slots.{index}.template",
            )


def _ints(tokens: tuple[int, ...]) -> IntArray:
    return np.array(tokens, np.int32)
