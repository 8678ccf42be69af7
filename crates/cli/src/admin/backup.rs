//! `levada admin meta backup` and `restore`.

use crate::config::{self, MetaFile};
use crate::shell::{Failure, Session, Stop, shown, size, time};
use host::version::VERSION;
use io::{Clock, SystemClock};
use metad::{BackupError, BackupHeader, BackupWriter, VerifiedBackup};
use serde::Serialize;
use std::path::{Path, PathBuf};
use types::Millis;

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
    /// Of a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    invitations_dropped: Option<usize>,
}

impl Line {
    fn of(file: &Path, verified: VerifiedBackup) -> Self {
        let VerifiedBackup { header: BackupHeader { pool, made_ms, entry, .. }, row_count, len } = verified;
        Self { file: file.to_owned(), pool, made_ms, entry, rows: row_count, len, invitations_dropped: None }
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

/// Of the directory of a server that does not run.
pub(super) async fn take_stopped(file: &Path, config: &Path, session: &Session) -> Result<(), Stop> {
    let settings: MetaFile = config::read(config).map_err(|error| Failure::new("the configuration", error))?;
    let (path, now) = (file.to_owned(), SystemClock::new().now());
    let taken = io::task::blocking(move || metad::back_up_stopped(&settings.meta, &path, now)).await;
    Line::of(file, taken.map_err(|error| failed(file, &error))?).tell(session, "backup")
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
        version: VERSION.into(),
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
    let restored = restored.map_err(|error| failed(file, &error))?;
    let dropped = restored.invitations_dropped;
    let line = Line { invitations_dropped: Some(dropped), ..Line::of(file, restored.backup) };
    line.tell(session, "restored the backup")?;
    if dropped == 0 || session.output.is_json() {
        return Ok(());
    }
    session.output.line(&format!(
        "{dropped} join tokens that nobody had used then do not count any more: whoever is still to join needs another \
         (levada admin datanode invite)"
    ))
}
