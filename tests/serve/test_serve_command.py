"""Faults in what the command is told: one sentence, exit code 2, and nothing is served."""

import shutil
import socket

import child_processes
import pytest
from serve.asgi import running
from servers import pytestmark, serving, until, wait_ready  # noqa: F401

from sylvan import serve


@pytest.fixture
def faulty(refused, monkeypatch):
    """Starts the command in this process, with faults that come before anything is served."""

    def serves(*_, **__):
        pytest.fail("it serves")

    monkeypatch.setattr("uvicorn.Server.run", serves)
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.Multiprocess.run", serves)

    def run(said, *words, port=True):
        sentence = refused(said, "serve", *(["--port", "0"] if port else []), *words)
        assert "Listening" not in sentence
        return sentence

    return run


def test_no_model(faulty):
    faulty("no model")


@pytest.mark.parametrize("name", ["empty", "damaged", "file", "none"])
def test_a_folder_that_is_no_model(faulty, tmp_path, first, name):
    (tmp_path / "empty").mkdir()
    shutil.copytree(first.folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "manifest.json").write_text("{}")
    (tmp_path / "file").write_text("x")
    faulty(name, tmp_path / name)
    faulty(name, tmp_path / name, f"m={tmp_path / 'none'}")


def test_two_models_of_one_name(faulty, tmp_path, first, second):
    faulty("Two models are called 'm'", f"m={first.folder}", f"m={second.folder}")
    faulty("'first'", first.folder, first.folder)
    config = tmp_path / "serve.toml"
    config.write_text(f"[models.m]\nfolder = '{first.folder}'")
    faulty("'m'", "--config", config, f"m={second.folder}")


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a b", "ä", "m" * 65, "-m", "a\n", "%2e", "a?b"])
def test_a_name_that_makes_no_address(faulty, first, name):
    faulty("name must be made of", "--", f"{name}={first.folder}")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_port_is_in_use(faulty, first, workers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        faulty((str(port), "in use"), first.folder, "--port", port, "--workers", workers, port=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "no.such.host.invalid"), "no.such.host.invalid"), (("--host", "192.0.2.1"), "192.0.2.1"),
        (("--host", ""), "'host'"), (("--host", "not an address"), "not an address"), (("--port", "65536"), "65536"),
        (("--port", "-1"), "-1"), (("--port", "http"), "http"), (("--workers", "0"), "0"), (("--workers", "-2"), "-2"),
        (("--workers", "1000000"), "1000000"), (("--drain", "-1"), "-1"), (("--drain", "nan"), "nan"),
        (("--drain", "inf"), "inf"), (("--config", "/nowhere/serve.toml"), "/nowhere/serve.toml"),
        (("--colour", "red"), "--colour"),
    ],
)  # fmt: skip
def test_options_out_of_range(faulty, first, words, said):
    faulty(said, first.folder, *words)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[limits", "is not TOML"),
        ("= 5", "TOML"),
        ("\0", "TOML"),
        ("colour = 'red'", "has no use for 'colour'"),
        ("[limits]\ncolour = 1", "[limits] has no use for 'colour'"),
        ("limits = 5", "limits"),
        ("[limits]\nk = 0", "'k' parameter of Limits must be an int in"),
        ("[limits]\nk = 'many'", "many"),
        ("[limits]\nk = 1.5", "1.5"),
        ("[limits]\nk = true", "True"),
        ("[limits]\nseconds = nan", "nan"),
        ("[limits]\nseconds = inf", "inf"),
        ("[limits]\nbody = -1", "-1"),
        ("port = 'http'", "http"),
        ("port = 70000", "'port' parameter of Settings must be an int in [0, 65535]. Got 70000"),
        ("host = ''", "'host' parameter of Settings must be an address"),
        ("host = 5", "host must be a string"),
        ("log = 'no'", "log"),
        ("watch = 0", "watch"),
        ("models = []", "[models] must be a table"),
        ("[models]\nm = 5", "m"),
        ("[models.m]", "the model's folder is missing"),
        ("[models.m]\nfolder = 5", "folder must be a string. Got 5"),
        ("[models.m]\nfolder = '/nowhere'", "/nowhere"),
        ("[models.m]\nfolder = '/nowhere'\ncolour = 'red'", "colour"),
        ("[models.'a/b']\nfolder = '{folder}'", "a/b"),
        ("[models.m]\nfolder = '{folder}'\nthreads = 0", "threads"),
        ("[models.m]\nfolder = '{folder}'\nmmap = 'yes'", "mmap"),
        ("[models.m]\nfolder = '{folder}'\nexamples = '/nowhere.jsonl'", "/nowhere.jsonl"),
        ("[models.m]\nfolder = '{folder}'\nvocabulary = '/nowhere.tsv'", "/nowhere.tsv"),
        ("[models.m]\nfolder = '{folder}'\nlanguage = 5", "language"),
        ("keys = 5", "keys"),
        ("keys = [5]", "keys"),
        ("[[keys]]", "each key needs a name"),
        ("[[keys]]\nname = 'a'", "must be given as one of key, env and sha256"),
        ("[[keys]]\nname = 'a'\nkey = 'short'", "at least 16 characters"),
        ("[[keys]]\nname = 'a'\nkey = 5", "key"),
        ("[[keys]]\nname = 'a'\nkey = '0123456789abcdef'\nenv = 'A'", "must be given as one of key, env and sha256"),
        ("[[keys]]\nname = 'a'\nenv = 'NO_SUCH_VARIABLE'", "the environment has no NO_SUCH_VARIABLE"),
        ("[[keys]]\nname = 'a'\nsha256 = 'abc'", "64 hexadecimal digits"),
        ("[[keys]]\nname = 'a'\nkey = '0123456789abcdef'\nrate = 0", "must be a number above 0"),
        ("[[keys]]\nname = 'a'\nkey = '0123456789abcdef'\nrate = nan", "rate"),
        ("[[keys]]\nname = 'a'\nkey = '0123456789abcdef'\nadmin = 'yes'", "true or false"),
        ("[[keys]]\nname = 'a'\nkey = '0123456789abcdef'\ncolour = 'red'", "has no use for 'colour'"),
        ("[[keys]]\nname='a'\nkey='0123456789abcdef'\n[[keys]]\nname='b'\nkey='0123456789abcdef'", "key"),
    ],
)
def test_settings_in_a_file(faulty, first, tmp_path, config, said):
    path = tmp_path / "serve.toml"
    path.write_text(config.replace("{folder}", str(first.folder)))
    words = [] if "{folder}" in config or "/nowhere'" in config else [first.folder]
    sentence = faulty(said, "--config", path, *words, port="port" not in config)
    assert "0123456789abcdef" not in sentence, "it shows a key"


def test_the_command_line_overrides_the_file_and_it_listens_once_it_says_so(first, second, tmp_path):
    """Who starts it waits for that line, and then asks."""
    words = (first.folder, "--host", "127.0.0.1", "--workers", 1, "--no-log")
    config = f"host = 'no.such.host.invalid'\nport = 1\nworkers = 9\n[models.m]\nfolder = '{second.folder}'"
    with serving(tmp_path, *words, config=config, ready=False, open=False) as server:
        assert server.ask("GET", "/health/live").status == 200
        wait_ready(server)
        assert [one["name"] for one in server.ask("GET", "/v1/models").json["models"]] == ["m", "first"]
        assert "with 1 worker." in server.errors
        assert server.rank("m", text="whales").status == 200
        assert server.log == []


@pytest.fixture
def broken(first, tmp_path):
    """Its manifest is there, and one of its arrays isn't whole: found while it's opened, after the server listens."""
    folder = tmp_path / "m"
    shutil.copytree(first.folder, folder)
    path = next(folder.glob("*layer1.values*.npy"))
    path.write_bytes(path.read_bytes()[:-50])
    return folder


def test_a_model_that_breaks_before_it_is_opened(first, broken, capfd):
    with running(serve.app({"first": first.folder, "m": broken}, watch=0.05)) as asking:

        def rank(name):
            return asking("POST", f"/v1/models/{name}/rank", {"text": "whales"})

        until(lambda: rank("first").status == 200, "the other one isn't served")
        until(lambda: ".npy" in capfd.readouterr().err, "it isn't said")
        ready = asking("GET", "/health/ready")
        assert ready.status == 200, "one model takes the others down"
        assert ready.json["models"]["m"]["ready"] is False and ".npy" in ready.json["models"]["m"]["message"]
        answer = rank("m")
        assert answer.status == 503 and answer.headers["retry-after"] and answer.detail
        models = {one["name"]: one for one in asking("GET", "/v1/models").json["models"]}
        assert models["m"]["ready"] is False and ".npy" in models["m"]["message"] and models["first"]["ready"] is True
        first.model.save(broken)
        until(lambda: rank("m").status == 200, "it isn't opened once it is mended")


def test_where_every_model_breaks_nothing_is_served(broken):
    """Unlike a folder without a model, this is found once the server listens; it ends then."""
    done = child_processes.python("-m", "sylvan", "serve", broken, "--port", "0")
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert ".npy" in done.stderr and done.stderr.splitlines()[-1].startswith("Error: There is nothing to serve")
