"""A stand-in for the Hugging Face Hub: the part of its HTTP API that pushing and pulling use, in this process.

Repositories with commits, branches and tags, private ones and tokens; small files in the commit's own request, ``.npy``
and ``.safetensors`` by git-lfs. It answers with any status that a test asks for, and notes what it was asked.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

TEXTS = ["the white whale", "whale hunting", "the sea and the whale", "poems of the sea", "poetry", "a poem"] * 4
LABELS = [["whaling"], ["whaling"], ["whaling", "sea"], ["poetry", "sea"], ["poetry"], ["poetry"]] * 4
READER, WRITER = "hf_readerreaderreader", "hf_writerwriterwriter"
_LFS = (".npy", ".safetensors", ".bin", ".pkl")


@dataclass
class Repo:
    """Commits by their id, each all of its files; branches and tags."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, files: dict[str, bytes], branch: str = "main", message: str = "") -> str:
        """Add a commit with exactly these files."""
        text = json.dumps([len(self.commits), {name: sha256(data) for name, data in files.items()}])
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.commits[commit], self.refs[branch] = dict(files), commit
        self.messages.append(message)
        return commit

    def resolve(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.refs.get(revision)


@dataclass
class Answer:
    """What is sent back."""

    status: int = 200
    value: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass
class Request:
    """What was asked."""

    method: str
    path: str
    token: str | None
    body: bytes = field(repr=False, default=b"")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _error(status: int, code: str | None = None, message: str = "refused") -> Answer:
    headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
    return Answer(status, {"error": message}, headers)


class Refused(Exception):
    """What is asked is answered with an error."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.answer = _error(*given, **options)


class Hub:
    """The repositories and what is done with them; :func:`hub_server` serves one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all repositories, requests and faults."""
        self.signature = ""
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}  # by git-lfs, by checksum
        self.requests: list[Request] = []
        self.faults: list[tuple[str, str, Answer]] = []  # method, pattern of the path, what is answered instead

    def repo(self, name: str, private: bool = False) -> Repo:
        """A repository of that name, made with a first commit."""
        if name not in self.repos:
            self.repos[name] = Repo(private)
            self.repos[name].commit({".gitattributes": b"*.npy filter=lfs\n"})
        return self.repos[name]

    def publish(self, name: str, folder: str | Path) -> str:
        """What lies in a folder, and a card, as a commit: for tests of pulling."""
        files = {path.relative_to(folder).as_posix(): path.read_bytes()
                 for path in Path(folder).rglob("*") if path.is_file()}  # fmt: skip
        return self.repo(name).commit({**self.files(name), **files, "README.md": b"# A card\n"})

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        """The files of a commit."""
        repo = self.repos[name]
        return repo.commits[repo.resolve(revision) or ""]

    def fail(self, method: str, pattern: str, status: int, code: str | None = None, message: str = "refused") -> None:
        """From now on, answer such requests with an error."""
        self.faults.append((method, pattern, _error(status, code, message)))

    def asked(self, pattern: str) -> list[Request]:
        """The requests whose path has the pattern in it."""
        return [one for one in self.requests if re.search(pattern, f"{one.method} {one.path}")]

    # ---------------------------------------- answers

    def answer(self, asked: Request) -> Answer:
        with self.lock:
            self.requests.append(asked)
            for method, pattern, answer in self.faults:
                if asked.method == method and re.search(pattern, asked.path):
                    return answer
            for method, pattern, call in self._routes():
                match = re.fullmatch(pattern, urlsplit(asked.path).path)
                if match and method == asked.method.replace("HEAD", "GET"):
                    try:
                        return call(asked, *map(unquote, match.groups()))
                    except Refused as refused:
                        return refused.answer
        return _error(404, message=f"no route for {asked.method} {asked.path}")

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        name = r"([^/]+/[^/]+?)"
        return [
            ("POST", "/api/repos/create", self._create),
            ("POST", "/api/validate-yaml", self._validate),
            ("GET", f"/api/models/{name}", self._info),
            ("GET", f"/api/models/{name}/revision/([^/]+)", self._info),
            ("GET", f"/api/models/{name}/tree/([^/]+)", self._tree),
            ("POST", f"/api/models/{name}/branch/([^/]+)", self._branch),
            ("POST", f"/api/models/{name}/preupload/([^/]+)", self._preupload),
            ("POST", f"/api/models/{name}/commit/([^/]+)", self._commit),
            ("POST", f"/{name}\\.git/info/lfs/objects/batch", self._batch),
            ("POST", "/lfs/verify/([0-9a-f]{64})", self._verify),
            ("PUT", "/lfs/([0-9a-f]{64})", self._store),
            ("GET", "/lfs/([0-9a-f]{64})", self._stored),
            ("GET", f"/{name}/resolve/([^/]+)/(.+)", self._resolve),
        ]

    def _readable(self, asked: Request, name: str) -> Repo:
        if asked.token not in (None, READER, WRITER):
            raise Refused(401, message="Invalid credentials in Authorization header")
        repo = self.repos.get(name)
        if repo is None or (repo.private and asked.token is None):
            raise Refused(401 if asked.token is None else 404, "RepoNotFound", "Repository not found")
        return repo

    def _need_writer(self, asked: Request, message: str = "You don't have the rights to write") -> None:
        if asked.token != WRITER:
            raise Refused(401 if asked.token is None else 403, message=message)

    def _writable(self, asked: Request, name: str) -> Repo:
        repo = self._readable(asked, name)
        self._need_writer(asked)
        return repo

    def _create(self, asked: Request) -> Answer:
        self._need_writer(asked, "You can't create a model there")
        wanted = json.loads(asked.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        url = {"url": f"{self.url}/{name}", "name": name, "id": name}
        if name in self.repos:
            return Answer(409, {"error": "You already created this model repo", **url})
        self.repo(name, private=wanted.get("visibility") == "private" or bool(wanted.get("private")))
        return Answer(200, url)

    def _validate(self, asked: Request) -> Answer:
        import yaml

        content = json.loads(asked.body)["content"]
        match = re.match(r"---\n(.*?)\n---\n", content, re.DOTALL)
        try:
            found = yaml.safe_load(match[1]) if match else None
        except yaml.YAMLError as error:
            return Answer(400, {"errors": [{"message": str(error)}], "warnings": []})
        if not isinstance(found, dict):
            return Answer(200, {"errors": [], "warnings": [{"message": "empty or missing yaml metadata"}]})
        for entry in found.get("model-index", []):
            for result in entry["results"]:
                assert entry["name"] and result["task"]["type"] and result["dataset"]["type"]
                assert result["dataset"]["name"] and all("value" in one and one["type"] for one in result["metrics"])
        return Answer(200, {"errors": [], "warnings": []})

    def _at(self, repo: Repo, revision: str) -> str:
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _info(self, asked: Request, name: str, revision: str = "main") -> Answer:
        repo = self._readable(asked, name)
        commit = self._at(repo, revision)
        siblings = [{"rfilename": path} for path in repo.commits[commit]]
        value = {"_id": "0", "id": name, "modelId": name, "sha": commit, "private": repo.private, "siblings": siblings}
        return Answer(200, {**value, "tags": [], "downloads": 0, "likes": 0})

    def _tree(self, asked: Request, name: str, revision: str) -> Answer:
        repo = self._readable(asked, name)
        commit = self._at(repo, revision)
        entries = []
        for path, data in repo.commits[commit].items():
            entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": blob_id(data)}
            if path.endswith(_LFS):
                entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        return Answer(200, entries)

    def _branch(self, asked: Request, name: str, branch: str) -> Answer:
        repo = self._writable(asked, name)
        if branch in repo.refs:
            return _error(409, message="Reference already exists")
        repo.refs[branch] = repo.refs["main"]
        return Answer(201, {})

    def _preupload(self, asked: Request, name: str, revision: str) -> Answer:
        repo = self._writable(asked, name)
        there = repo.commits[self._at(repo, revision)]
        answers = []
        for wanted in json.loads(asked.body)["files"]:
            path, lfs = wanted["path"], wanted["path"].endswith(_LFS)
            answer: dict[str, Any] = {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
            if path in there:
                answer["oid"] = sha256(there[path]) if lfs else blob_id(there[path])
            answers.append(answer)
        return Answer(200, {"files": answers})

    def _batch(self, asked: Request, name: str) -> Answer:
        self._writable(asked, name)
        objects = []
        for wanted in json.loads(asked.body)["objects"]:
            actions = {
                "upload": {"href": f"{self.url}/lfs/{wanted['oid']}{self.signature}", "header": {}},
                "verify": {"href": f"{self.url}/lfs/verify/{wanted['oid']}", "header": {}},
            }
            objects.append({**wanted, **({} if wanted["oid"] in self.stored else {"actions": actions})})
        return Answer(200, {"transfer": "basic", "objects": objects})

    def _store(self, asked: Request, oid: str) -> Answer:
        if sha256(asked.body) != oid:
            return _error(400, message="the checksum is another")
        self.stored[oid] = asked.body
        return Answer(200, {})

    def _verify(self, asked: Request, oid: str) -> Answer:
        size = json.loads(asked.body)["size"]
        return Answer(200, {}) if len(self.stored.get(oid, b"")) == size else _error(404)

    def _stored(self, asked: Request, oid: str) -> Answer:
        assert asked.token is None, "a token goes to the Hub alone, not to where its files lie"
        return Answer(200, body=self.stored[oid])

    def _commit(self, asked: Request, name: str, branch: str) -> Answer:
        repo = self._writable(asked, name)
        commit = self._at(repo, branch)
        files, message = dict(repo.commits[commit]), ""
        for line in asked.body.decode().splitlines():
            key, value = (entry := json.loads(line))["key"], entry["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.stored[value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
            else:
                return _error(400, message=f"no {key}")
        made = repo.commit(files, branch, message)
        return Answer(200, {"success": True, "commitOid": made, "commitUrl": f"{self.url}/{name}/commit/{made}"})

    def _resolve(self, asked: Request, name: str, revision: str, path: str) -> Answer:
        repo = self._readable(asked, name)
        commit = self._at(repo, revision)
        data = repo.commits[commit].get(path)
        if data is None:
            return _error(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit}
        if not path.endswith(_LFS):
            return Answer(200, headers={**headers, "ETag": f'"{blob_id(data)}"'}, body=data)
        oid = sha256(data)
        self.stored[oid] = data
        # As the Hub sends for large files to another host, which must not see the token.
        linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(data))}
        elsewhere = self.url.replace("127.0.0.1", "localhost")
        return Answer(302, headers={**headers, **linked, "Location": f"{elsewhere}/lfs/{oid}"}, body=b"")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def handle_one(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        asked = Request(self.command, self.path, token if scheme == "Bearer" else None, self._body())
        try:
            answer = self.hub.answer(asked)
        except Exception as error:  # a test sees it as the failure of the Hub that it is
            answer = _error(500, message=f"{type(error).__name__}: {error}"[:200].replace("\n", " "))
        body = json.dumps(answer.value).encode() if answer.body is None else answer.body
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = handle_one

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read ``requests``."""


@contextmanager
def hub_server() -> Iterator[Hub]:
    """A Hub that ends with the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    hub = _Handler.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
