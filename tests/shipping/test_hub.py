"""`acclimate push` to a server on this machine that answers as the hub does."""

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

import acclimate
from acclimate.shipping.hub import push
from acclimate.shipping.ship import ship
from finished import finished_race

TOKEN = "hf_right"
PUSHES = """
import json, os, sys
from acclimate.shipping.hub import push
for arguments in json.load(sys.stdin):
    os.environ["HF_TOKEN"] = arguments.pop("token")
    try:
        print(json.dumps(push(**arguments).address))
    except ValueError as error:
        print(json.dumps(str(error)))
"""


class Hub(BaseHTTPRequestHandler):
    """Repositories of this process: what each branch holds."""

    repositories: ClassVar[dict[str, dict[str, dict[str, bytes]]]] = {}
    private: ClassVar[dict[str, bool]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid username or password."})
        path = self.path.split("?")[0]
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        owner, name, what, branch = path.removeprefix("/api/models/").split("/")
        repository = self.repositories[f"{owner}/{name}"]
        if what == "branch":
            if branch in repository:
                return self.answer(409, {"error": "Reference already exists"})
            repository[branch] = {}
            return self.answer(200, {})
        if what == "preupload":
            wanted = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            return self.answer(200, {"files": [{**one, "shouldIgnore": False, "oid": None} for one in wanted]})
        assert what == "commit"
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                repository[branch][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        commit = {"commitUrl": f"{self.address}/{owner}/{name}/commit/1", "commitOid": "1" * 40}
        return self.answer(200, commit)

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.repositories:
            return self.answer(409, {"error": "You already created this model repo", "url": f"{self.address}/{name}"})
        self.repositories[name] = {"main": {}}
        self.private[name] = asked.get("private", asked.get("visibility") == "private")  # by the client's version
        return self.answer(200, {"url": f"{self.address}/{name}", "name": name})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, status: int, content: dict[str, Any]) -> None:
        encoded = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("pushed")
    return ship(finished_race(place / "run"), place / "out").path


def test_a_shipment_goes_to_a_repository_and_a_branch_and_refusals_are_a_line(shipped):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = {"shipped": str(shipped), "repository": "ada/salts", "token": TOKEN}
    pushes = [
        given,
        {**given, "private": False},  # it exists
        {**given, "repository": "ada/open", "private": False, "revision": "second"},
        {**given, "token": "hf_wrong", "repository": "ada/other"},
    ]
    environment = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PUSHES],
        input=json.dumps(pushes),
        capture_output=True,
        text=True,
        env={**environment, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1"},
        check=False,
    )
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr[-2000:]
    first, again, branch, refused = map(json.loads, done.stdout.splitlines())
    assert first == again == f"http://127.0.0.1:{server.server_port}/ada/salts"
    expected = {str(file.relative_to(shipped)): file.read_bytes() for file in shipped.rglob("*") if file.is_file()}
    assert Hub.repositories["ada/salts"] == {"main": expected}
    assert Hub.repositories["ada/open"] == {"main": {}, "second": expected}
    assert branch.endswith("/ada/open")
    assert Hub.private == {"ada/salts": True, "ada/open": False}
    assert "have no token that may write to that repository" in refused
    assert "\n" not in refused


def test_a_dry_run_lists_the_files_and_asks_nobody(shipped):
    made = push(shipped, "ada/salts", dry_run=True)  # HF_HUB_OFFLINE is set
    assert made.address.endswith("/ada/salts")
    assert dict(made.files) == {
        str(file.relative_to(shipped)): file.stat().st_size for file in shipped.rglob("*") if file.is_file()
    }
    assert made.size == sum(size for _, size in made.files)
    with pytest.raises(ValueError, match="'a b/c' is not the name of a model on the hub"):
        push(shipped, "a b/c", dry_run=True)
    with pytest.raises(ValueError, match="'a b/c' is not the name of a model on the hub"):
        acclimate.ship("no race", "nowhere", push="a b/c")  # before it looks at the race
