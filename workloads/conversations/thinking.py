"""Whether a model thinks before it answers, as its chat template decides it where a caller says nothing.

Many templates have a variable for it, such as `enable_thinking`. Others always begin the model's thoughts.
Rows without thoughts are trained without thinking, and a server must then ask without it, too.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

# A text that no template writes by itself.
PROBE = "probe7f3a"
_INNER = r"[^<>\[\]◁▷\s]*"
_TAG = rf"[<\[◁]{_INNER}(?:think|thought|reasoning){_INNER}[>\]▷]"
# How a tag begins that ends something: </think>, [/THINK], <|END_THINKING|>.
_END = rf"[<\[◁](?:\|?/|{_INNER}(?<![a-z])end(?![a-z]))"
# A tag that begins thoughts at the end of a prompt: <think>, <thought>, [THINK], <|START_THINKING|>.
OPENS = re.compile(rf"(?!{_END})(?P<tag>{_TAG})(?P<gap>\n*)\Z", re.IGNORECASE)
# A tag that ends thoughts.
CLOSES = re.compile(rf"(?={_END}){_TAG}", re.IGNORECASE)
BEGIN = re.compile("start|begin", re.IGNORECASE)
# What tells that a difference between two prompts is about thoughts.
ABOUT = re.compile("think|thought", re.IGNORECASE)
# A tag, or a character of any other text.
UNIT = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|◁[^◁▷]*▷|.", re.DOTALL)
# Blocks of a library's own, which only mark a text.
MARKS = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
# The variable of a template that gets one here.
OWN_SWITCH = "enable_thinking"
FIRST_LINE = "{{% set {name} = {name} if {name} is defined else {thinks} %}}\n"
CLOSED = (
    "{{% set asked_prompt %}}\n{template}{{% endset %}}\n"
    "{{{{ asked_prompt }}}}"
    "{{% if add_generation_prompt and not {name} and asked_prompt.endswith({opening}) %}}"
    "{{{{ {closing} }}}}{{% endif %}}"
)

Render = Callable[..., str | None]


def settle(processor: Any, thinks: bool) -> bool:
    """Have the chat template of a processor, or of a tokenizer, ask for thoughts, or for none.

    A caller may still choose by the template's variable. Returns whether the template had to be changed.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    before = tokenizer.chat_template
    for owner in dict.fromkeys((processor, tokenizer)):
        template = owner.chat_template
        if isinstance(template, dict):
            owner.chat_template = {
                name: _settled(text, partial(_render, tokenizer), thinks) for name, text in template.items()
            }
        elif template:
            owner.chat_template = _settled(template, partial(_render, tokenizer), thinks)
    return tokenizer.chat_template != before


def settle_for(processor: Any, thinks: bool) -> str | None:
    """Have a chat template ask as the rows answer: with thoughts, if `thinks`, or without.

    Returns a line about it, or None if the model's own template asks so.
    """
    if not settle(processor, thinks):
        return None
    have, how = ("thoughts", "with thoughts") if thinks else ("no thoughts", "without thoughts")
    return f"the rows have {have}: the run trains {how}, and the chat template of its result asks so"


def closing(prompt: str) -> str:
    """What ends the thoughts that a prompt begins, or an empty text if it begins none."""
    opened = OPENS.search(prompt)
    if not opened:
        return ""
    gap, tag = opened["gap"], opened["tag"]
    if word := BEGIN.search(tag):
        end = tag.replace(word[0], "END" if word[0].isupper() else "end")
    else:
        name = 2 if tag[1] == "|" else 1
        end = f"{tag[:name]}/{tag[name:]}"
    return f"{gap}{end}{(gap * 2)[:2]}"


def only_thoughts(text: str) -> bool:
    """Whether a text is nothing but tags of thoughts."""
    return not OPENS.sub("", CLOSES.sub("", text).rstrip()).strip()


def _settled(template: str, render: Render, thinks: bool) -> str:
    usual = render(template)
    if usual is None:
        return template  # it takes no such conversation
    name = next(_switches(template, render), None)
    if name and render(template, **{name: thinks}) != usual:
        template = FIRST_LINE.format(name=name, thinks=str(thinks).lower()) + template
    prompt = render(template) or ""
    if thinks or not (end := closing(prompt)):
        return template
    opening = next(match[0] for match in OPENS.finditer(prompt))
    return CLOSED.format(
        template=template.removesuffix("\n"),
        name=name or OWN_SWITCH,
        opening=_literal(opening),
        closing=_literal(end),
    )


def _switches(template: str, render: Render) -> Iterator[str]:
    """The variables of a template that switch thoughts on and off."""
    for name in _variables(template):
        on, off = render(template, **{name: True}), render(template, **{name: False})
        if on is None or off is None or on == off or on.count("True") > off.count("True"):
            continue  # where the template prints the variable, it is no switch
        if ABOUT.search(_difference(on, off)) or ABOUT.search(name):
            yield name


def _variables(template: str) -> list[str]:
    """The names that a template takes from its caller."""
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.meta import find_undeclared_variables
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(extensions=[loopcontrols])
    try:
        names = find_undeclared_variables(environment.parse(MARKS.sub("", template)))
    except TemplateError:
        return []
    taken = {"messages", "tools", "add_generation_prompt"}
    # Special tokens are no caller's choice.
    return sorted(name for name in names - taken if not name.endswith("_token"))


def _render(tokenizer: Any, template: str, **values: Any) -> str | None:
    """The prompt of a short conversation, or None if the template fails with these values."""
    for content in (PROBE, [{"type": "text", "text": PROBE}]):
        try:
            prompt = tokenizer.apply_chat_template(
                [{"role": "user", "content": content}],
                chat_template=template,
                add_generation_prompt=True,
                tokenize=False,
                **values,
            )
        except Exception:  # a template is a program of the model's author
            continue
        if PROBE in prompt and "'text'" not in prompt:
            return prompt
    return None


def same_beginning(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning. A tag counts whole or not at all."""
    return sum(map(len, _same(UNIT.findall(one), UNIT.findall(other))))


def _difference(one: str, other: str) -> str:
    """What stands in one of two texts alone, between what both begin and end with."""
    units, others = UNIT.findall(one), UNIT.findall(other)
    start = len(_same(units, others))
    units, others = units[start:], others[start:]
    end = len(_same(units[::-1], others[::-1]))
    return "".join(units[: len(units) - end] + others[: len(others) - end])


def _same(units: list[str], others: list[str]) -> list[str]:
    """What two lists have in common at their beginning."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(units, others, strict=False))
    return [unit for unit, _ in pairs]


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
