"""The text of a new pack: a commented draft that is valid, a small labelled sample, the schema."""

from collections.abc import Mapping
from pathlib import Path

_PACK = """\
# yaml-language-server: $schema=pack.schema.json
# A pack: questions about a content, what the answers mean, and what is decided by them.
# `spinf-serve packs validate pack.yaml` checks it, `spinf-serve packs lint pack.yaml` asks a model.
pack: {id}
version: 0.1.0
name: {title}
description: What this pack tells of a content, in a sentence.
tags: [draft]

# How the content is presented: {{X}} is the content.
contexts:
  default: "Message: {{X}}\\n"

scoring:
  queries:
    # A question ends in {{?}}, where one of its options is read. The first of two options speaks
    # for the category.
    - id: mood
      template: "\\nThe writer is{{?}}"
      options: [angry, calm]
      category: angry

    # The opposite first: `sign: -1` lets the second option speak.
    - id: tone
      template: "\\nThe tone of the message is{{?}}"
      options: [friendly, hostile]
      category: angry
      sign: -1

    # One template for several values; here each has a category of its own.
    - id: mentions
      template: "\\nDoes the message mention {{F}}? Answer:{{?}}"
      options: yes/no
      for: {{F: [money, a delivery]}}
      category: {{money: money, a delivery: delivery}}

    # Several options: say which of them speak for a category, and keep one for all the rest.
    - id: topic
      template: "\\nTopic:{{?}}"
      options: [payment, shipping, other]
      categories: {{payment: money, shipping: delivery}}

# `decides: false` reports a category's score and leaves it out of the decision.
categories:
  angry: {{label: The writer is angry}}
  money: {{label: About money, decides: false}}
  delivery: {{label: About a delivery, decides: false}}

# A content is flagged when any deciding category reaches its threshold.
decision: {{mode: per_category}}

# Nothing is fitted yet: the pack answers and decides nothing. Label more rows in sample.csv, then
# `spinf-serve packs fit pack.yaml` writes the numbers here, under `fitted`.
"""

_SAMPLE = """\
id,split,language,labels,text
r01,fit,en,angry money,"This is the third time you charged me twice. I have had enough!"
r02,fit,en,angry delivery,"Where is my parcel? You promised Monday and nobody answers the phone!"
r03,fit,en,money,"Hello, could you send me a receipt for last month's payment? Thanks."
r04,fit,en,delivery,"Just to let you know, the package arrived today and all is fine."
r05,fit,en,,Do you also have this lamp in green?
r06,fit,en,?angry,Well. That was quite something.
r07,fit,en,angry,"I asked for a manager twice, and twice you hung up on me. Shame on you."
r08,fit,en,money,Is there a discount when I pay for the whole year at once?
r09,fit,en,delivery,Could you send the chair to my office instead of my home?
r10,fit,en,,How long do the batteries last in winter?
r11,fit,en,angry money,"You still owe me my refund, and your excuses make me sick!"
r12,fit,en,,The new colors look lovely in our kitchen.
r13,test,en,angry,"Your app deleted my notes again, this is a disgrace."
r14,test,en,money,What would it cost to add a second user?
r15,test,en,delivery,Can the courier leave the box with my neighbor?
r16,test,en,,"Thank you for the kind help yesterday, have a nice weekend."
"""


def starter(pack_id: str) -> Mapping[str, str]:
    """File name -> text of a new pack's folder. The id is not checked: the loader does that."""
    title = pack_id.split("/")[-1].replace("-", " ").replace("_", " ").capitalize()
    return {
        "pack.yaml": _PACK.format(id=pack_id, title=title),
        "sample.csv": _SAMPLE,
        "pack.schema.json": schema_text(),
    }


def schema_text() -> str:
    """The JSON Schema of a pack's file, for editors."""
    return Path(__file__).with_name("pack.schema.json").read_text("utf-8")
