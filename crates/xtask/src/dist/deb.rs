//! A Debian package (`deb(5)`): an `ar` archive of three members.
//!
//! ```text
//! "!<arch>\n"  debian-binary "2.0\n"  control.tar.gz: control, scripts, sums  data.tar.gz: the files
//! ```

use super::gzip;
use super::hex::hex;
use super::output::Result;
use super::packages::{MAINTAINER, Parts};
use super::program::{Glibc, Program};
use super::tree::Tree;
use md5::{Digest, Md5};
use std::fmt::Write;

const CONTROL: &str = include_str!("../../../../packaging/debian/control.in");
/// Scripts that dpkg runs, by their names there.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../../../packaging/debian/postinst")),
    ("prerm", include_str!("../../../../packaging/debian/prerm")),
    ("postrm", include_str!("../../../../packaging/debian/postrm")),
];
const TEMPLATES: &str = include_str!("../../../../packaging/debian/templates");

pub(super) fn package(parts: &Parts, program: &Program, version: &str, seconds: u64) -> Result<Vec<u8>> {
    let data = parts.debian(version, seconds)?;
    let control = control(&data, program, version)?;
    let mut archive = b"!<arch>\n".to_vec();
    member(&mut archive, "debian-binary", seconds, b"2.0\n");
    member(&mut archive, "control.tar.gz", seconds, &gzip::compress(&control.to_tar(seconds)?));
    member(&mut archive, "data.tar.gz", seconds, &gzip::compress(&data.to_tar(seconds)?));
    Ok(archive)
}

fn control(data: &Tree, program: &Program, version: &str) -> Result<Tree> {
    let values = [
        ("@VERSION@", version.to_owned()),
        ("@ARCHITECTURE@", program.arch.of_debian().to_owned()),
        ("@SIZE_KIB@", data.len().div_ceil(1024).to_string()),
        ("@MAINTAINER@", MAINTAINER.to_owned()),
        ("@DEPENDS@", depends(program.glibc.as_ref())),
    ];
    let about = values.iter().fold(CONTROL.to_owned(), |text, (name, value)| text.replace(name, value));
    let (mut sums, mut settings) = (String::new(), String::new());
    for (path, bytes) in data.files() {
        if path.starts_with("etc/") {
            writeln!(settings, "/{path}")?;
        } else {
            writeln!(sums, "{}  {path}", hex(&Md5::digest(bytes)))?;
        }
    }
    let mut tree = Tree::default();
    tree.file("control", 0o644, about);
    tree.file("conffiles", 0o644, settings);
    tree.file("md5sums", 0o644, sums);
    tree.file("templates", 0o644, TEMPLATES);
    for (name, script) in SCRIPTS {
        tree.file(name, 0o755, script);
    }
    Ok(tree)
}

/// `passwd` has the command that adds the servers' user.
fn depends(glibc: Option<&Glibc>) -> String {
    let mut depends = String::new();
    if let Some(Glibc { version, libgcc }) = glibc {
        write!(depends, "libc6 (>= {version}), ").expect("a string grows");
        if *libgcc {
            depends.push_str("libgcc-s1, ");
        }
    }
    depends + "passwd, debconf (>= 0.5) | debconf-2.0"
}

/// ```text
/// name 16 │ time 12 │ owner 6 │ group 6 │ mode 8, octal │ length 10 │ "`\n"     in text, filled with spaces
/// ```
fn member(archive: &mut Vec<u8>, name: &str, seconds: u64, bytes: &[u8]) {
    let header = format!("{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
    assert_eq!(header.len(), 60, "a header of ar");
    archive.extend(header.as_bytes());
    archive.extend(bytes);
    // Members begin at even places.
    if bytes.len() % 2 == 1 {
        archive.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_a_header_and_an_even_length() {
        let mut archive = Vec::new();
        member(&mut archive, "debian-binary", 1_764_341_000, b"2.0");
        let text = "debian-binary   1764341000  0     0     100644  3         `\n2.0\n";
        assert_eq!(String::from_utf8(archive).unwrap(), text);
    }

    #[test]
    fn a_static_program_depends_on_no_library() {
        assert!(!depends(None).contains("libc6"));
        let glibc = Glibc { version: "2.28".into(), libgcc: false };
        assert!(depends(Some(&glibc)).starts_with("libc6 (>= 2.28), passwd"));
    }
}
