"""What a public project has around its code: settings of tools that nobody runs here must at least be whole."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ADDRESS = "https://github.com/elmokit/elmokit"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [
    *WORKFLOWS,
    *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "CITATION.cff",
]


def read(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict), path
    return content


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def called_targets(workflow: Path) -> set[str]:
    """Of every `make` in the steps of a workflow; those that a matrix holds are among them."""
    found: set[str] = set()
    for job in read(workflow)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                if not line.startswith("make "):
                    continue
                for word in re.sub(r"\$\{\{\s*(\S+)\s*\}\}", r"\1", line).split()[1:]:
                    found |= set(matrix[word.removeprefix("matrix.")]) if word.startswith("matrix.") else {word}
    return found


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_files_parse(path: Path) -> None:
    assert read(path)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_make_targets_that_exist(workflow: Path) -> None:
    called = called_targets(workflow)
    assert called, f"{workflow.name} calls no target"
    assert called <= make_targets(), f"the Makefile lacks {', '.join(sorted(called - make_targets()))}"


def test_workflows_cover_what_a_change_must_pass() -> None:
    assert {"lint", "test", "dist", "docs", "test-rest", "test-cpus"} <= set().union(*map(called_targets, WORKFLOWS))


def test_targets_are_phony_and_explained() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    assert set(" ".join(phony).split()) == make_targets()
    explained = set(re.findall(r"^# make ([a-z-]+) ", text, re.MULTILINE))
    assert make_targets() - explained == {"clean"}


def test_tested_versions_of_python_are_the_declared_ones() -> None:
    prefix = "Programming Language :: Python :: "
    declared = {name.removeprefix(prefix) for name in project()["classifiers"] if name.startswith(prefix)}
    matrix = read(ROOT / ".github/workflows/checks.yml")["jobs"]["test"]["strategy"]["matrix"]["python-version"]
    assert set(matrix) == declared - {"3 :: Only"}
    assert project()["requires-python"] == f">={min(matrix, key=lambda name: int(name.split('.')[1]))}"


def test_hooks_are_the_linters_of_make_lint() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe
    (repo,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    for hook in repo["hooks"]:
        command = " ".join(word for word in hook["entry"].split()[:2] if not word.startswith("-"))
        assert command.replace(".venv/bin", "$(BIN)") in recipe[1], hook["id"]


def test_the_project_has_one_address() -> None:
    assert all(url.startswith(ADDRESS) for url in project()["urls"].values())
    assert read(ROOT / "CITATION.cff")["repository-code"] == ADDRESS
    pages = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.*")]
    for page in pages:
        for found in re.findall(r"https://github\.com/[^/\s]*elmokit[^\s)>]*", page.read_text(encoding="utf-8")):
            assert found.startswith(ADDRESS), f"{page.name}: {found}"


def test_constraints_name_everything_once_and_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    names = [re.sub("[-_.]+", "-", re.split("[=;]", pin)[0]).lower() for pin in pins]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", pin) for pin in pins)
    assert len(set(names)) == len(names)
    asked = [
        *project()["dependencies"],
        *(one for extra in project()["optional-dependencies"].values() for one in extra),
    ]
    needed = {re.sub("[-_.]+", "-", re.split(r"[\s<>=!\[;]", one)[0]).lower() for one in asked} - {"elmokit"}
    assert needed <= set(names), f"constraints.txt lacks {', '.join(sorted(needed - set(names)))}"
