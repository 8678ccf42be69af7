//! `levada admin meta backup`, `restore` and `found`.

use super::table;
use crate::config::{self, MetaFile};
use crate::shell::{Failure, Session, Stop, shown, size, time};
use client::admin::backup::FoundBlock;
use io::{Clock, SystemClock};
use metad::{BackupError, BackupHeader, BackupWriter, VerifiedBackup};
use serde::Serialize;
use std::path::{Path, PathBuf};
use types::{BlockId, Millis};

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    file: PathBuf,
    pool: String,
    /// The moment that it is of.
    made_ms: u64,
    entry: u64,
    rows: u64,
    len: u64,
}

impl Line {
    fn of(file: &Path, verified: VerifiedBackup) -> Self {
        let VerifiedBackup { header: BackupHeader { pool, made_ms, entry, .. }, row_count, len } = verified;
        Self { file: file.to_owned(), pool, made_ms, entry, rows: row_count, len }
    }

    fn tell(&self, session: &Session, done: &str) -> Result<(), Stop> {
        if session.output.is_json() {
            return session.output.json(self);
        }
        let (file, time, len) = (shown(&self.file), time::second(Millis(self.made_ms)), size::human(self.len));
        session.output.line(&format!("{file}: {done} of {} as of {time}, {} rows, {len}", self.pool, self.rows))
    }
}

fn failed(file: &Path, error: &BackupError) -> Stop {
    Failure::new(shown(file), error).into()
}

pub(super) async fn take(file: &Path, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    let begun = admin.begin_backup().await.map_err(|error| target.failure(&error))?;
    let header = BackupHeader {
        pool: begun.pool,
        made_ms: begun.made_ms,
        entry: begun.entry,
        level: begun.level.try_into().unwrap_or(u8::MAX),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let mut writer = BackupWriter::create(file, &header).map_err(|error| failed(file, &error))?;
    let mut number = 0;
    while let Some(piece) = admin.backup_piece(begun.id, number).await.map_err(|error| target.failure(&error))? {
        writer.piece(&piece).map_err(|error| failed(file, &error))?;
        number += 1;
    }
    let verified = io::task::blocking(move || writer.finish()).await.map_err(|error| failed(file, &error))?;
    Line::of(file, verified).tell(session, "backup")
}

pub(super) async fn restore(file: &Path, config: &Path, session: &Session) -> Result<(), Stop> {
    let settings: MetaFile = config::read(config).map_err(|error| Failure::new("the configuration", error))?;
    let (path, now) = (file.to_owned(), SystemClock::new().now());
    let restored = io::task::blocking(move || metad::restore_backup(&settings.meta, &path, now)).await;
    Line::of(file, restored.map_err(|error| failed(file, &error))?).tell(session, "restored the backup")
}

/// A line of `found --json`.
#[derive(Debug, Serialize)]
struct FoundLine {
    block: u64,
    container: u64,
    file: Option<u64>,
    len: u64,
    generation: u64,
    replicas: Vec<String>,
}

impl From<FoundBlock> for FoundLine {
    fn from(found: FoundBlock) -> Self {
        let best = found.replicas.iter().max_by_key(|replica| (replica.finalized, replica.generation, replica.len));
        let (generation, len) = best.map_or((0, 0), |best| (best.generation, best.len));
        Self {
            block: found.block,
            container: BlockId(found.block).born_in().0,
            file: found.file,
            len,
            generation,
            replicas: found.replicas.into_iter().map(|replica| replica.datanode).collect(),
        }
    }
}

pub(super) async fn found(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let (mut after, mut lines) = (0, Vec::new());
    loop {
        let page = target.client.admin().found_blocks(after).await.map_err(|error| target.failure(&error))?;
        after = page.blocks.last().map_or(after, |last| last.block);
        let found = page.blocks.into_iter().map(FoundLine::from);
        if session.output.is_json() {
            found.into_iter().try_for_each(|line| session.output.json(&line))?;
        } else {
            lines.extend(found.map(|line| {
                let file = line.file.map_or("-".to_owned(), |file| file.to_string());
                [line.block.to_string(), file, size::human(line.len), line.replicas.join(", ")]
            }));
        }
        if page.passed_over > 0 && !page.more {
            let text = format!("{} more replicas were found, for which the list has no room", page.passed_over);
            session.report(&Failure::new(&target, text));
        }
        if !page.more {
            break;
        }
    }
    if session.output.is_json() {
        return Ok(());
    }
    table::print(session, [">BLOCK", ">FILE", ">BYTES", "DATANODES"], &lines)
}
