"""An engine without a model: answers are a cheap function of content and question, passes are free.

Has the surface of `spinf_serve.engine.api.Engine`, and hooks that make it fail in chosen ways.
"""

import hashlib
import math
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from spinf_serve.engine.api import DeviceMemory, Engine, Stats, Turn
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.extraction.answers import GeneratedAnswer, SlotAnswers
from spinf_serve.engine.fingerprint import Fingerprint
from spinf_serve.engine.models.served import ChatForm, ServedModel
from spinf_serve.engine.schedule import Schedule
from spinf_serve.engine.work import Counts, Generate, Limits, Result, Work
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.errors import Fault, Refused, SpinfError
from spinf_serve.packs.question import Prompt, Question, Slot
from spinf_serve.packs.template import SlotKind
from tests.support.stub_slots import slot_answers, stopped, written

NAN = "<nan>"
"""A content with this in it fails, as if the model had returned NaN."""

UNMERGED = "<unmerged>"
"""A content with this in it is reported as tokenised apart from its questions."""

POOR = "<poor>"
"""A template with this in it leaves 95 % of the probability outside its options."""

# A chat of the stub is made of these control tokens.
_MARKS = {"<|system|>": 1, "<|user|>": 2, "<|assistant|>": 3, "<|end|>": 4}
CHAT = ChatForm(
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}<|assistant|>",
    _MARKS,
)

SERVED = ServedModel(
    id="stub/words-1",
    name="stub/words-1",
    description="Answers from checksums",
    release_date="2026-01-01",
    aliases=("stub", "spinf-12b", "jev-latest"),
    borrowed=("spinf-12b", "jev-latest"),
    base_model="stub/base",
    family="stub",
    capabilities=("score", "extract", "generate"),
    media=(),
    stand_in=True,
    note="no model at all",
    revision="1",
    chat=CHAT,
)
_TOKEN = re.compile(r"\s?\w{1,8}|\s|[^\w\s]")


class WordTokenizer:
    """Tokens are words of up to eight letters with the space before, else single characters."""

    bos_id = 0

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        found = {zlib.crc32(token.encode()): token for token in _TOKEN.findall(text)}
        self._texts |= found
        return [zlib.crc32(token.encode()) for token in _TOKEN.findall(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens that were encoded before; a space for others."""
        return "".join(self._texts.get(token, " ") for token in tokens)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]


@dataclass(eq=False, slots=True)
class StubTree:
    """What is read for a work; that is done in its first pass."""

    finished: bool = False


@dataclass(eq=False, slots=True)
class StubJob:
    """A compiled work of the stub."""

    work: Work
    counts: Counts
    tree: StubTree = field(default_factory=StubTree)
    writes: "StubWriting | None" = None


@dataclass(eq=False, slots=True)
class StubWriting:
    """A text in the making: a piece of it in each step."""

    text: GeneratedAnswer
    pieces: list[str]
    on_text: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Set:
    """Questions, compiled: their tokens and their floors' tokens."""

    tokens: int
    floors: dict[int, int]


class StubEngine:
    """Deterministic answers; one pass takes everything that was submitted.

    Attributes:
        passes: works of every pass that was run.
        gate: while cleared, `step` waits before it answers; set from the start.
        step_error: raised by the next step, once.
        submit_error: raised by the next submit, once.
        step_seconds: how long a pass takes.
        cancelled: works that were cancelled.
        schedule: in which nothing ever waits.
        memory: of the device, as the metrics show it.
        turns: the turn of every work that was submitted, in order.
        prompts: tokens of every prompt behind which a text was wanted, in order.
        stats: passes and rows, counted as the engine does.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.served = SERVED
        self.limits = limits or Limits()
        digest = hashlib.sha256(b"stub").hexdigest()
        self.fingerprint = Fingerprint(model=digest, bits=digest[::-1], facts={})
        self.tokenizer = WordTokenizer()
        self.passes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.step_error: Exception | None = None
        self.submit_error: Exception | None = None
        self.step_seconds = 0.0
        self.cancelled = 0
        self.schedule = Schedule()
        self.memory: DeviceMemory | None = None
        self.turns: list[Turn | None] = []
        self.prompts: list[tuple[int, ...]] = []
        self.stats = Stats()
        self.config = EngineConfig(model="stub", device="cpu", token_budget=4096)
        self._jobs: dict[StubJob, None] = {}
        self._sets: dict[tuple[Question, ...], _Set] = {}

    def as_engine(self) -> Engine:
        """Itself, in the type that the server asks for."""
        return cast(Engine, self)

    @property
    def device_memory(self) -> DeviceMemory | None:
        return self.memory

    @property
    def pending(self) -> int:
        return len(self._jobs)

    def compile(self, work: Work) -> StubJob:
        content = len(self.tokenizer.encode(work.content))
        if content > self.limits.max_content_tokens:
            raise Refused(
                "content_too_long",
                f"the content has {content} tokens; the limit is {self.limits.max_content_tokens}",
                "content",
            )
        if work.questions not in self._sets:
            self._sets[work.questions] = self._compiled(work.questions)
        questions = self._sets[work.questions]
        tokens = questions.tokens
        for index, slot in enumerate(work.slots):
            for place, prompt in enumerate(slot.prompts):
                tokens += self._prompt_tokens(prompt, f"slots.{index}", place)
        return StubJob(work, Counts(content, tokens, content + tokens, questions.floors))

    def submit(self, job: StubJob, turn: Turn | None = None) -> None:
        self.turns.append(turn)
        error, self.submit_error = self.submit_error, None
        if error is not None:
            raise error
        self._jobs[job] = None

    def cancel(self, job: StubJob) -> None:
        if job in self._jobs:
            del self._jobs[job]
            self.cancelled += 1

    def step(self) -> list[tuple[StubJob, Result | SpinfError]]:
        if not self._jobs:
            return []
        time.sleep(self.step_seconds)
        self.gate.wait(timeout=30)
        error, self.step_error = self.step_error, None
        if error is not None:
            raise error
        done = [job for job in self._jobs if self._written(job)]
        self._jobs = {job: None for job in self._jobs if job not in done}
        self.passes.append(len(done))
        self.stats.passes += 1
        self.stats.rows += sum(job.counts.packed_tokens for job in done)
        return [(job, self._outcome(job)) for job in done]

    def compile_generation(self, wanted: Generate, on_text: Callable[[str], None]) -> StubJob:
        prompt = wanted.prompt
        if isinstance(prompt, str):
            prompt = tuple(self.tokenizer.encode(prompt))
        if len(prompt) > self.limits.max_content_tokens:
            raise Refused(
                "content_too_long",
                f"the prompt has {len(prompt)} tokens; the limit is "
                f"{self.limits.max_content_tokens}",
                "prompt",
            )
        content = self.tokenizer.decode(prompt)
        text = written(content, "", wanted.max_tokens, wanted.sampling)
        text = stopped(text, wanted.stop)
        slot = Slot("text", (Prompt(""),), SlotKind.TEXT, sampling=wanted.sampling)
        counts = Counts(len(prompt), 0, len(prompt), {})
        self.prompts.append(prompt)
        pieces = re.findall(r"\s?\S+", text.text)
        writing = StubWriting(text, pieces, on_text)
        return StubJob(Work(content, (), slots=(slot,)), counts, writes=writing)

    def _written(self, job: StubJob) -> bool:
        """Writes a piece of a job's text; whether that is done, or the job writes none."""
        if job.writes is None:
            return True
        if job.writes.pieces:
            job.writes.on_text(job.writes.pieces.pop(0))
        return not job.writes.pieces

    def run(self, works: Sequence[Work]) -> list[Result]:
        jobs = [self.compile(work) for work in works]
        for job in jobs:
            self.submit(job)
        outcomes = dict(self.step())
        for outcome in outcomes.values():
            if isinstance(outcome, SpinfError):
                raise outcome
        return [cast(Result, outcomes[job]) for job in jobs]

    def _compiled(self, questions: tuple[Question, ...]) -> _Set:
        tokens = 0
        floors = {}
        for index, question in enumerate(questions):
            extra = 0
            for place, option in enumerate(question.options):
                size = len(self.tokenizer.encode(option))
                if size > self.limits.max_option_tokens and not question.any_option_length:
                    raise Refused(
                        "option_too_long",
                        f"the option has {size} tokens; the limit is "
                        f"{self.limits.max_option_tokens}",
                        f"questions.{index}.options.{place}",
                    )
                extra += size - 1
            for place, prompt in enumerate(question.prompts):
                size = self._prompt_tokens(
                    prompt, f"questions.{index}", place, any_length=question.any_length
                )
                tokens += size + extra
                if question.empty_floor:
                    key = hash((prompt.text, question.options, question.case_insensitive))
                    floors[key] = size + extra
        return _Set(tokens, floors)

    def _prompt_tokens(
        self, prompt: Prompt, path: str, place: int, *, any_length: bool = False
    ) -> int:
        size = len(self.tokenizer.encode(prompt.text))
        if size > self.limits.max_query_tokens and not any_length:
            where = f"combinations.{place}" if prompt.values else "template"
            raise Refused(
                "template_too_long",
                f"the template has {size} tokens; the limit is {self.limits.max_query_tokens}",
                f"{path}.{where}",
            )
        return size

    def _outcome(self, job: StubJob) -> Result | SpinfError:
        content = job.work.content
        if NAN in content:
            return Fault("the model returned a value that is no number on this content", "content")
        if job.writes is not None:
            text = job.writes.text
            found = SlotAnswers("text", generated=(text,), tokens=text.tokens)
            return Result((), job.counts, True, ((found,),))
        answers = tuple(_answer(content, question) for question in job.work.questions)
        slots = tuple(
            tuple(slot_answers(content, slot, prompt.text) for prompt in slot.prompts)
            for slot in job.work.slots
        )
        return Result(answers, job.counts, UNMERGED not in content, slots)


def _answer(content: str, question: Question) -> QuestionAnswer:
    prompts = []
    for prompt in question.prompts:
        logprobs, residual = scores(content, prompt.text, question.options)
        ps = softmax(logprobs)
        floors: Sequence[float | None] = [None] * len(ps)
        floor_ps: Sequence[float | None] = floors
        floor_residual = None
        if question.empty_floor:
            floors, floor_residual = scores("", prompt.text, question.options)
            floor_ps = softmax(floors)
        options = tuple(map(OptionAnswer, question.options, logprobs, ps, floor_ps, floors))
        prompts.append(PromptAnswer(prompt.values, options, residual, floor_residual))
    single = all(len(_TOKEN.findall(option)) == 1 for option in question.options)
    return QuestionAnswer(question.id, tuple(prompts), single)


def scores(content: str, prompt: str, options: Sequence[str]) -> tuple[list[float], float]:
    """Log-probabilities of options, each a function of itself, and the mass outside them."""
    start = zlib.crc32(prompt.encode(), zlib.crc32(content.encode()))
    mass = 0.05 if POOR in prompt else 0.95
    shares = [
        (1 + zlib.crc32(option.encode(), start) / 2**32) * mass / (2 * len(options))
        for option in options
    ]
    return [math.log(share) for share in shares], max(0.0, 1.0 - sum(shares))


def softmax(logprobs: Sequence[float]) -> list[float]:
    """Softmax of a few log-probabilities."""
    total = sum(map(math.exp, logprobs))
    return [math.exp(value) / total for value in logprobs]


def named(name: str) -> ServedModel:
    """The stub's description under another id."""
    return replace(SERVED, id=name, name=name)
