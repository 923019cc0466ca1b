"""A recording's scores, taken into a project's store as if they had just been asked. Asks nobody."""

from spinf_serve.evals.asking import PROMPT_STYLE, prompts
from spinf_serve.evals.data.rows import rows
from spinf_serve.evals.project import Project
from spinf_serve.evals.score_tables import Findings, Identity, keep
from spinf_serve.packs.digests import content_digest
from spinf_serve.packs.errors import Refused, Unusable
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.present import wrapped
from spinf_serve.packs.recording import Recording


def keep_recording(project: Project, dataset: str, pack: Pack, recording: Recording) -> int:
    """Keep what a recording says of a dataset's rows and a pack's questions.

    Returns how many answers were taken, floors aside; rows and prompts that it does not know are left
    for a run to ask. Raises `Unusable`: there is no such dataset, or the recording was made with
    another prompt style.
    """
    if recording.prompt_style != PROMPT_STYLE:
        raise Unusable(
            f"the recording was made with prompt style {recording.prompt_style!r}, and a project keeps"
            f" scores of {PROMPT_STYLE!r}; ask the model instead"
        )
    wanted = prompts(pack.questions)
    lengths = {
        digest: len(pack.questions[question].options) for digest, (question, _) in wanted.items()
    }
    found = Findings(
        floors={digest: recording.floors[digest] for digest in wanted if digest in recording.floors}
    )
    for row in rows(project, dataset):
        try:
            content = content_digest(wrapped(pack, row.text, row.context, row.parameters))
        except Refused:
            continue
        for digest, logprobs in recording.scores.get(content, {}).items():
            if digest in wanted:
                found.scores[content, digest] = logprobs
                found.texts[content] = content_digest(row.text)
    header = recording.header
    identity = Identity(header.model_digest, header.bits, header.model, facts={"asked": "recorded"})
    if found:
        with project.open(write=True) as connection:
            keep(connection, identity, lengths, found)
    return len(found.scores)
