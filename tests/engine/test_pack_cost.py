"""What a pack costs on the embedded model: one pass, and few rows beside those of the tree."""

from pathlib import Path

import pytest

from spinf_serve.engine.api import Engine, open_engine
from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits, Work
from spinf_serve.packs.loader import load_pack
from spinf_serve.packs.present import filled

pytestmark = pytest.mark.weights

MESSAGE = (
    "Hi all, my grandmother left me her old sewing machine and the pedal is stuck. I cleaned it "
    "twice, oiled every joint and it still does not move. Does anybody know a shop near the river "
    "that repairs such machines, or a video that shows how to take the pedal apart without "
    "breaking it? I would be thankful for any hint, thanks a lot and have a nice weekend."
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return open_engine(EngineConfig(model="embedded", device="cpu"), Limits())


def test_all_of_moderation_is_read_in_one_pass_at_the_cost_of_its_tree(engine, root):
    pack = load_pack(root / Path("packs/spinf/moderation/pack.yaml"))
    assert len(pack.questions) == sum(len(q.prompts) for q in pack.questions) == 106
    before, after = filled(pack, pack.contexts["forum"], {})
    work = Work(before + MESSAGE + after, pack.questions)
    # Floors are kept once they were read, so that a message pays for its own tree only.
    engine.run([work])
    passes, rows = engine.stats.passes, engine.stats.rows
    (result,) = engine.run([work])
    assert engine.stats.passes - passes == 1
    tree = result.counts.packed_tokens
    assert engine.stats.rows - rows <= 1.02 * tree
    # Shared stems: the tree is smaller than the content and all questions laid end to end.
    apart = result.counts.content_tokens + sum(
        len(engine.tokenizer.encode(prompt.text)) for q in pack.questions for prompt in q.prompts
    )
    assert tree <= 0.85 * apart, (tree, apart)


def test_a_pack_s_answers_do_not_depend_on_other_packs_and_questions(engine, root):
    packs = [load_pack(root / f"packs/spinf/{name}/pack.yaml") for name in ("reviews", "news")]
    own = packs[1].questions[:3]
    content = 'Review: "The kettle leaks and nobody answers." It went back.'
    alone = engine.run([Work(content, packs[0].questions)])[0].answers
    beside = engine.run([Work(content, (*own, *packs[1].questions, *packs[0].questions))])[0]
    assert beside.answers[-len(alone) :] == alone
