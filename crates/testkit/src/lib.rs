//! What tests of several crates share. Nothing here is linked into a product.

mod counted;
pub mod golden;
pub mod metrics_page;
pub mod power;
pub mod repository;
pub mod source;

pub use counted::Counted;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace as cargo sees it, without the graph of other people's crates.
pub fn cargo_metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// All source files below a folder.
pub fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| match () {
            () if path.is_dir() => source_files(&path),
            () if path.extension().is_some_and(|ending| ending == "rs") => vec![path],
            () => Vec::new(),
        })
        .collect()
}
