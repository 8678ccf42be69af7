//! `levada bench fill`: a metadata server's directory with many files.

use crate::shell::{Failure, Stop};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// A year.
const NEVER_MS: u64 = 365 * 24 * 3600 * 1000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// `dir` of the metadata server that will have them; it must be new
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Files, of one block each, as 100k or 10M
    #[arg(long, value_name = "N", value_parser = count)]
    files: u64,
}

fn count(text: &str) -> Result<u64, String> {
    let units = [("k", 1000), ("M", 1_000_000)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit)).unwrap_or(("", 1));
    let number: Option<u64> = text.strip_suffix(unit.0).and_then(|number| number.parse().ok());
    number.and_then(|number| number.checked_mul(unit.1)).ok_or_else(|| "write a number, as 100k or 10M".into())
}

pub(super) async fn run(args: Args) -> Result<(), Stop> {
    if args.dir.exists() {
        return Err(Failure::new(args.dir.display(), "it is there already: name a new directory").into());
    }
    let dir = args.dir.display().to_string();
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // Its datanodes never call, and nobody shall repair what they are said to have.
    let config = metad::Config { lost_after_ms: NEVER_MS, ..metad::Config::new(args.dir, nowhere) };
    let step = (args.files / 100).max(1);
    let mut told = 0;
    let tell = |count: u64| {
        if count >= told + step {
            told = count;
            eprint!("\r{count} of {} files", args.files);
        }
    };
    let filled = metad::fill(config, args.files, tell).await;
    eprintln!();
    filled.map_err(|error| Failure::new(dir, error).into())
}
