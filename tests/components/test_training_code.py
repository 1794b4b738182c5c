"""Which files of a package are shipped."""

from pathlib import Path

from components.training_code import package_files


def test_modules_and_recipes_are_shipped_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "recipes").mkdir(parents=True)
    for name in ("__init__.py", "train.py", "recipes/one.yaml", "requirements.txt", "Dockerfile"):
        (package / name).write_text(name)
    assert package_files(package) == {
        "package/__init__.py": "__init__.py",
        "package/recipes/one.yaml": "recipes/one.yaml",
        "package/train.py": "train.py",
    }
