//! The program that is packed: built, taken apart into what runs and what debuggers read, and asked what it needs.

use super::output::{Result, output};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    Aarch64,
}

/// A word for each: what each of the worlds calls the machine.
impl Arch {
    pub(super) fn of_this_machine() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 }
    }

    pub(super) fn of_kernel(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    pub(super) fn of_debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// As Go, and so container images.
    pub(super) fn of_images(self) -> &'static str {
        self.of_debian()
    }

    /// e_machine, in the two bytes at 18 of an ELF file.
    fn of_elf(header: &[u8]) -> Option<Self> {
        match header {
            [0x7f, b'E', b'L', b'F', ..] => match header.get(18..20)? {
                [62, 0] => Some(Self::X86_64),
                [183, 0] => Some(Self::Aarch64),
                _ => None,
            },
            _ => None,
        }
    }

    /// GNU's binutils for it; those of another machine have its name in front.
    fn tool(self, name: &str) -> String {
        if self == Self::of_this_machine() { name.into() } else { format!("{}-linux-gnu-{name}", self.of_kernel()) }
    }
}

/// Of `host::version`.
const VERSION_VARIABLE: &str = "LEVADA_BUILD_VERSION";

pub(super) struct Program {
    pub(super) arch: Arch,
    /// Where it lies, stripped.
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// What was stripped off, for debuggers, which know it as levada.debug.
    pub(super) debug: Vec<u8>,
    /// None: it is static.
    pub(super) glibc: Option<Glibc>,
}

/// What the program wants of the system's C library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glibc {
    /// The newest version of any symbol, as 2.28.
    pub(super) version: String,
    /// It unwinds by libgcc's shared library.
    pub(super) libgcc: bool,
}

impl Program {
    pub(super) fn open(built: &Path, scratch: &Path) -> Result<Self> {
        let mut header = [0; 20];
        std::io::Read::read_exact(&mut std::fs::File::open(built)?, &mut header)?;
        let arch = Arch::of_elf(&header).ok_or_else(|| format!("{} is no program for Linux", built.display()))?;
        let (path, debug) = (scratch.join("levada"), scratch.join("levada.debug"));
        let objcopy = || Command::new(arch.tool("objcopy"));
        output(objcopy().arg("--only-keep-debug").arg(built).arg(&debug))?;
        output(objcopy().arg("--strip-all").arg(built).arg(&path))?;
        // The link has the name alone, and a sum of the file.
        output(objcopy().current_dir(scratch).args(["--add-gnu-debuglink=levada.debug", "levada"]))?;
        let needs = output(Command::new(arch.tool("objdump")).arg("-p").arg(&path))?;
        Ok(Self {
            arch,
            bytes: std::fs::read(&path)?,
            debug: std::fs::read(&debug)?,
            path,
            glibc: Glibc::of_objdump(&needs)?,
        })
    }
}

impl Glibc {
    fn of_objdump(text: &str) -> Result<Option<Self>> {
        let needed: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim).collect();
        if needed.is_empty() {
            return Ok(None);
        }
        let versions = text.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix("GLIBC_"));
        let parsed = versions.filter_map(|version| {
            let numbers: Option<Vec<u32>> = version.split('.').map(|number| number.parse().ok()).collect();
            Some((numbers?, version))
        });
        let (_, newest) = parsed.max().ok_or("the program names no version of the C library")?;
        let libgcc = needed.iter().any(|name| name.starts_with("libgcc_s."));
        Ok(Some(Self { version: newest.to_owned(), libgcc }))
    }
}

/// Builds it, with no paths of this machine in it; returns where it lies. `version` is what it says of itself.
pub(super) fn build(root: &Path, target: Option<&str>, version: &str) -> Result<PathBuf> {
    let mut command = build_command(root, target, version)?;
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    let targets = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    // cargo-zigbuild takes the version of the C library off.
    let triple = target.map(|target| target.split_once('.').map_or(target, |(triple, _)| triple));
    Ok(targets.join(triple.unwrap_or_default()).join("dist/levada"))
}

fn build_command(root: &Path, target: Option<&str>, version: &str) -> Result<Command> {
    let mut prefixes = vec![(root.to_owned(), "levada".to_owned())];
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    for registry in std::fs::read_dir(cargo.join("registry/src")).into_iter().flatten() {
        prefixes.push((registry?.path(), "crates".to_owned()));
    }
    // rustc takes flags apart at this byte, as paths may have spaces; C compilers get theirs by spaces.
    let mut rust: Vec<String> =
        prefixes.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    // With all of what the linker makes read-only, rustc has each call between crates go through a table of addresses,
    // which the loader fills in: 25,000 of them. Told of a part only, it calls directly; the linker is told of all.
    rust.extend(["-Crelro-level=partial", "-Clink-arg=-Wl,-z,now"].map(str::to_owned));
    let c: Vec<String> =
        prefixes.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f")).env("CFLAGS", c.join(" "));
    command.env(VERSION_VARIABLE, version);
    match target {
        Some(target) => command.args(["zigbuild", "--target", target]),
        None => command.arg("build"),
    };
    command.args(["--locked", "--profile", "dist", "-p", "levada"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_needs_is_read_from_it() {
        let text = "Dynamic Section:\n  NEEDED               libgcc_s.so.1\n  NEEDED               libc.so.6\n\n\
                    Version References:\n  required from libc.so.6:\n    0x0d696914 0x00 06 GLIBC_2.4\n    \
                    0x09691974 0x00 05 GLIBC_2.3.4\n    0x069691b8 0x00 04 GLIBC_2.28\n";
        let glibc = Glibc::of_objdump(text).unwrap();
        assert_eq!(glibc, Some(Glibc { version: "2.28".into(), libgcc: true }));
        assert_eq!(Glibc::of_objdump("Dynamic Section:\n  FLAGS  PIE\n").unwrap(), None);
        assert!(Glibc::of_objdump("  NEEDED  libc.musl-x86_64.so.1\n").is_err());
    }

    /// Servers of a store are compared by it.
    #[test]
    fn a_program_that_is_handed_out_names_its_commit() {
        let root = crate::root();
        let read = std::fs::read_to_string(root.join("crates/host/src/version.rs")).unwrap();
        assert!(read.contains(&format!("option_env!({VERSION_VARIABLE:?})")));
        let command = build_command(root, None, "0.1.0+c9840015").unwrap();
        let value = command.get_envs().find(|(name, _)| *name == VERSION_VARIABLE).and_then(|(_, value)| value);
        assert_eq!(value, Some("0.1.0+c9840015".as_ref()));
    }

    #[test]
    fn a_machine_is_read_from_the_program() {
        let mut header = [0; 20];
        header[..4].copy_from_slice(b"\x7fELF");
        header[18] = 183;
        assert_eq!(Arch::of_elf(&header), Some(Arch::Aarch64));
        assert_eq!(Arch::of_elf(b"#!/bin/sh\nexit 0\nexit 0\n"), None);
    }
}
