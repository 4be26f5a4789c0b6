import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from elmokit.errors import DownloadError
from elmokit.formats.remote import looks_like_hub_id, parse_hub_id
from tests.formats.loopback import COMMIT, WITHOUT_PACKAGE, Fault, LoopbackServer, Resource, serve

REPO = "somebody/elmo-tiny"
FILES = {
    "config.json": b"{}",
    "elmo_options.json": b'{"lstm": {}}',
    "elmo_weights.hdf5": bytes(range(256)) * 64,
    "encoder.pkl": b"pickled",
    "configs/cnn_50_100_512_4096_sample.json": b"{}",
    "README.md": b"# tiny",
    "pytorch_model.bin": b"not read by elmokit",
    "optimizer.pkl": b"not read either",
    "deep/encoder.pkl": b"nor this one",
}
READ = sorted(set(FILES) - {"pytorch_model.bin", "optimizer.pkl", "deep/encoder.pkl"})

# huggingface_hub reads its environment when it is imported, so every fetch has a process of its own
FETCH = f"""{WITHOUT_PACKAGE}
import json
from elmokit.errors import DownloadError
from elmokit.formats.remote import fetch_hub
try:
    folder = fetch_hub(sys.argv[1], revision=sys.argv[2] if len(sys.argv) > 2 else None)
except DownloadError as error:
    print(json.dumps({{"error": str(error)}}))
else:
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    print(json.dumps({{"folder": str(folder), "files": files}}))
"""


@dataclass
class Client:
    """Runs `fetch_hub` against the loopback Hub, with a cache of its own."""

    endpoint: str
    home: Path

    def fetch(self, *arguments: str, **variables: str) -> dict[str, str | list[str]]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ELMOKIT_"))}
        own = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(self.home), "HF_HUB_DISABLE_XET": "1"}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-c", FETCH, *arguments],
            env={**kept, **own, **quiet, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "%|" not in done.stderr, "no bars unless stderr is a terminal"
        answer: dict[str, str | list[str]] = json.loads(done.stdout)
        return answer

    def sentence(self, *arguments: str, **variables: str) -> str:
        error = self.fetch(*arguments, **variables)["error"]
        assert isinstance(error, str)
        assert "\n" not in error and error.endswith(".") and arguments[0].partition("@")[0] in error
        return error


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serve() as running:
        running.add_hub_repository(REPO, FILES)
        yield running


@pytest.fixture
def client(server: LoopbackServer, tmp_path: Path) -> Client:
    return Client(server.url, tmp_path / "hf")


@pytest.mark.slow
def test_only_what_the_formats_read_is_fetched(client: Client, server: LoopbackServer) -> None:
    answer = client.fetch(REPO)
    assert answer["files"] == READ
    folder = Path(str(answer["folder"]))
    for name in READ:
        assert (folder / name).read_bytes() == FILES[name]
    assert not any("pytorch_model" in seen.path or "optimizer" in seen.path for seen in server.seen)


@pytest.mark.slow
def test_cached_files_are_used_offline_and_still_checked(client: Client, server: LoopbackServer) -> None:
    online = client.fetch(f"{REPO}@{COMMIT}")
    asked = len(server.seen)
    for variable in ("HF_HUB_OFFLINE", "ELMOKIT_OFFLINE"):
        assert client.fetch(REPO, COMMIT, **{variable: "1"}) == online
    assert len(server.seen) == asked
    weights = (Path(str(online["folder"])) / "elmo_weights.hdf5").resolve()
    weights.chmod(0o644)
    weights.write_bytes(b"altered")
    error = client.fetch(REPO, COMMIT, HF_HUB_OFFLINE="1")["error"]
    assert f"delete {weights} to download it again" in error


@pytest.mark.slow
def test_offline_and_not_cached(client: Client, server: LoopbackServer) -> None:
    for variable in ("HF_HUB_OFFLINE", "ELMOKIT_OFFLINE"):
        sentence = client.sentence(REPO, **{variable: "1"})
        assert f"not complete in the local cache and {variable} forbids downloads: unset" in sentence
    assert server.seen == []


@pytest.mark.slow
def test_unknown_repository(client: Client) -> None:
    assert "was not found: check the id" in client.sentence("somebody/else")


@pytest.mark.slow
def test_gated_repository(client: Client, server: LoopbackServer) -> None:
    path = f"/api/models/{REPO}/revision/main"
    server.resources[path] = Resource(status=403, headers={"X-Error-Code": "GatedRepo"})
    assert "is gated: accept its terms" in client.sentence(REPO)


@pytest.mark.slow
def test_unknown_revision(client: Client, server: LoopbackServer) -> None:
    path = f"/api/models/{REPO}/revision/v9"
    server.resources[path] = Resource(status=404, headers={"X-Error-Code": "RevisionNotFound"})
    assert "has no revision 'v9': give a branch" in client.sentence(f"{REPO}@v9")


@pytest.mark.slow
def test_no_server(tmp_path: Path) -> None:
    with serve() as server:
        gone = server.url
    sentence = Client(gone, tmp_path / "hf").sentence(REPO)
    assert "could not be reached and is not in the local cache: check the connection" in sentence


@pytest.mark.slow
def test_server_error(client: Client, server: LoopbackServer) -> None:
    server.resources[f"/api/models/{REPO}/revision/main"].faults = [Fault(status=500)] * 20
    assert "could not be" in client.sentence(REPO)


@pytest.mark.slow
def test_repository_without_a_model(client: Client, server: LoopbackServer) -> None:
    server.add_hub_repository("somebody/bert", {"pytorch_model.bin": b"x", "README.md": b"# BERT"})
    assert "holds none of the files that elmokit reads (config.json, " in client.sentence("somebody/bert")


def test_hub_ids() -> None:
    assert parse_hub_id("owner/name") == ("owner/name", None)
    assert parse_hub_id("Owner-1/a_b.c@refs/pr/1") == ("Owner-1/a_b.c", "refs/pr/1")
    for name in ("owner/name", "o/n", "owner/name@v1.0", "nlpl/norbert", "o/under_"):
        assert looks_like_hub_id(name), name
    bad = ["name", "a/b/c", "/a/b", "./a/b", "../b", "a/b/", "a/b@", "a/-b", "a/b.", "a--b/c", "a/b..c", "a/b.git"]
    ours = ["many-langs/de", "many-langs/gernan", "aligned/xx", "nlpl/20", "Many-Langs/DE"]
    for name in [*bad, *ours, "", "a b/c", "https://h/a", "C:\\a/b", "a/" + "b" * 100]:
        assert not looks_like_hub_id(name), name
        with pytest.raises(DownloadError, match="is not a Hub id: write owner/name"):
            parse_hub_id(name)
