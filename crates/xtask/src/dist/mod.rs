//! `dist`: what people install, made of one binary.
//!
//! ```text
//! levada (built, or given) ─┬─ stripped ─┬─ levada-V-linux-x86_64.tar.gz    program, units, man pages, examples
//!                           │            ├─ levada_V_amd64.deb
//!                           │            └─ levada-V-linux-x86_64.oci.tar   for `docker load` and `podman load`
//!                           └─ levada-V-linux-x86_64.debug.gz               debug information of the program
//! SHA256SUMS                   of all of them
//! ```
//!
//! Promise: the same binary at the same commit gives the same bytes. Every entry of an archive has the commit's time,
//! a fixed owner and a fixed mode, and archives are sorted; nothing is read from the machine but the binary and, for an
//! image of a program that is not static, the libraries that it names. Why it is made so: docs/adr/0035.

mod commit;
mod deb;
mod gzip;
mod hex;
mod image;
mod output;
mod packages;
mod program;
mod tree;

use commit::Commit;
use hex::hex;
use output::Result;
use program::{Arch, Program};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str =
    "xtask dist [--target TRIPLE[.GLIBC]] [--binary FILE] [--tool FILE] [--version V] [--out DIR]

  --target   what to build for, by cargo-zigbuild, as x86_64-unknown-linux-gnu.2.28; without it, this machine, by cargo
  --binary   a program that was built already, with its debug information
  --tool     a levada that runs here, to print man pages and completions, if the program does not
  --version  as in Debian: 0.1.0, or what comes before it: 0.1.0~rc1
  --out      target/dist by default";

#[derive(Debug, Default)]
struct Options {
    target: Option<String>,
    binary: Option<PathBuf>,
    tool: Option<PathBuf>,
    version: Option<String>,
    out: Option<PathBuf>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = *words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"))?;
            match *word {
                "--target" => options.target = Some(value.into()),
                "--binary" => options.binary = Some(value.into()),
                "--tool" => options.tool = Some(value.into()),
                "--version" => options.version = Some(value.into()),
                "--out" => options.out = Some(value.into()),
                _ => return Err(format!("unknown option {word}\n\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let commit = Commit::of(crate::root())?;
    let version = options.version.unwrap_or_else(|| commit.version());
    check_version(&version)?;
    let built = match options.binary {
        Some(binary) => binary,
        None => program::build(crate::root(), options.target.as_deref(), &commit.build_version())?,
    };
    let out = options.out.unwrap_or_else(|| crate::root().join("target/dist"));
    std::fs::create_dir_all(&out)?;
    let scratch = out.join(".parts");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch)?;
    let made = make(&built, options.tool.as_deref(), &version, &commit, &scratch);
    std::fs::remove_dir_all(&scratch)?;

    let mut sums = String::new();
    for (name, bytes) in made? {
        std::fs::write(out.join(&name), &bytes)?;
        writeln!(sums, "{}  {name}", hex(&Sha256::digest(&bytes)))?;
        println!("{:>12} {}", bytes.len(), out.join(&name).display());
    }
    std::fs::write(out.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// Every file that is handed out, by name, in the order of names.
fn make(
    built: &Path,
    tool: Option<&Path>,
    version: &str,
    commit: &Commit,
    scratch: &Path,
) -> Result<Vec<(String, Vec<u8>)>> {
    let program = Program::open(built, scratch)?;
    let tool = match tool {
        Some(tool) => tool.to_owned(),
        None if program.arch == Arch::of_this_machine() => program.path.clone(),
        None => return Err("the program does not run here: name one that does by --tool".into()),
    };
    let parts = packages::Parts::collect(crate::root(), &program, &tool, scratch)?;
    let name = format!("levada-{version}-linux-{}", program.arch.of_kernel());
    let mut made = vec![
        (format!("{name}.tar.gz"), gzip::compress(&parts.tarball(&name).to_tar(commit.seconds)?)),
        (format!("{name}.debug.gz"), gzip::compress(&program.debug)),
        (
            format!("levada_{version}_{}.deb", program.arch.of_debian()),
            deb::package(&parts, &program, version, commit.seconds)?,
        ),
    ];
    match image::image(&program, version, commit)? {
        Some(image) => made.push((format!("{name}.oci.tar"), image)),
        None => eprintln!("no image: the C library of another kind of machine is not here"),
    }
    made.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(made)
}

/// It gets into names of files and into scripts.
fn check_version(version: &str) -> Result<()> {
    let may_be = |letter: char| letter.is_ascii_alphanumeric() || ".+~-".contains(letter);
    if version.starts_with(|first: char| first.is_ascii_digit()) && version.chars().all(may_be) {
        return Ok(());
    }
    Err(format!("{version:?} is no version as Debian has them").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_cannot_leave_its_place() {
        for good in ["0.1.0", "0.1.0~git20261128150120.c9840015", "1.2-3+b1"] {
            check_version(good).unwrap();
        }
        for bad in ["", "v1", "1/2", "1 2", "1\n2"] {
            assert!(check_version(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn options_have_values() {
        let options = Options::parse(&["--version", "1.0", "--binary", "b"]).unwrap();
        assert_eq!((options.version.as_deref(), options.binary), (Some("1.0"), Some("b".into())));
        assert!(Options::parse(&["--version"]).is_err() && Options::parse(&["--size", "1"]).is_err());
    }
}
