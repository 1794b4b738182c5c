"""Training code that a workload gets without an image build.

Code is small and changes often. Libraries are large and change rarely. With the code in the image, every
changed line would cost a build of gigabytes (docs/adr/0004-code-by-bucket.md).
"""

import io
import tokenize
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.cluster.namespace import Namespace
from components.storage.bucket_folder import BucketFolder

_WITHOUT_CODE: Final = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)


class TrainingCodeArgs(Args):
    """Arguments of `TrainingCode`.

    Args:
        packages: Folders of Python packages, whose modules are shipped.
        recipe: The recipe's text, by its path beside the packages.
    """

    namespace: Namespace
    packages: Sequence[Path]
    recipe: Mapping[str, str]


class TrainingCode(Component[TrainingCodeArgs]):
    """Code for pods: a ConfigMap that never changes. Changed code is another ConfigMap.

    Attributes:
        run_digest: Digest of the recipe and of what the modules do (see `run_digest`).
        volume: The `configMap` volume source, which shows every package as a folder.
        access: The ConfigMap, for which a pod that mounts it must wait.
    """

    def _declare(self, name: str, args: TrainingCodeArgs) -> None:
        files = {**package_files(*args.packages), **args.recipe}
        self.run_digest = run_digest(files)
        config_map_name = f"{name}-code-{fingerprint(files)}"
        self.volume: dict[str, Any] = {
            "name": config_map_name,
            "items": [{"key": _key(path), "path": path} for path in files],
        }
        self.access: pulumi.Resource = kubernetes.core.v1.ConfigMap(
            f"{name}-code",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=config_map_name, namespace=args.namespace.namespace
            ),
            data={_key(path): text for path, text in files.items()},
            immutable=True,
            opts=args.namespace.inside(self),
        )


class BucketCodeArgs(Args):
    """Arguments of `BucketCode`.

    Args:
        prefix: Start of the folder's path, empty or with a slash at its end.
        packages: Folders of Python packages, whose modules are shipped.
        recipe: The recipe's text, by its path beside the packages.
    """

    bucket: pulumi.Input[str]
    prefix: str
    packages: Sequence[Path]
    recipe: Mapping[str, str]


class BucketCode(Component[BucketCodeArgs]):
    """Code for Cloud Run: a folder in a bucket that never changes. Changed code is another folder.

    Attributes:
        run_digest: Digest of the recipe and of what the modules do (see `run_digest`).
        access: The objects, for which a job that mounts the folder must wait.
    """

    def _declare(self, name: str, args: BucketCodeArgs) -> None:
        files = {**package_files(*args.packages), **args.recipe}
        self.run_digest = run_digest(files)
        self.folder = BucketFolder(bucket=args.bucket, folder=f"{args.prefix}code/{fingerprint(files)}")
        self.access: list[pulumi.Resource] = [
            gcp.storage.BucketObject(
                f"{name}-code-{_key(path)}",
                bucket=args.bucket,
                name=f"{self.folder.folder}/{path}",
                content=text,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for path, text in files.items()
        ]


def package_files(*packages: Path) -> dict[str, str]:
    """The texts of all shipped modules, by their paths below the package's parent, sorted."""
    texts = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            texts[path.relative_to(package.parent).as_posix()] = path.read_text()
    return texts


def run_digest(files: Mapping[str, str]) -> str:
    """Digest of everything in the files that a run depends on.

    A comment or a docstring changes nothing that a run does, so an edit of one begins no new run.

    Args:
        files: Texts of modules and recipes, by path.
    """
    return fingerprint(
        {path: _statements(text) if path.endswith(".py") else text for path, text in files.items()}
    )


@cache  # a rehearsal runs the program many times, and a trial ships the same modules again
def _statements(source: str) -> tuple[str, ...]:
    """The lines of a module without comments, docstrings and blank lines.

    Only the positions of the tokens count. The tokens' texts, like a syntax tree, differ between versions of
    Python, and another Python on the user's machine must not begin another run.
    """
    lines = source.splitlines()
    tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    code = [token for token in tokens if token.type not in _WITHOUT_CODE]
    docstrings = [
        token
        for before, token, after in zip([None, *code], code, code[1:], strict=False)
        if token.type == tokenize.STRING
        and (before is None or before.type == tokenize.NEWLINE)
        and after.type == tokenize.NEWLINE
    ]
    # Nothing that counts follows either of them on its last line.
    for token in comments + docstrings:
        (first, column), (last, _) = token.start, token.end
        lines[first - 1] = lines[first - 1][:column]
        lines[first:last] = [""] * (last - first)
    return tuple(line.rstrip() for line in lines if line.strip())


def _key(path: str) -> str:
    """The key of a file in a ConfigMap, where a slash is not allowed."""
    return path.replace("/", ".")
