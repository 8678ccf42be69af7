//! Chores of the repository, run as `cargo run -p xtask -- CHORE`.
//!
//! `generate` compiles .proto text into the Rust that is checked in, so that a build needs neither protoc nor a build
//! script, and the documentation of settings into the configuration files of packages; `generate --check` writes
//! nothing and fails when the checked-in text is stale. `dist` makes what people install.

mod dist;
mod generate;
mod settings;

use std::path::Path;
use std::process::ExitCode;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask lies two folders below the root")
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        ["dist", ref options @ ..] => dist::run(options),
        _ => {
            Err(format!("usage: cargo run -p xtask -- generate [--check]\n       cargo run -p {}", dist::USAGE).into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
