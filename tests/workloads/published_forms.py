"""Chat templates in the forms in which models are published, besides those that trl has. Written for tests.

They have what makes a form special: order of roles, where tools and thoughts go, and how a turn ends.
"""

LOOP = "{% for m in messages %}"
END = "{% endfor %}"
# Thoughts as most templates take them: a key of their own, or a tag in the text.
SPLIT = (
    "{% set text = m.content %}{% set thoughts = m.reasoning_content | default('') %}"
    "{% if '</think>' in text %}{% set thoughts = text.split('</think>')[0].split('<think>')[-1].strip() %}"
    "{% set text = text.split('</think>')[-1].lstrip() %}{% endif %}"
)
LAST_USER = (
    "{% set at = namespace(user=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set at.user = loop.index0 %}{% endif %}{% endfor %}"
)
ALTERNATE = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user and assistant') }}{% endif %}"
)
CHATML = LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" + END
CHATML_PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

# Tokens of these forms that are not in the texts of their templates.
TOKENS = ["[|endofturn|]", "<|assistant_end|>", "<|user|>", "<|observation|>"]
FORMS: dict[str, str] = {
    "Llama 2": (
        "{% if messages[0].role == 'system' %}{% set talk = messages[1:] %}"
        "{% set system = '<<SYS>>\n' ~ messages[0].content ~ '\n<</SYS>>\n\n' %}"
        "{% else %}{% set talk = messages %}{% set system = '' %}{% endif %}"
        "{% for m in talk %}" + ALTERNATE + "{% if m.role == 'user' %}"
        "{{ bos_token ~ '[INST] ' ~ (system if loop.first else '') ~ m.content ~ ' [/INST]' }}"
        "{% else %}{{ ' ' ~ m.content ~ ' ' ~ eos_token }}{% endif %}" + END
    ),
    # Tools stand before the last question, so that history has none.
    "Mistral": (
        "{{ bos_token }}" + LAST_USER + LOOP + "{% if m.role == 'user' %}"
        "{% if tools and loop.index0 == at.user %}"
        "[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
        "[INST] {{ m.content }}[/INST]"
        "{% elif m.role == 'assistant' and m.tool_calls %}[TOOL_CALLS] "
        "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}{{ eos_token }}"
        "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}"
        "{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }}[/TOOL_RESULTS]"
        "{% else %}{{ raise_exception('only user, assistant and tool') }}{% endif %}" + END
    ),
    "ChatML without a prompt": CHATML,
    "Yi": CHATML + CHATML_PROMPT,
    "InternLM": "{{ bos_token }}" + CHATML + CHATML_PROMPT,
    "Zephyr": (
        LOOP + "<|{{ m.role }}|>\n{{ m.content + eos_token }}\n"
        "{% if loop.last and add_generation_prompt %}<|assistant|>\n{% endif %}" + END
    ),
    "Vicuna": (
        "{{ bos_token }}" + LOOP + "{% if m.role == 'system' %}{{ m.content + ' ' }}"
        "{% elif m.role == 'user' %}{{ 'USER: ' + m.content + ' ' }}"
        "{% else %}{{ 'ASSISTANT: ' + m.content + eos_token }}{% endif %}"
        + END
        + "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
    ),
    "Gemma 2": (
        "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + LOOP
        + ALTERNATE
        + "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end_of_turn>\n"
        + END
        + "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
    "Phi 4 mini": (
        LOOP
        + "<|{{ m.role }}|>{{ m.content }}<|end|>"
        + END
        + "{% if add_generation_prompt %}<|assistant|>{% else %}{{ eos_token }}{% endif %}"
    ),
    "Command R": (
        "{{ bos_token }}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>"
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}You answer.{% endif %}"
        "<|END_OF_TURN_TOKEN|>" + LOOP + "{% if m.role != 'system' %}<|START_OF_TURN_TOKEN|>"
        "{{ '<|USER_TOKEN|>' if m.role == 'user' else '<|CHATBOT_TOKEN|>' }}{{ m.content | trim }}"
        "<|END_OF_TURN_TOKEN|>{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"
    ),
    # The switch decides between the two tags, and history has neither.
    "DeepSeek V3.1": (
        "{% if thinking is not defined %}{% set thinking = false %}{% endif %}{{ bos_token }}"
        + LAST_USER
        + LOOP
        + "{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}<|User|>{{ m.content }}"
        "{% else %}<|Assistant|>{{ '</think>' if loop.index0 > at.user else '' }}"
        "{{ m.content.split('</think>')[-1] }}{{ eos_token }}{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|Assistant|>{{ '<think>' if thinking else '</think>' }}{% endif %}"
    ),
    "DeepSeek R1": (
        "{{ bos_token }}" + LOOP + "{% if m.role == 'system' %}{{ m.content }}"
        "{% elif m.role == 'user' %}<|User|>{{ m.content }}"
        "{% else %}<|Assistant|>{{ m.content.split('</think>')[-1] }}{{ eos_token }}{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
    ),
    # A turn ends with the token of the next one.
    "GLM 4": (
        "[gMASK]<sop>" + LOOP + "{% if m.role == 'tool' %}<|observation|>\n{{ m.content }}"
        "{% else %}<|{{ m.role }}|>\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}"
        "{% endif %}{% if loop.first and tools %}{{ tools | tojson }}{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    ),
    # Its switch writes instructions in words, and is off by itself.
    "Granite": (
        "<|start_of_role|>system<|end_of_role|>Today's date: {{ strftime_now('%B %d, %Y') }}."
        "{% if thinking %} You can write down your thoughts before you answer.{% endif %}<|end_of_text|>\n"
        + LOOP
        + "<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>\n"
        + END
        + "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"
    ),
    "Falcon": (
        LOOP + "{% if not loop.first %}\n{% endif %}<|{{ m.role }}|>\n{{ m.content }}"
        "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}"
        + END
        + "{% if add_generation_prompt %}\n<|assistant|>\n{% endif %}"
    ),
    "OpenChat": (
        "{{ bos_token }}" + LOOP + "{% if m.role == 'system' %}{{ m.content }}<|end_of_turn|>"
        "{% else %}GPT4 Correct {{ m.role | title }}: {{ m.content }}<|end_of_turn|>{% endif %}"
        + END
        + "{% if add_generation_prompt %}GPT4 Correct Assistant:{% endif %}"
    ),
    "Alpaca": (
        LOOP + "{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role == 'user' %}"
        "### Instruction:\n{{ m.content }}\n\n"
        "{% else %}### Response:\n{{ m.content }}{{ eos_token }}\n\n{% endif %}"
        + END
        + "{% if add_generation_prompt %}### Response:\n{% endif %}"
    ),
    # Thinks by default, and says so in its system message.
    "SmolLM 3": (
        "{% if enable_thinking is not defined %}{% set enable_thinking = true %}{% endif %}"
        "<|im_start|>system\nToday: {{ strftime_now('%d %B %Y') }}\n"
        "Reasoning Mode: {{ '/think' if enable_thinking else '/no_think' }}\n"
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}<|im_end|>\n"
        + LOOP
        + "{% if m.role == 'assistant' %}<|im_start|>assistant\n"
        "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"
        "{% elif m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|im_start|>assistant\n"
        "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
    ),
    # Thoughts are in a channel of their own, and dropped behind the next question.
    "gpt-oss": (
        "<|start|>system<|message|>Today: {{ strftime_now('%Y-%m-%d') }}<|end|>"
        + LAST_USER
        + LOOP
        + "{% if m.role == 'assistant' %}"
        "{% if m.thinking and loop.index0 > at.user %}"
        "<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
        "<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
        "{{ '<|return|>' if loop.last else '<|end|>' }}"
        "{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    ),
    "MiniMax": (
        LAST_USER + LOOP + "{% if m.role == 'assistant' %}" + SPLIT + "<|ai|>\n"
        "{% if thoughts and loop.index0 > at.user %}<think>\n{{ thoughts }}\n</think>\n\n{% endif %}"
        "{{ text }}<|e|>\n"
        "{% else %}<|{{ m.role }}|>\n{{ m.content }}<|e|>\n{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|ai|>\n<think>\n{% endif %}"
    ),
    "Seed": (
        "{% if thinking_budget is defined and thinking_budget == 0 %}"
        "{{ bos_token }}system\nAnswer without thoughts.{{ eos_token }}{% endif %}"
        + LOOP
        + "{{ bos_token }}{{ m.role }}\n"
        "{% if m.reasoning_content %}<seed:think>{{ m.reasoning_content | trim }}</seed:think>{% endif %}"
        "{{ m.content }}{{ eos_token }}"
        + END
        + "{% if add_generation_prompt %}{{ bos_token }}assistant\n{% endif %}"
    ),
    "QwQ": (
        LOOP + "{% if m.role == 'assistant' %}{% set text = m.content.split('</think>')[-1].lstrip() %}"
        "<|im_start|>assistant\n{{ text }}<|im_end|>\n"
        "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
        + END
        + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    ),
    # The last reply ends otherwise than earlier ones.
    "OLMo 3": (
        LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% if m.role == 'assistant' and loop.last and not add_generation_prompt %}{{ eos_token }}"
        "{% else %}<|im_end|>\n{% endif %}" + END + CHATML_PROMPT
    ),
    # Parts in place of texts, as models with pictures have them.
    "parts": (
        LOOP
        + "<|im_start|>{{ m.role }}\n{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}"
        "{% endfor %}<|im_end|>\n" + END + CHATML_PROMPT
    ),
    "EXAONE": (
        LOOP + "{% if loop.first and m.role != 'system' %}[|system|][|endofturn|]\n{% endif %}"
        "[|{{ m.role }}|]{{ m.content }}{% if m.role != 'user' %}[|endofturn|]{% endif %}\n"
        + END
        + "{% if add_generation_prompt %}[|assistant|]{% endif %}"
    ),
    "Kimi": (
        "{% if tools %}<|im_system|>tools<|im_middle|>{{ tools | tojson }}<|im_end|>{% endif %}"
        + LOOP
        + "<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<|call|>{{ c.function | tojson }}{% endfor %}<|im_end|>"
        + END
        + "{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"
    ),
}
