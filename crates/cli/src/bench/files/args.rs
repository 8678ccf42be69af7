//! The command line.

use crate::shell::size;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Clients at work at the same time, each with connections of its own [default: 1, for small files 8]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) clients: Option<u32>,
    /// Length of a file, as in 4K or 2G [default: 128M, for small files 4K]
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) size: Option<u64>,
    /// Files in all, shared among the clients [default: 4 for each client, of small files 500]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=FILE_COUNT_MAX))]
    pub(super) files: Option<u64>,
    /// Copies of each block [default: as the store has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) replication: Option<u16>,
    /// Length of a block, as in 128M [default: as the store has it]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) block_size: Option<u64>,
    /// Who forwards to whom when large files are written: each datanode to the next, the nearest one to all, or to each
    /// rack once
    #[arg(long, value_enum, default_value_t = Shape::Chain)]
    pub(super) routing: Shape,
    /// With --routing star: the IP address of the datanode that all is sent to, as where every write passes one leader
    #[arg(long, value_name = "ADDRESS")]
    pub(super) leader: Option<std::net::IpAddr>,
    /// The longest file that goes in one request [default: as all commands do]; 0: every file is streamed
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) small_max: Option<u64>,
    /// Ask for every block to be on disk when it is acknowledged, whatever the store does by itself
    #[arg(long)]
    pub(super) sync: bool,
    /// The directory of the store in which one for this run is made
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(super) dir: String,
    /// Leave the files there
    #[arg(long)]
    pub(super) keep: bool,
    /// What the bytes are made from; the same number makes the same bytes [default: drawn]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// No progress bar
    #[arg(short, long)]
    pub(super) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    Chain,
    Star,
    Tree,
}

const EXAMPLES: &str = "\
Examples:
  levada bench write --clients 3 --files 6 --size 256M
  levada bench small --clients 64 --files 20000 --json

Only the writing is timed; every byte is then read back and compared. GB is 10^9 bytes.
Exit code 1: something was not written, or not as it was sent.";

/// So that all latencies fit in memory with ease.
const FILE_COUNT_MAX: u64 = 10_000_000;
