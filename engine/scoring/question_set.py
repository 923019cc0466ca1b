"""The questions of a work, compiled once and shared by every content they are asked about."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from spinf_serve.engine.extraction.vocabulary import Vocabulary
from spinf_serve.engine.scoring.compile import Forest, build_forest
from spinf_serve.engine.scoring.read import FloatArray, scores_of
from spinf_serve.engine.scoring.slots import SlotSet, compile_slots, join_slots
from spinf_serve.engine.text.cut import Cut
from spinf_serve.engine.text.framed import compile_framed, join_framed
from spinf_serve.engine.text.joins import PromptTokens, compile_prompts, join, joins_cleanly
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Frame, Limits
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Question, Slot

PromptKey = tuple[str, tuple[str, ...], bool, bool, Frame | None]
"""What a floor depends on: filled text, options in order, case flag, frame. The fourth, whether the
options may have any length, decides whether there is one."""

# Longer than any text that a request can hold.
_ANY_LENGTH = 1 << 40
# A pass is planned in a grid of every place that is read by the longest path to one; a short body can
# ask for gigabytes of it.
_MOST_CELLS = 1 << 25

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A bounded mapping that several threads may use; the least recently used entry leaves first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, now the most recently used; None when absent."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        """Stores a value and drops the oldest when the cache is full."""
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)


@dataclass(frozen=True, slots=True, eq=False)
class Floors:
    """Floors of a question set as lists over all options and prompts; None where none is wanted."""

    logprob: list[float | None]
    p: list[float | None]
    residual: list[float | None]


@dataclass(eq=False)
class QuestionSet:
    """Compiled questions: Q prompts of all questions in order, O options of all prompts in order.

    Attributes:
        questions: what was compiled.
        frame: the chat that they are put into, if any.
        lead: token ids before every content: the model's bos, then the frame's beginning.
        prompts: [Q] tokens of each prompt, apart from any content.
        keys: [Q] what each prompt's floor depends on.
        wants_floor: [Q] whether its question asks for a floor.
        texts: [O] option texts as the caller wrote them.
        slots: what is found or written beside them.
        floors: known floors; set by the engine once.
        known_floors: option logprobs by key, collected until all are there.
    """

    questions: tuple[Question, ...]
    frame: Frame | None
    lead: tuple[int, ...]
    prompts: list[PromptTokens]
    keys: list[PromptKey]
    wants_floor: list[bool]
    texts: list[str]
    slots: SlotSet
    floors: Floors | None = None
    known_floors: dict[PromptKey, FloatArray] = field(default_factory=dict)

    @cached_property
    def forest(self) -> Forest:
        """The trie of all prompts, to be put behind any tail that joins cleanly."""
        openings = self.slots.openings(self.slots.prompts)
        return build_forest(self.prompts, [()] * len(self.prompts), openings)

    @cached_property
    def first_chars(self) -> frozenset[str]:
        """First character of every prompt's text; empty string for a prompt without text."""
        texts = [key[0] for key in self.keys] + self.slots.texts
        return frozenset(text[:1] for text in texts)

    @cached_property
    def floor_keys(self) -> dict[PromptKey, PromptTokens]:
        """The distinct prompts whose floors are wanted."""
        wanted = zip(self.keys, self.prompts, self.wants_floor, strict=True)
        return {key: prompt for key, prompt, floor in wanted if floor}

    @cached_property
    def floor_tokens(self) -> dict[int, int]:
        """Usage tokens of every floor, by the hash of its key."""
        return {hash(key): prompt.query_tokens for key, prompt in self.floor_keys.items()}

    @cached_property
    def query_tokens(self) -> int:
        """Usage tokens of all prompts."""
        return sum(prompt.query_tokens for prompt in self.prompts + self.slots.prompts)

    @cached_property
    def all_paths(self) -> bool:
        """Whether every prompt has tokens of its own before its options or slot."""
        return all(prompt.path for prompt in self.prompts + self.slots.prompts)

    def joins_cleanly(self, tokenizer: Tokenizer, content: Cut) -> bool:
        """Whether a token border stands between this content and every prompt."""
        return all(joins_cleanly(tokenizer, content, char) for char in self.first_chars)

    def missing_floors(self) -> list[PromptKey]:
        """Floor keys of which nothing is known yet."""
        return [key for key in self.floor_keys if key not in self.known_floors]

    def settle_floors(self) -> None:
        """Turns the collected floors into `floors`; call when none is missing."""
        logprob: list[float | None] = []
        p: list[float | None] = []
        residual: list[float | None] = []
        for key, wanted in zip(self.keys, self.wants_floor, strict=True):
            options = len(key[1])
            if not wanted:
                logprob += [None] * options
                p += [None] * options
                residual.append(None)
                continue
            known = self.known_floors[key]
            scores = scores_of(known, np.array([0, options], np.int32))
            logprob += known.tolist()
            p += scores.p.tolist()
            residual += scores.residual.tolist()
        self.floors = Floors(logprob=logprob, p=p, residual=residual)
        self.known_floors.clear()


class Compiler:
    """Questions to question sets, with caches of both; any thread may use it."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        limits: Limits,
        vocabulary: Callable[[], Vocabulary] | None = None,
    ) -> None:
        """`vocabulary` is asked for once there are slots; None makes one of the tokenizer then."""
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary or cache(partial(Vocabulary, tokenizer))
        self._limits = limits
        self._sets: LruCache[_SetKey, QuestionSet] = LruCache(64)
        self._prompts: LruCache[PromptKey, PromptTokens] = LruCache(100_000)

    def question_set(
        self,
        questions: tuple[Question, ...],
        frame: Frame | None = None,
        slots: tuple[Slot, ...] = (),
    ) -> QuestionSet:
        """The compiled questions and slots. Raises `Refused` with a param relative to the work."""
        known = self._sets.get((questions, frame, slots))
        if known is None:
            known = self._compile(questions, frame, slots)
            self._sets.put((questions, frame, slots), known)
        return known

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens as slots see them; made when it is asked for first."""
        return self._vocabulary()

    def join_slots(self, content: Cut, questions: QuestionSet) -> list[PromptTokens]:
        """[S] prompts of the slots behind the trunk of a content; see `join`."""
        return join_slots(self._tokenizer, content, questions.slots, questions.frame)

    def join(self, content: Cut, questions: QuestionSet) -> list[PromptTokens]:
        """[Q] prompts behind the trunk of a content, each with the content's stem in its path."""
        joined: list[PromptTokens] = []
        for question in questions.questions:
            compiled = questions.prompts[len(joined) : len(joined) + len(question.prompts)]
            texts = [prompt.text for prompt in question.prompts]
            if questions.frame is not None:
                joined += join_framed(self._tokenizer, content, texts, compiled, questions.frame)
                continue
            joined += join(
                self._tokenizer,
                content,
                texts,
                compiled,
                question.options,
                question.case_insensitive,
                self._option_tokens(question.any_option_length),
            )
        return joined

    def _option_tokens(self, any_length: bool) -> int:
        return _ANY_LENGTH if any_length else self._limits.max_option_tokens

    def _compile(
        self, questions: tuple[Question, ...], frame: Frame | None, slots: tuple[Slot, ...]
    ) -> QuestionSet:
        count = sum(len(q.prompts) for q in questions) + sum(len(s.prompts) for s in slots)
        if count > self._limits.max_prompts_per_input:
            raise Refused(
                "too_many_prompts",
                f"the questions have {count} filled templates in all; the limit is "
                f"{self._limits.max_prompts_per_input}: split them over several requests",
                "questions",
            )
        keys = [
            (prompt.text, *_options_key(question, frame))
            for question in questions
            for prompt in question.prompts
        ]
        known = self._prompts_of(keys, questions, frame)
        prompts = [known[key] for key in keys]
        at = iter(prompts)
        for number, question in enumerate(questions):
            for index, prompt in enumerate(islice(at, len(question.prompts))):
                self._check_length(prompt, question, number, index)
        compiled = SlotSet((), [], [])
        if slots:
            compiled = compile_slots(
                self._tokenizer, self._vocabulary(), slots, frame, self._limits
            )
        _check_cells(prompts)
        bos = () if self._tokenizer.bos_id is None else (self._tokenizer.bos_id,)
        return QuestionSet(
            questions=questions,
            frame=frame,
            lead=bos if frame is None else bos + frame.before,
            prompts=prompts,
            keys=keys,
            wants_floor=[q.empty_floor for q in questions for _ in q.prompts],
            texts=[text for key in keys for text in key[1]],
            slots=compiled,
        )

    def _prompts_of(
        self, keys: list[PromptKey], questions: tuple[Question, ...], frame: Frame | None
    ) -> dict[PromptKey, PromptTokens]:
        """Compiled prompts by key; those with the same options are compiled in one call."""
        known: dict[PromptKey, PromptTokens] = {}
        missing: dict[_OptionsKey, list[str]] = {}
        for key in dict.fromkeys(keys):
            found = self._prompts.get(key)
            if found is None:
                missing.setdefault(key[1:], []).append(key[0])
            else:
                known[key] = found
        for shared, texts in missing.items():
            options, case, any_length, _ = shared
            most = self._option_tokens(any_length)
            try:
                if frame is None:
                    made = compile_prompts(self._tokenizer, texts, options, case, most)
                else:
                    made = compile_framed(self._tokenizer, texts, options, frame, most)
            except Refused as refused:
                same = {
                    f"questions.{number}": question
                    for number, question in enumerate(questions)
                    if _options_key(question, frame) == shared
                }
                raise self._placed(refused, same) from None
            for text, prompt in zip(texts, made, strict=True):
                known[text, *shared] = prompt
                self._prompts.put((text, *shared), prompt)
        return known

    def _placed(self, refused: Refused, questions: dict[str, Question]) -> Refused:
        """A refusal of questions with the same options, with the field that it is about.

        Args:
            refused: its param is `options.N`, or None where a text could not be tokenised.
            questions: path -> question.
        """
        if refused.param is None:
            for path, question in questions.items():
                for field_name, text in _texts(question):
                    # Anew, since parts of texts were tokenised: a place counts from a text's start.
                    try:
                        self._tokenizer.encode(text)
                    except Refused as fault:
                        return fault.within(f"{path}.{field_name}")
        return refused.within(next(iter(questions)))

    def _check_length(
        self, prompt: PromptTokens, question: Question, number: int, index: int
    ) -> None:
        if prompt.template_tokens > self._limits.max_query_tokens and not question.any_length:
            raise Refused(
                "template_too_long",
                f"the filled template has {prompt.template_tokens} tokens; the limit is "
                f"{self._limits.max_query_tokens} (max_query_tokens)",
                f"questions.{number}.{_prompt_field(question, index)}",
            )


_SetKey = tuple[tuple[Question, ...], Frame | None, tuple[Slot, ...]]
_OptionsKey = tuple[tuple[str, ...], bool, bool, Frame | None]


def _options_key(question: Question, frame: Frame | None) -> _OptionsKey:
    """What the tokens of a question's options depend on besides what stands before them."""
    return (question.options, question.case_insensitive, question.any_option_length, frame)


def _check_cells(prompts: list[PromptTokens]) -> None:
    """Refuses questions with more places to read, behind longer texts, than can be laid out."""
    # Prompts of one question mostly share their options.
    sizes: dict[int, tuple[int, int]] = {}
    reads = longest = 0
    for prompt in prompts:
        key = id(prompt.options)
        if key not in sizes:
            lengths = [len(spelling) for option in prompt.options for spelling in option]
            sizes[key] = 1 + sum(lengths) - len(lengths), max(lengths)
        reads += sizes[key][0]
        longest = max(longest, len(prompt.path) + sizes[key][1])
    if reads * longest > _MOST_CELLS:
        raise Refused(
            "request_too_large",
            f"the options are read in {reads} places behind up to {longest} tokens; the product may "
            f"be {_MOST_CELLS}: use shorter options, or split the questions over several requests",
            "questions",
        )


def _texts(question: Question) -> Iterator[tuple[str, str]]:
    """Every text of a question that is tokenised, behind the name of its field."""
    for index, option in enumerate(question.options):
        yield f"options.{index}", option
    for index, prompt in enumerate(question.prompts):
        yield _prompt_field(question, index), prompt.text


def _prompt_field(question: Question, index: int) -> str:
    return f"combinations.{index}" if question.prompts[index].values else "template"
