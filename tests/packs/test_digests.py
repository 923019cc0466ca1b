"""Digests change with everything that moves a score, and with nothing else."""

from dataclasses import replace

from spinf_serve.packs.digests import constants_digest, content_digest, prompt_digest
from spinf_serve.packs.pack import Bands, Cuts
from tests.support.packs import golden, made


def test_content():
    # echo -n 'a' | sha256sum
    expected = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert content_digest("a") == expected
    assert content_digest("é 🎈") != content_digest("e 🎈")


def test_every_part_of_a_prompt_counts():
    base = ("\nSo?", (" yes", " no"), True, "plain")
    others = [
        ("\nSo? ", (" yes", " no"), True, "plain"),
        ("\nSo?", (" no", " yes"), True, "plain"),
        ("\nSo?", (" yes", " no"), False, "plain"),
        ("\nSo?", (" yes", " no"), True, "chat"),
        ("\nSo?", (' yes"," no',), True, "plain"),
        ("\nSo?", (" yes no",), True, "plain"),
    ]
    digests = {prompt_digest(*one) for one in (base, *others)}
    assert len(digests) == 7
    assert prompt_digest(*base) == prompt_digest("\nSo?", [" yes", " no"], True, "plain")


def test_every_fitted_number_counts():
    _, constants = made(golden())
    assert constants.layer is not None
    read = constants.reads["bill"]
    category = constants.categories["anger"]
    changed = [
        replace(constants, reads={**constants.reads, "bill": replace(read, mean=0.11)}),
        replace(constants, reads={**constants.reads, "bill": replace(read, mu=(-1.2, -1.1, -1.0))}),
        replace(
            constants,
            categories={**constants.categories, "anger": replace(category, threshold=None)},
        ),
        replace(
            constants,
            categories={**constants.categories, "anger": replace(category, quantiles=None)},
        ),
        replace(constants, max_threshold=0.7),
        replace(constants, layer=None),
        replace(constants, layer=replace(constants.layer, weights=(0.5, 0.25, 0.125, -0.25, 0.75))),
        replace(constants, bands=Bands(Cuts(0.9, 0.6))),
    ]
    assert len({constants_digest(one) for one in (constants, *changed)}) == 9


def test_names_proofs_and_ways_of_writing_a_number_do_not():
    _, constants = made(golden())
    assert constants.layer is not None
    digest = constants_digest(constants)
    read = constants.reads["refund"]
    for same in (
        replace(constants, model="another/name"),
        replace(constants, proof={"constants": digest}),
        replace(constants, layer=replace(constants.layer, holds=False)),
        replace(constants, reads={**constants.reads, "refund": replace(read, mean=0, sd=1)}),
        replace(constants, reads=dict(reversed(list(constants.reads.items())))),
    ):
        assert constants_digest(same) == digest
