"""The image: really built, by buildah and without a registry, and run as a pod would run it.

The base image is a root file system that mmdebstrap makes of Debian's packages; it has the compiler too, so that one is
enough. What runs, runs as user 65532 on a file system that is mounted read-only, with nothing of the host but the
kernel and the network.

`GOODPUT_IMAGE_ARCH=arm64` builds and runs it for another architecture, where the kernel hands foreign programs to an
emulator (Debian's qemu-user-static and arch-test, binfmt_misc). It takes an hour or so.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.programs import free_port

ROOT = Path(__file__).parents[2]
USER: Final = "65532:65532"
PACKAGES: Final = "ca-certificates,gcc,libc6-dev,python3,python3-dev,python3-pip,python3-venv"
START_LIMIT_S: Final = 120.0
ARCH: Final = os.environ.get("GOODPUT_IMAGE_ARCH", "")

pytestmark = [
    pytest.mark.needs("buildah", "mmdebstrap", "unshare"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


class Image:
    """The built image, mounted."""

    def __init__(self, config: dict[str, Any], root: Path) -> None:
        self.config: dict[str, Any] = config["Docker"]["config"]
        self.architecture: str = config["Docker"]["architecture"]
        self.root = root

    def command(self, *arguments: str) -> list[str]:
        """What runs the program in it, in a mount namespace of its own."""
        inside = f"mount --bind {self.root} {self.root} && mount -o remount,ro,bind {self.root} && exec "
        path = "env -i " + " ".join(each for each in self.config["Env"])
        words = [*self.config["Entrypoint"], *arguments]
        return [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'{inside}chroot --userspec={USER} {self.root} {path} "$@"',
            "sh",
            *words,
        ]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)  # some gigabytes
        yield built(folder, stack)


def built(folder: Path, stack: ExitStack) -> Image:
    storage = ["--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot", str(folder / "run")]

    def buildah(*words: str) -> str:
        done = subprocess.run(["buildah", *storage, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout.strip()

    base(folder)
    build = ["bud", "--isolation", "chroot", "--pull-never", "--format", "docker"]  # which keeps the health check
    build += _each("--arch", ARCH)
    buildah(*build, "--tag", "localhost/debian", "--file", str(folder / "Dockerfile"), str(folder))
    authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    build += ["--volume", f"{authorities}:/etc/ssl/certs/ca-certificates.crt:ro"]  # of the way to the package index
    if Path("/etc/pip.conf").exists():
        build += ["--secret", "id=pip.conf,src=/etc/pip.conf"]
    images = [f"--build-arg={name}=localhost/debian" for name in ("BUILD_IMAGE", "BASE_IMAGE")]
    name = "localhost/goodput-exporter"
    buildah(*build, *images, "--tag", name, "--file", "deploy/Dockerfile", ".")
    container = buildah("from", "--pull-never", name)
    root = Path(buildah("mount", container))
    stack.callback(buildah, "umount", container)
    return Image(json.loads(buildah("inspect", "--type", "image", name)), root)


def base(folder: Path) -> None:
    """A root file system, as the packages of this machine's Debian have it."""
    suite = next(
        line.partition("=")[2]
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_CODENAME=")
    )
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", *_each("--arch", ARCH)]
    command += [f"--aptopt={each}" for each in Path("/etc/apt/apt.conf.d").glob("99*")]
    command += [suite, str(folder / "root.tar"), *map(str, sources())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")


def _each(option: str, value: str) -> list[str]:
    return [option, value] if value else []


def sources() -> list[Path]:
    """Where apt has packages from on this machine."""
    found = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("debian*")]
    return [each for each in found if each.exists() and each.suffix in (".list", ".sources")]


def test_it_says_what_it_is_and_how_it_is_to_be_run(image: Image) -> None:
    config = image.config
    assert ARCH in ("", image.architecture)
    assert config["User"] == USER
    assert config["Entrypoint"] == ["goodput-exporter"]
    assert config["Cmd"] == ["serve"]
    assert config["Healthcheck"]["Test"] == ["CMD", "goodput-exporter", "health"]
    assert config["ExposedPorts"].keys() == {"4317/tcp", "4318/tcp", "9464/tcp"}
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert labels["title"] == "goodput-exporter"
    assert labels["licenses"] == "Apache-2.0"
    assert {"version", "revision", "description"} <= labels.keys()


def test_it_has_the_compiled_modules_and_their_bytecode_and_is_small(image: Image) -> None:
    added = image.root / "opt" / "goodput-exporter"
    (package,) = added.glob("lib/python3.*/site-packages/exporter")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(list(package.glob("**/*.so"))) == len(settings["tool"]["setuptools"]["ext-modules"])
    plain = [path for path in package.glob("*.py") if not list(package.glob(f"__pycache__/{path.stem}.*.pyc"))]
    assert plain == []
    assert not list(added.glob("lib/python3.*/site-packages/pip"))
    size = sum(path.lstat().st_size for path in added.rglob("*") if not path.is_dir())
    print(f"{size / 2**20:.0f} MiB over the base, {image.architecture}")
    assert size < 160 * 2**20


def test_it_tells_its_version_and_checks_files_without_writing_any(image: Image) -> None:
    done = image.run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "goodput-exporter, version 0.1.0\n"
    assert image.run("health", "--url", f"http://127.0.0.1:{free_port()}").returncode == 1


def test_it_replays_a_recording_as_it_does_anywhere(image: Image, captures: Path) -> None:
    recording = next((captures / "vllm-envoy").glob("traces*")).read_bytes()
    with given(image, {"traces.pb": recording}) as folder:
        done = image.run("replay", "--json", f"{folder}/traces.pb")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["boundaries"]["end_to_end"]["arrivals"] == 252


def test_it_serves_and_finds_itself_healthy(image: Image) -> None:
    port = free_port()
    config = f'receive: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0"}}\nweb: {{listen: "127.0.0.1:{port}"}}\n'
    with given(image, {"config.yaml": config.encode()}) as folder:
        program = subprocess.Popen(image.command("serve", "--config.file", f"{folder}/config.yaml"))
        try:
            end_s = time.monotonic() + START_LIMIT_S
            while image.run("health", "--url", f"http://127.0.0.1:{port}").returncode:
                assert time.monotonic() < end_s
            program.send_signal(signal.SIGTERM)
            assert program.wait(30) == 0
        finally:
            program.kill()


@contextmanager
def given(image: Image, files: dict[str, bytes]) -> Iterator[str]:
    """A folder of the image with files of the test, as a mounted volume has them."""
    folder = image.root / "mnt"
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o444)
    try:
        yield "/mnt"
    finally:
        for name in files:
            (folder / name).unlink()
