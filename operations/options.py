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


def add_connection(parser: argparse.ArgumentParser) -> None:
    """`--model`, and the options of `add_server`."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        default="",
        help="a model of the server; by default the trained one",
    )
    add_server(parser)


def add_server(parser: argparse.ArgumentParser) -> None:
    """`--stack`, and the options that reach the stack's server of a model."""
    parser.add_argument("--stack", required=True, help="name of the stack, such as l4-kueue")
    parser.add_argument(
        "--url",
        metavar="URL",
        default="",
        help="reach the server at this address, for example at a port that you forward; with http:// no "
        "identity token is sent",
    )
    parser.add_argument("--endpoint", metavar="URL", help="a server that answers in place of Google")
    add_kubeconfig(parser)
