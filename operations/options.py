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
        help="a server that answers in the place of Google and the Hugging Face Hub, such as that of this "
        "project's tests; the Hub's token is sent to it",
    )


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    """`--kubeconfig`."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="reach the cluster in this way, such as through a proxy, in place of its own address",
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """`--set`, for values over those of the stack file."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a configuration value over the stack file's, such as capacity.type=spot; may be repeated",
    )
