"""Jobs measured one after the other on one engine in this process, with what each is held to."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from spinf_serve.engine.api import Engine
from spinf_serve.engine.bench.jobs import Asked, Sizes, jobs
from spinf_serve.engine.bench.measure import BenchJob, measured, run_once
from spinf_serve.engine.bench.profile import profiled, table
from spinf_serve.engine.bench.results import Measurement, ResultFile
from spinf_serve.engine.models.decoder import Decoder
from spinf_serve.packs.errors import Refused

if TYPE_CHECKING:
    from spinf_serve.engine.bench.ceiling import LinearsCeiling

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Suite:
    """What is measured on, and how.

    Attributes:
        model: the engine's, for the ceiling and the timing of operations; None for an engine that
            was opened by name: then there is no ceiling, and a profile on a GPU only.
        repeats: of each job.
        profile: whether one more run of each job is profiled.
    """

    engine: Engine
    model: Decoder | None
    device: torch.device
    results: ResultFile
    repeats: int
    profile: bool
    say: Say

    def run(self, groups: Iterable[str], sizes: Sizes, packs: Mapping[str, Asked]) -> None:
        """Measures the jobs of some groups; each result is kept before the next job."""
        ceiling = None
        if self.model is not None:
            # Triton is not there on every machine that is measured.
            from spinf_serve.engine.bench.ceiling import LinearsCeiling

            ceiling = LinearsCeiling(self.model.linears(), self.model.ops.dtype, self.device)
        for group in groups:
            for job in jobs(group, sizes, self.engine.tokenizer, packs):
                try:
                    self._measure(job, ceiling)
                except Refused as refused:
                    # Contents grow past what some models read.
                    self.say(f"{job.name}: left out: {refused.message}")

    def _measure(self, job: BenchJob, ceiling: "LinearsCeiling | None") -> None:
        found = measured(self.engine, job, self.repeats, self.device)
        if ceiling is not None:
            _held_to(found, ceiling)
        # Kept before the profile, which may be what goes wrong.
        self.results.add(found)
        for line in _lines(found):
            self.say(line)
        if self.profile:
            self._profile(job, found)
            self.results.changed()

    def _profile(self, job: BenchJob, found: Measurement) -> None:
        profile = profiled(lambda: run_once(self.engine, job), self.device, self.model)
        found.device_ms, found.device_share = profile.device_ms, profile.shares
        found.kernels, found.device_idle_share = profile.kernels, profile.idle_share
        if not profile.device_ms:
            self.say("  nothing to profile: on a CPU only synthetic models are, by --synthetic")
        for line in table(profile):
            self.say(line)


def _held_to(found: Measurement, ceiling: "LinearsCeiling") -> None:
    from spinf_serve.engine.bench.ceiling import PassSize

    sizes = [PassSize(int(one["rows"]), int(one["reads"])) for one in found.pass_times[-1]]
    found.linears_ceiling_questions_per_s = found.questions / ceiling.seconds(sizes)
    found.linears_share = found.questions_per_s_wall / found.linears_ceiling_questions_per_s
    largest = max(sizes, key=lambda size: size.rows)
    in_sequence = ceiling.sequence_seconds(largest) * found.rows / largest.rows
    found.linears_sequence_questions_per_s = found.questions / in_sequence
    rows = {size.rows for size in sizes}
    found.linears = [one.figures() for one in ceiling.products() if one.rows in rows]


def _lines(found: Measurement) -> list[str]:
    device = found.questions_per_s_device or 0.0
    rates = (
        f"{found.questions_per_s_wall:.1f} questions/s by the wall, {device:.1f} by the device, "
        f"{found.contents_per_hour:.0f} contents/h, {found.work_tokens_per_s:.0f} tokens/s"
    )
    sizes = (
        f"{found.contents} contents of {found.content_tokens:.0f} tokens, {found.questions} "
        f"questions, {found.rows} rows in {len(found.pass_times[-1])} passes; idle by the wall "
        f"{100 * (found.wall_idle_share or 0.0):.1f} %, peak {found.peak_memory_gib:.2f} GiB"
    )
    lines = [f"{found.job}: {rates}", f"  {sizes}", f"  answers sha256 {found.answers_sha256}"]
    if found.linears_ceiling_questions_per_s is not None and found.linears_share is not None:
        lines.append(
            f"  linears alone {found.linears_ceiling_questions_per_s:.1f} questions/s, of which the "
            f"job reaches {100 * found.linears_share:.1f} %"
        )
    return lines
