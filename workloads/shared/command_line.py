"""The options that both trainers have."""

import argparse


def add_recipe_options(parser: argparse.ArgumentParser, example: str) -> None:
    """Add the options that say what to train. `example` is a value that --set may replace."""
    parser.add_argument("--recipe", required=True, help="a shipped recipe's name, or the path of a YAML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help=f"a value in place of the recipe's, for example {example}; may be repeated",
    )


def add_common_options(parser: argparse.ArgumentParser, example: str) -> None:
    """Add the options that say what to train, where and for how long. `example` is one for --set."""
    add_recipe_options(parser, example)
    parser.add_argument("--run", help="the run's directory there; the same name resumes")
    parser.add_argument(
        "--max-run-hours",
        type=float,
        metavar="HOURS",
        help="how long the run may train, all its tries together; then it is saved and ends",
    )
    parser.add_argument(
        "--idle-minutes",
        type=float,
        metavar="MINUTES",
        help="how long the run may go without a step; then it is saved, if it can be, and ends",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be trained; train nothing")


def count(text: str) -> int:
    """The value of an option that counts something: a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
