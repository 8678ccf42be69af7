"""Sums, the archive and the image: what they hold, and that it is the same each time."""

import hashlib
import json
import re
import shutil

from conftest import NEW, ROOT, make
from machine import run


def test_the_same_program_gives_the_same_bytes(program, made, tmp_path):
    again = make(program, NEW, tmp_path / "again")
    assert (again / "SHA256SUMS").read_text() == (made[NEW] / "SHA256SUMS").read_text()
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=again).stdout
    assert checked.count(": OK") == len(list(again.iterdir())) - 1 == 4


def test_the_archive_runs_anywhere(made, tmp_path):
    (archive,) = made[NEW].glob("*.tar.gz")
    run("tar", "--extract", "--file", archive, "--directory", tmp_path)
    (top,) = tmp_path.iterdir()
    assert run(top / "bin/levada", "--version").stdout.startswith("levada ")
    assert (top / "etc/levada/meta.toml").exists() and (top / "systemd/levada-data.service").exists()
    assert (top / "share/man/man1/levada-put.1").exists()
    # Links between the pages lead somewhere; decisions and recipes are with the source.
    pages = [top / "INSTALL.md", top / "CHANGELOG.md", *(top / "docs").iterdir()]
    assert {page.name for page in pages[2:]} == {page.name for page in (ROOT / "docs").glob("*.md")}
    for page in pages:
        for link in re.findall(r"\]\(((?:docs/)?[a-z-]+\.md)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_image_is_whole_and_runs(made, tmp_path):
    (image,) = made[NEW].glob("*.oci.tar")
    run("tar", "--extract", "--file", image, "--directory", tmp_path)

    def blob(described):
        path = tmp_path / "blobs" / described["digest"].replace(":", "/")
        assert "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() == described["digest"]
        assert path.stat().st_size == described["size"]
        return path

    (listed,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(listed).read_text())
    config = json.loads(blob(manifest["config"]).read_text())
    (layer,) = manifest["layers"]
    (docker,) = json.loads((tmp_path / "manifest.json").read_text())
    assert tmp_path / docker["Config"] == blob(manifest["config"])
    assert [tmp_path / path for path in docker["Layers"]] == [blob(layer)]

    root = tmp_path / "root"
    root.mkdir()
    run("tar", "--extract", "--gzip", "--file", blob(layer), "--directory", root)
    identity = config["config"]["User"]
    inside = ["chroot", f"--userspec={identity}", root]
    assert run(*inside, *config["config"]["Entrypoint"], "--version").stdout.startswith("levada ")
    # A new volume gets the owner that its directory has in the image.
    data = root / config["config"]["WorkingDir"].lstrip("/")
    assert f"{data.stat().st_uid}:{data.stat().st_gid}" == identity
    shutil.rmtree(root)
