"""An entry as the request that would ask for it again, and whether what came back is the same."""

from collections.abc import Mapping
from typing import Any

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.decision_log.entries import Entry, content_digest


def request_of(entry: Entry, text: str | None = None) -> dict[str, Any]:
    """The body of /v1/score that asks the entry's packs about its content again.

    Args:
        text: the content; None takes the one that the log keeps.

    Raises `Unusable`: the log keeps no text and none is given, it is another content's, or the
    entry has no pack to ask.
    """
    content = entry.text if text is None else text
    if content is None:
        raise Unusable(
            f"the log keeps no text of entry {entry.id}; give the content with --content FILE"
        )
    if content_digest(content) != entry.digest:
        raise Unusable(
            f"that is not the content of entry {entry.id}: its digest is"
            f" {content_digest(content)[:12]}, and the entry's {entry.digest[:12]}"
        )
    if not entry.decided:
        raise Unusable(
            f"entry {entry.id} has no pack: its request asked questions of its own, which the log"
            " does not keep as the caller wrote them"
        )
    packs = []
    for one in entry.decided:
        pack: dict[str, Any] = {"id": one.pack, "version": one.version, "context": one.context}
        if one.call:
            pack["decision"] = dict(one.call)
        packs.append(pack)
    message = {"role": "user", "content": content}
    asked: dict[str, Any] = {"id": entry.input, "messages": [message]}
    if entry.parameters:
        asked["parameters"] = dict(entry.parameters)
    return {
        "model": entry.identity.served,
        "inputs": [asked],
        "scoring": {"packs": packs, "precision": "full"},
    }


def differences(entry: Entry, answer: Mapping[str, Any]) -> list[str]:
    """What an answer to `request_of` says otherwise than the entry, a sentence each.

    Args:
        answer: the body, with `results` of one input.
    """
    found = []
    told = {one["id"]: one for one in answer["results"][0]["packs"]}
    for one in entry.decided:
        now = told[one.pack]
        for name, kept in one.categories.items():
            score = now["categories"][name]["score"]
            if score != kept["score"]:
                found.append(f"{one.pack}: {name} was {kept['score']!r} and is {score!r}")
        if one.decision is not None and now["decision"]["unsafe"] != one.decision["unsafe"]:
            words = {True: "unsafe", False: "safe"}
            was, is_now = words[one.decision["unsafe"]], words[now["decision"]["unsafe"]]
            found.append(f"{one.pack}: it was {was} and is {is_now}")
    return found
