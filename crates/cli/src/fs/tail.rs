//! `levada tail`

use crate::shell::{Common, Failure, Session, Stop, Target, size};
use client::Reader;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file
    path: String,
    /// How many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, conflicts_with = "bytes")]
    lines: u64,
    /// How many bytes, as in 1K
    #[arg(short = 'c', long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,
    /// Go on with what is written to the file, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Bytes looked at in one step.
const STEP_LEN: u64 = 64 << 10;
/// How often a followed file is looked at.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let found = session.find(&args.path).await?;
    let [found] = &found[..] else {
        return Err(Failure::new(&args.path, "the pattern stands for several files; name one").into());
    };
    if found.status.is_dir() {
        return Err(Failure::new(&found.target, "is a directory").into());
    }
    let target = &found.target;
    let mut reader = open(target).await?;
    let start = match args.bytes {
        Some(bytes) => reader.len().saturating_sub(bytes),
        None => line_start(&reader, args.lines).await.map_err(|error| target.failure(&error))?,
    };
    let mut position = print(session, target, &mut reader, start).await?;
    if !args.follow {
        return Ok(());
    }
    loop {
        session.output.flush()?;
        tokio::time::sleep(FOLLOW_EVERY).await;
        let mut reader = open(target).await?;
        if reader.len() > position {
            position = print(session, target, &mut reader, position).await?;
        }
    }
}

async fn open(target: &Target) -> Result<Reader, Failure> {
    target.client.open(&target.path).await.map_err(|error| target.failure(&error))
}

/// Prints from `start` to the end, and gives the end.
async fn print(session: &Session, target: &Target, reader: &mut Reader, start: u64) -> Result<u64, Stop> {
    reader.seek(start);
    let mut buffer = vec![0; STEP_LEN as usize];
    loop {
        let len = reader.read(&mut buffer).await.map_err(|error| target.failure(&error))?;
        if len == 0 {
            return Ok(reader.len());
        }
        session.output.bytes(&buffer[..len])?;
    }
}

/// Where the last `count` lines begin: looks for line ends from the end of the file on, which may itself end a line.
async fn line_start(reader: &Reader, count: u64) -> client::Result<u64> {
    let mut left = count;
    let mut end = reader.len();
    if count == 0 {
        return Ok(end);
    }
    let mut buffer = vec![0; STEP_LEN as usize];
    while end > 0 {
        let start = end.saturating_sub(STEP_LEN);
        let piece = &mut buffer[..(end - start) as usize];
        reader.read_at(start, piece).await?;
        for (place, byte) in piece.iter().enumerate().rev() {
            let at = start + place as u64;
            if *byte == b'\n' && at + 1 < reader.len() {
                left -= 1;
                if left == 0 {
                    return Ok(at + 1);
                }
            }
        }
        end = start;
    }
    Ok(0)
}
