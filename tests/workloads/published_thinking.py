"""More forms of published chat templates: tags of thoughts with other names, switches, and odd last turns."""

CHATML_TURN = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
LOOP = "{% for m in messages %}"
END = "{% endfor %}"


def without_thoughts(opens: str, closes: str, *, gap: str = "\n") -> str:
    """ChatML whose prompt begins thoughts with a tag, and whose replies have what follows the other."""
    return (
        LOOP
        + "{% if m.role == 'assistant' %}<|im_start|>assistant\n"
        + "{{ m.content.split('"
        + closes
        + "')[-1].lstrip() }}<|im_end|>\n{% else %}"
        + CHATML_TURN
        + "{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|im_start|>assistant\n"
        + opens
        + gap
        + "{% endif %}"
    )


THINKING_FORMS: dict[str, str] = {
    "EXAONE Deep": without_thoughts("<thought>", "</thought>"),
    "OpenThinker": without_thoughts("<|begin_of_thought|>", "<|end_of_thought|>", gap="\n\n"),
    "Kimi VL Thinking": without_thoughts("◁think▷", "◁/think▷", gap=""),
    "reasoning": without_thoughts("<reasoning>", "</reasoning>"),
    # Its switch has another name, and what ends thoughts stands in the prompt.
    "Command A": (
        "{{ bos_token }}" + LOOP + "<|START_OF_TURN_TOKEN|>"
        "{% if m.role == 'assistant' %}<|CHATBOT_TOKEN|>"
        "{% if m.thinking %}<|START_THINKING|>{{ m.thinking }}<|END_THINKING|>{% endif %}"
        "<|START_RESPONSE|>{{ m.content }}<|END_RESPONSE|>"
        "{% else %}<|{{ m.role | upper }}_TOKEN|>{{ m.content }}{% endif %}<|END_OF_TURN_TOKEN|>"
        + END
        + "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>"
        "{% if reasoning is defined and not reasoning %}<|END_THINKING|>{% endif %}{% endif %}"
    ),
    # Neither the prompt nor the history has thoughts, which the model begins itself.
    "DeepSeek R1 0528": (
        "{{ bos_token }}" + LOOP + "{% if m.role == 'user' %}<|User|>{{ m.content }}<|Assistant|>"
        "{% elif m.role == 'assistant' %}{{ m.content.split('</think>')[-1] }}{{ eos_token }}"
        "{% else %}{{ m.content }}{% endif %}" + END
    ),
    # Its switch writes no word about thoughts.
    "Apertus": (
        "{{ bos_token }}<|system_start|>{{ messages[0].content if messages[0].role == 'system' else 'Hi' }}"
        "<|system_end|><|developer_start|>Deliberation: "
        "{{ 'enabled' if enable_thinking is defined and enable_thinking else 'disabled' }}<|developer_end|>"
        + LOOP
        + "{% if m.role != 'system' %}<|{{ m.role }}_start|>{{ m.content }}<|{{ m.role }}_end|>{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|assistant_start|>{% endif %}"
    ),
    # The variable has words for values, and the text shows it.
    "mode": (
        "<|im_start|>system\nThinking: {{ thinking_mode | default('on') }}\n"
        "{{ messages[0].content if messages[0].role == 'system' }}<|im_end|>\n"
        + LOOP
        + "{% if m.role != 'system' %}"
        + CHATML_TURN
        + "{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
        "{{ '</think>\n' if thinking_mode | default('on') != 'on' }}{% endif %}"
    ),
    # The system message stands in the last question, and nowhere when a reply follows.
    "Mistral 0.3": (
        "{% set system = messages[0].content if messages[0].role == 'system' %}{{ bos_token }}"
        "{% for m in (messages[1:] if system else messages) %}{% if m.role == 'user' %}"
        "[INST] {{ system ~ '\n\n' if loop.last and system }}{{ m.content }}[/INST]"
        "{% else %} {{ m.content }}{{ eos_token }}{% endif %}" + END
    ),
    # Without thoughts the last question begins with a command.
    "Hunyuan": (
        LOOP + "{% if m.role == 'assistant' %}{{ m.content }}<|eos|>{% elif m.role == 'system' %}"
        "<|startoftext|>{{ m.content }}<|extra_4|>{% else %}<|startoftext|>"
        "{{ '/no_think' if loop.last and enable_thinking is defined and not enable_thinking }}"
        "{{ m.content }}<|extra_0|>{% endif %}"
        + END
        + "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
        "<think>\n\n</think>\n{% endif %}"
    ),
    # A system message of its own in place of the user's.
    "Phi 4 reasoning": (
        "<|im_start|>system<|im_sep|>Write <think> {Thought section} </think> {Solution section}.<|im_end|>"
        + LOOP
        + "{% if m.role != 'system' %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"
    ),
}
