//! From .proto text to checked-in Rust: protox parses, prost-build writes; and from documentation to [`settings`].
//!
//! Promise: the output depends on the .proto text and the pinned versions of both crates alone, so that a check in CI
//! is a comparison of bytes.

use crate::root;
use crate::settings;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

/// One flat module made of all .proto files of a folder, which share one package.
struct Target {
    /// Relative to the root of the repository.
    proto_dir: &'static str,
    package: &'static str,
    output: &'static str,
    /// Types that are written by hand: their names in the package, and in Rust.
    by_hand: &'static [(&'static str, &'static str)],
    /// Messages with secrets: how they print is written by hand.
    secret: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target {
        proto_dir: "crates/hdfs/proto",
        package: "hdfs",
        output: "crates/hdfs/src/proto.rs",
        by_hand: &[],
        secret: &[".hdfs.TokenProto", ".hdfs.DataEncryptionKeyProto"],
    },
    Target {
        proto_dir: "crates/wire/proto",
        package: "levada",
        output: "crates/wire/src/proto.rs",
        by_hand: &[(".levada.ReplicaState", "::types::ReplicaState"), (".levada.Fitness", "::types::Fitness")],
        secret: &[
            ".levada.TokenKey",
            ".levada.BlockToken",
            ".levada.LeasedBlock",
            ".levada.PutBlock",
            ".levada.AddLeasedRequest",
            ".levada.SmallWrite",
            ".levada.RangesToken",
        ],
    },
];

const HEADER: &str = "// Made by `cargo run -p xtask -- generate` from the .proto files beside this crate's sources.\n\
     // Change those and run it again.\n\n";

pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    for (output, text) in texts()? {
        std::fs::write(root().join(output), text)?;
        println!("wrote {output}");
    }
    Ok(())
}

/// Each file, from the root, and what it should be.
fn texts() -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    let documentation = std::fs::read_to_string(root().join(settings::SOURCE))?;
    let code = TARGETS.iter().map(|target| Ok((target.output, target.generate()?)));
    let settings = settings::FILES.iter().map(|file| Ok((file.output, file.text(&documentation)?)));
    code.chain(settings).collect()
}

pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    for (output, text) in texts()? {
        if std::fs::read_to_string(root().join(output)).unwrap_or_default() != text {
            return Err(format!("{output} is stale: run `cargo run -p xtask -- generate`").into());
        }
    }
    Ok(())
}

impl Target {
    fn generate(&self) -> Result<String, Box<dyn Error>> {
        let files = self.files()?;
        let mut compiler = protox::Compiler::new([root().join(self.proto_dir)])?;
        let descriptors =
            compiler.include_source_info(true).include_imports(true).open_files(files)?.file_descriptor_set();
        let requests = descriptors
            .file
            .into_iter()
            .map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file))
            .collect();
        let mut config = prost_build::Config::new();
        config.bytes(["."]);
        for (name, rust) in self.by_hand {
            config.extern_path(*name, *rust);
        }
        config.skip_debug(self.secret);
        let module = prost_build::Module::from_protobuf_package_name(self.package);
        let code = config.generate(requests)?.remove(&module).ok_or("the package is empty")?;
        Ok(format!("{HEADER}{code}{}", nested_enums(&code)))
    }

    /// Sorted, so that the order of a directory does not show in the output.
    fn files(&self) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(root().join(self.proto_dir))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "proto") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// prost puts what is nested in a message into a module named after it. HDFS's names are unique without that, so the
/// nested ones are offered flat as well.
fn nested_enums(code: &str) -> String {
    let mut uses = String::new();
    let mut module = None;
    for line in code.lines() {
        if let Some(rest) = line.strip_prefix("pub mod ") {
            module = rest.split_whitespace().next();
        } else if line == "}" {
            module = None;
        }
        let nested = line.strip_prefix("    pub enum ").or_else(|| line.strip_prefix("    pub struct "));
        if let (Some(module), Some(rest)) = (module, nested) {
            let name = rest.split([' ', '{']).next().unwrap_or_default();
            if uses.is_empty() {
                uses.push_str("\n// What is nested in a message, by its own name.\n");
            }
            writeln!(uses, "pub use self::{module}::{name};").expect("a string grows");
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    /// Whoever changes a .proto file, a table of settings, or the version of a generator, checks in what comes of it.
    #[test]
    fn what_is_checked_in_is_fresh() {
        super::check().unwrap();
    }
}
