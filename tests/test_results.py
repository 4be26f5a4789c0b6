"""Results are listed, name a commit and the data they come from; the data has the sums that the documents give."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.places import DATA, FIXTURES, RESULTS, ROOT, SHARED
from bench.provenance import find_commit, show_word
from bench.result_table import read_sums
from bench.results import read

NAMES = sorted(path.relative_to(RESULTS).with_suffix("").as_posix() for path in RESULTS.rglob("*.json"))
PROJECT = ("src", "bench", "tests", "tools", "docs", "examples", "results", ".ci", ".github")
SUMS = read_sums()


def find_data(path: str) -> Path:
    return (FIXTURES if path.startswith("bilm-tf/") else DATA) / path


def test_every_result_is_listed_and_every_listed_one_is_there() -> None:
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[.*?\]\(\.\./results/(.*?)\.json\)", page, re.MULTILINE)) == NAMES
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page):
        assert (ROOT / "bench" / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_a_result_lies_in_a_folder_and_names_what_made_it(name: str) -> None:
    result = read(name)
    script = re.search(r"python (bench/\w+\.py)", result["command"])
    assert script and (ROOT / script[1]).is_file()
    assert "/" in name and re.fullmatch(r"[0-9a-f]{7,}(-dirty)?", result["commit"])
    if written := re.search(r"--json (\S+)", result["command"]):
        assert written[1] == f"results/{name}.json"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone with one commit."""
    for name in ("src/elmokit/__init__.py", "bench/embed.py", "docs/page.md", "results/text/speed.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("first\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    return tmp_path


def commit_of(checkout: Path) -> str:
    return find_commit(checkout, checkout / "src/elmokit/__init__.py")


def test_a_clean_checkout_gives_its_commit(checkout: Path) -> None:
    (checkout / "docs/page.md").write_text("changed\n")
    (checkout / "results/text/speed.json").write_text("changed\n")
    (checkout / "results/text/new.json").write_text("new\n")
    assert re.fullmatch(r"[0-9a-f]{7,}", commit_of(checkout))


@pytest.mark.parametrize("changed", ["src/elmokit/__init__.py", "src/elmokit/new.py", "bench/embed.py", "tests/new.py"])
def test_a_checkout_with_changes_is_refused(checkout: Path, changed: str) -> None:
    (checkout / changed).parent.mkdir(exist_ok=True)
    (checkout / changed).write_text("changed\n")
    with pytest.raises(SystemExit, match=r"^\S+ changed since commit [0-9a-f]+, so .*: commit first\.$"):
        commit_of(checkout)


def test_no_commit_and_another_elmokit_are_refused(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(SystemExit, match=r"^elmokit is imported from .*: set PYTHONPATH to .*src\.$"):
        find_commit(checkout, Path("elsewhere/elmokit/__init__.py").resolve())
    bare = tmp_path / "bare"
    subprocess.run(["git", "init", "-q", str(bare)], check=True)
    with pytest.raises(SystemExit, match=r"^\S+ has no commit .*: measure in a git clone of the project\.$"):
        commit_of(bare)


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--json", "--json"),
        (str(ROOT / "results/text/speed.json"), "results/text/speed.json"),
        (str(DATA / "lm/books-00.txt.xz"), "$ELMOKIT_DATA/lm/books-00.txt.xz"),
        (str(FIXTURES / "bilm-tf/lm_weights.hdf5"), "$ELMOKIT_FIXTURES/bilm-tf/lm_weights.hdf5"),
        ("second=/elsewhere/runs/mini", "second=mini"),
        ("Penn Treebank", "'Penn Treebank'"),
    ],
)
def test_commands_show_no_path_of_a_machine(word: str, shown: str) -> None:
    assert show_word(word) == shown


def test_data_sets_have_a_publisher_a_license_and_sums() -> None:
    sections = re.split(r"^## ", (ROOT / "docs/data.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:-1]
    assert len(sections) > 15
    for section in sections:
        for field in (
            r"^- Publisher: \w",
            r"^- These files: .",
            r"^- License: \w",
            r"^- Used by: .",
            r"^[0-9a-f]{64}  ",
        ):
            assert re.search(field, section, re.MULTILINE), (section.partition("\n")[0], field)


@pytest.mark.slow
@pytest.mark.parametrize("data_set", dict.fromkeys(name for name, _ in SUMS.values()))
def test_data_has_the_sums_of_the_documents(data_set: str) -> None:
    files = {path: digest for digest, (name, path) in SUMS.items() if name == data_set}
    if not any(find_data(path).is_file() for path in files):
        pytest.skip(f"needs {next(iter(files))}: set ELMOKIT_DATA")
    for path, digest in files.items():
        with find_data(path).open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest, path


def test_one_module_names_the_default_of_the_data() -> None:
    name = SHARED.name
    pattern = re.compile(rf"\.\./{name}\b|/ *f?[\"']{name}\b|\b{name}/(?:data|fixtures)\b")
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [path for folder in PROJECT for path in (ROOT / folder).rglob("*") if path.is_file()]
    found = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if "__pycache__" not in path.parts and pattern.search(path.read_bytes().decode("utf-8", "replace"))
    ]
    assert found == ["bench/places.py"]


@pytest.mark.slow
def test_the_long_run_finds_the_data_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/base_run.py"), "stop", "--home", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("base_run: ")
