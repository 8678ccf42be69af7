//! Chores of the repository, run as `cargo run -p xtask -- CHORE`.
//!
//! `generate` compiles .proto text into the Rust that is checked in, so that a build needs neither protoc nor a build
//! script; `generate --check` writes nothing and fails when the checked-in text is stale.

mod generate;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- generate [--check]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["generate"] => generate::write(),
        ["generate", "--check"] => generate::check(),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
