"""An engine without a model that answers from the official triage pack's recording.

What was not recorded, an edited question for one, is answered by the stub's checksums. It names the
recorded model, so that a project with kept scores of that model asks only for what it lacks.
"""

import json
from dataclasses import replace
from math import exp
from pathlib import Path

from spinf_serve.engine.fingerprint import Fingerprint
from spinf_serve.engine.work import Limits, Result
from spinf_serve.packs.answer import OptionAnswer, PromptAnswer, QuestionAnswer
from spinf_serve.packs.catalogue import official_folder
from spinf_serve.packs.digests import content_digest, prompt_digest
from spinf_serve.packs.errors import SpinfError
from spinf_serve.packs.question import Question
from spinf_serve.packs.recording import Recording, read_recording
from tests.support.stub_engine import SERVED, StubEngine, StubJob, scores, softmax

HOME = official_folder() / "triage"


def recording(folder: Path = HOME) -> Recording:
    """The recording of the official triage pack."""
    digest = json.loads((folder / "fit.json").read_text())["model_digest"]
    found = read_recording(folder / "scores.jsonl.gz", digest, print)
    assert found is not None
    return found


class RecordedEngine(StubEngine):
    """Recorded answers.

    Attributes:
        unrecorded: how many answers it made up.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._recording = recording()
        header = self._recording.header
        self.served = replace(SERVED, id=header.model, name=header.model, aliases=("stub",))
        self.fingerprint = Fingerprint(model=header.model_digest, bits=header.bits, facts={})
        self.unrecorded = 0

    def _outcome(self, job: StubJob) -> Result | SpinfError:
        found = super()._outcome(job)
        if not isinstance(found, Result):
            return found
        answers = tuple(self._answer(job.work.content, one) for one in job.work.questions)
        return replace(found, answers=answers)

    def _answer(self, content: str, question: Question) -> QuestionAnswer:
        known = self._recording.scores.get(content_digest(content), {})
        prompts = []
        for prompt in question.prompts:
            digest = prompt_digest(
                prompt.text, question.options, question.case_insensitive, "plain"
            )
            logprobs = known.get(digest)
            floors = self._recording.floors.get(digest)
            if logprobs is None:
                self.unrecorded += 1
                logprobs = tuple(scores(content, prompt.text, question.options)[0])
            if floors is None:
                floors = tuple(scores("", prompt.text, question.options)[0])
            ps, floor_ps = softmax(logprobs), softmax(floors)
            options = tuple(map(OptionAnswer, question.options, logprobs, ps, floor_ps, floors))
            prompts.append(
                PromptAnswer(prompt.values, options, _residual(logprobs), _residual(floors))
            )
        return QuestionAnswer(question.id, tuple(prompts), True)


def _residual(logprobs: tuple[float, ...]) -> float:
    return max(0.0, 1.0 - sum(map(exp, logprobs)))
