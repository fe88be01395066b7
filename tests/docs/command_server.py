"""A process that has loaded the packages, and forks for every ``sylvan`` command of the documents.

Most of a small command's time goes into loading modules, PyTorch's above all. A fork runs what a process of its own
would: the installed command's file, or ``python -m sylvan``, in the caller's folder and environment and with the
caller's streams.

Called with the path of a socket, and of the installed command if there is one, this file is the server; with the path
of a socket, ``--``, and words, it is the command.
"""

import array
import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# What commands load by themselves, the first two with all modules below; what isn't installed is left to the command
# to miss.
LOADED = ("sylvan.cli", "sylvan.models", "sylvan.tasks", "torch._dynamo", "torch._meta_registrations")


@contextlib.contextmanager
def command_server(source: str) -> Iterator[str]:
    """A folder with the command ``sylvan`` of the package there, which a server runs that ends with the block."""
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder), source):
        yield folder


@contextlib.contextmanager
def _serving(folder: Path, source: str) -> Iterator[None]:
    path, command = folder / "socket", folder / "sylvan"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{__file__}" "{path}" -- "$@"\n')
    command.chmod(0o755)
    installed = Path(sys.executable).parent / "sylvan"
    words = [str(installed)] if installed.exists() and Path(source).name == "site-packages" else []
    import child_processes  # not at the top: this file is also the server and the command
    import waiting

    server = child_processes.start([sys.executable, __file__, path, *words], lasting=True)
    try:
        waiting.until(lambda: path.exists() or server.poll() is not None, "the server doesn't start")
        assert server.poll() is None, "the server has ended"
        yield
    finally:
        child_processes.end(server)


def ask(path: str, words: list[str]) -> int:
    """Have a command run with this process's streams; its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode("utf-8", "surrogateescape")
        streams = array.array("i", [0, 1, 2])
        connection.sendmsg([len(request).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        connection.sendall(request)
        answer = connection.recv(8)
    return int(answer) if answer else 1


def serve(path: str, installed: str | None) -> None:
    """Fork for every command that is asked for."""
    del sys.path[0]  # the folder of this file
    names = list(LOADED)
    for package in map(importlib.import_module, LOADED[:2]):
        names += [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    beside = f"{path}.new"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(beside)
        server.listen()
        os.rename(beside, path)  # it answers from now on
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(connection, installed)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _answer(connection: socket.socket, installed: str | None) -> None:
    """Run one command in a child, and tell who asked how it ended."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += connection.recv(1 << 16)
    child = os.fork()
    if child == 0:
        connection.close()
        _run(json.loads(request.decode("utf-8", "surrogateescape")), streams, installed)
    for stream in streams:
        os.close(stream)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def _run(request: tuple[list[str], str, dict[str, str]], streams: list[int], installed: str | None) -> None:
    words, folder, environment = request
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = [installed or "sylvan", *words]
    code: object = 1
    try:
        if installed:
            runpy.run_path(installed, run_name="__main__")
        else:
            runpy.run_module("sylvan", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--"]:
        sys.exit(ask(sys.argv[1], sys.argv[3:]))
    serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
