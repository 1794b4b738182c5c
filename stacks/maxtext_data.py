"""The data of tpu-maxtext: made up, or a data set of the Hugging Face Hub."""

from typing import Final

from stacks.keys import Keys

_DATASET: Final = r"[A-Za-z0-9][\w.-]*/[\w.-]+(/[\w.-]+)*"
_TOKENIZER: Final = r"[A-Za-z0-9][\w.-]*/[\w.-]+"
# The one that Llama 3 was trained with; its account must have accepted Meta's licence.
_GATED_TOKENIZER: Final = "meta-llama/Meta-Llama-3-8B"


def read_data(keys: Keys, has_token: bool) -> tuple[str, ...]:
    """Reads the data's keys and notes what cannot be trained on.

    Args:
        keys: The configuration.
        has_token: Whether there is a Hugging Face token.

    Returns:
        Settings of MaxText, `KEY=VALUE`, in place of the recipe's.
    """
    dataset = keys.text(
        "dataset",
        _DATASET,
        "a data set of the Hugging Face Hub such as allenai/c4, or with a folder of it such as allenai/c4/en",
        default="",
        set_as="ORGANIZATION/NAME",
    )
    if not dataset:
        if not keys.refused("dataset"):
            keys.none_of("tokenizer", because="the data is made up without dataset, and nothing reads text")
        return ()
    tokenizer = keys.text(
        "tokenizer",
        _TOKENIZER,
        f"a tokenizer of the Hugging Face Hub such as {_GATED_TOKENIZER}",
        default=_GATED_TOKENIZER,
        set_as="ORGANIZATION/NAME",
    )
    if tokenizer == _GATED_TOKENIZER and not has_token:
        keys.problem(
            "hfToken",
            f"missing: the tokenizer {tokenizer} is gated; `pulumi config set --secret hfToken` asks for a "
            "token and stores it encrypted, and tokenizer names another one",
        )
    organization, name, *folder = dataset.split("/")
    return (
        "dataset_type=hf",
        f"hf_path={organization}/{name}",
        *([f"hf_data_dir={'/'.join(folder)}"] if folder else []),
        f"tokenizer_path={tokenizer}",
        "tokenizer_type=huggingface",
    )
