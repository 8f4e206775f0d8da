// The forms in which families of models were trained to see a conversation.
#include "run/templates.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name, *source;
} templates[] = {
    {"chatml", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
               "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"llama3", "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}"
               "<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}"
               "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n"
               "{% endif %}"},
    {"gemma", "{{ bos_token }}{% for m in messages %}<start_of_turn>"
              "{{ 'model' if m.role == 'assistant' else 'user' }}\n{{ m.content | trim }}"
              "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n"
              "{% endif %}"},
    {"mistral", "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
                "{% if m.role == 'system' %}{% set ns.system = m.content ~ '\n\n' %}"
                "{% elif m.role == 'assistant' %} {{ m.content | trim }}{{ eos_token }}"
                "{% else %}[INST] {{ ns.system }}{{ m.content }} [/INST]{% set ns.system = '' %}"
                "{% endif %}{% endfor %}"},
    {"zephyr", "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n"
               "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
    {"vicuna", "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}"
               "\n\n{% elif m.role == 'assistant' %}ASSISTANT: {{ m.content }}{{ eos_token }}\n"
               "{% else %}USER: {{ m.content }}\n{% endif %}{% endfor %}"
               "{% if add_generation_prompt %}ASSISTANT:{% endif %}"},
    {"alpaca", "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}"
               "\n\n{% elif m.role == 'assistant' %}### Response:\n{{ m.content }}{{ eos_token }}"
               "\n\n{% else %}### Instruction:\n{{ m.content }}\n\n{% endif %}{% endfor %}"
               "{% if add_generation_prompt %}### Response:\n{% endif %}"},
};

const char *template_find(const char *name) {
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        if (!strcmp(templates[i].name, name)) return templates[i].source;
    }
    return NULL;
}
