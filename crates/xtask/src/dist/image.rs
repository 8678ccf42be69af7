//! An image for containers, made without a daemon and without another image below it.
//!
//! ```text
//! levada-….oci.tar
//! ├── oci-layout, index.json       what the Open Container Initiative's layout has: `podman load`, `skopeo`, Docker 25
//! ├── manifest.json                what `docker load` of older versions reads
//! └── blobs/sha256/…               one layer, its configuration, the manifest; each named by its sum
//! ```
//!
//! The layer has the program and what it cannot do without: a user, a directory for its data, one for temporary files,
//! and the C library, unless the program is static.

use super::commit::Commit;
use super::gzip;
use super::hex::hex;
use super::output::{Result, output};
use super::program::{Arch, Program};
use super::tree::{Owner, Tree};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

/// Above those that systems give to services of their own, so that no file on the host is its by chance. The group is
/// that of users whom a platform draws at random, who have no other.
const USER: Owner = Owner { uid: 64020, gid: 0 };
const DATA: &str = "var/lib/levada";
const SECOND_NS: u64 = 1_000_000_000;

/// `None`: the program needs a C library, and this machine has none for it.
pub(super) fn image(program: &Program, version: &str, commit: &Commit) -> Result<Option<Vec<u8>>> {
    if program.glibc.is_some() && program.arch != Arch::of_this_machine() {
        return Ok(None);
    }
    let layer = layer(program)?.to_tar(commit.seconds)?;
    let compressed = gzip::compress(&layer);
    let config = json!({
        "created": commit.rfc3339,
        "architecture": program.arch.of_images(),
        "os": "linux",
        "config": {
            "User": format!("{}:{}", USER.uid, USER.gid),
            "Entrypoint": ["/usr/bin/levada"],
            // For other containers, and whoever its ports are published to.
            "Cmd": ["up", "--dir", format!("/{DATA}"), "--host", "0.0.0.0"],
            // Docker's own; there is no shell that could be asked. Times are in nanoseconds.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/levada", "test", "--patience", "0s", "-d", "/"],
                "Interval": 10 * SECOND_NS,
                "StartPeriod": 30 * SECOND_NS,
                "StartInterval": SECOND_NS,
                "Timeout": 5 * SECOND_NS,
                "Retries": 3,
            },
            "WorkingDir": format!("/{DATA}"),
            "Env": ["PATH=/usr/bin", format!("HOME=/{DATA}")],
            "Volumes": { format!("/{DATA}"): {} },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "levada",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [sum(&layer)] },
        "history": [{ "created": commit.rfc3339, "created_by": "xtask dist" }],
    });
    let mut blobs = Tree::default();
    let layer = Blob::add(&mut blobs, "application/vnd.oci.image.layer.v1.tar+gzip", compressed);
    let config = Blob::add(&mut blobs, "application/vnd.oci.image.config.v1+json", serde_json::to_vec(&config)?);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    });
    let manifest = Blob::add(&mut blobs, MANIFEST, serde_json::to_vec(&manifest)?);
    // Tags know no tilde.
    let tag = version.replace(['~', '+'], "-");
    let mut listed = manifest.descriptor();
    listed["platform"] = json!({ "architecture": program.arch.of_images(), "os": "linux" });
    listed["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/library/levada:{tag}"),
        "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed],
    });
    let docker = json!([{
        "Config": config.path(), "RepoTags": [format!("levada:{tag}")], "Layers": [layer.path()],
    }]);
    blobs.file("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string());
    blobs.file("index.json", 0o644, index.to_string());
    blobs.file("manifest.json", 0o644, docker.to_string());
    blobs.to_tar(commit.seconds).map(Some)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The files of the image.
fn layer(program: &Program) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/levada", 0o755, program.bytes.clone());
    tree.directory("tmp", 0o1777, Owner::default());
    tree.directory(DATA, 0o770, USER);
    let Owner { uid, gid } = USER;
    let passwd = format!("root:x:0:0:root:/:/sbin/nologin\nlevada:x:{uid}:{gid}:Levada:/{DATA}:/sbin/nologin\n");
    tree.file("etc/passwd", 0o644, passwd);
    tree.file("etc/group", 0o644, "root:x:0:\n");
    tree.file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n");
    if program.glibc.is_some() {
        for library in libraries(&output(Command::new("ldd").arg(&program.path))?) {
            // Links lead to files with longer names; what asks for a library knows the short one.
            let place = Path::new(library).strip_prefix("/")?.to_string_lossy().into_owned();
            tree.file(&place, 0o755, std::fs::read(library)?);
        }
    }
    Ok(tree)
}

/// Paths of what a program loads, the loader among them, as `ldd` prints them.
fn libraries(text: &str) -> Vec<&str> {
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path);
        path.trim().split(" (").next().filter(|path| path.starts_with('/'))
    });
    paths.collect()
}

/// A piece of the image under its sum.
struct Blob {
    media_type: &'static str,
    sum: String,
    len: usize,
}

impl Blob {
    fn add(blobs: &mut Tree, media_type: &'static str, bytes: Vec<u8>) -> Self {
        let blob = Self { media_type, sum: sum(&bytes), len: bytes.len() };
        blobs.file(&blob.path(), 0o644, bytes);
        blob
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.sum.replace(':', "/"))
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.sum, "size": self.len })
    }
}

fn sum(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_finds() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(text), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }
}
