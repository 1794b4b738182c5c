"""Arguments that several commands share."""

import argparse
from pathlib import Path


def add_shared(parser: argparse.ArgumentParser) -> None:
    """`--stack`, `--json` and `--endpoint`."""
    parser.add_argument("--stack", required=True, help="name of the stack, such as a4-ray")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="a server that answers in place of Google and the Hugging Face Hub, such as the test server of "
        "this project; it gets the Hub's token",
    )


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    """`--kubeconfig`."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="reach the cluster as this file says, for example through a proxy",
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """`--set`, for values over those of the stack file."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting that overrides the stack file, such as capacity.type=spot; may be repeated",
    )
