//! Takes a backup of the directory of a metadata server that does not run, and may not be able to: the last one of a
//! group that lost its majority, for example.
//!
//! ```text
//! store ──▶ a copy beside the backup ◀── entries of the log behind it          the directory stays as it is
//!                    └──piece by piece──▶ file ([`Writer`]), read back
//! ```

use super::file::{BackupError, Header, Verified, Writer};
use crate::config::Config;
use crate::machine::{Machine, POSITION};
use host::version::VERSION;
use kv::{Import, KvError, Store};
use raft::Machine as _;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use types::Millis;
use wire::admin::backup::PIECE_LEN;

/// Keys of tokens are among the rows.
const DIR_MODE: u32 = 0o700;

/// Writes what the directory of `config` has into the file at `path`, which must not be there; `now` is the time of
/// day. It may take minutes, and as much room beside the file as the rows take.
pub fn take_stopped(config: &Config, path: &Path, now: Millis) -> Result<Verified, BackupError> {
    let refused = |text: String| BackupError::Refused(text);
    let dir = &config.dir;
    let is_there = |name: &str| dir.join(name).try_exists().unwrap_or(true);
    if !is_there("store") {
        return Err(refused(format!(
            "{} has no store: the configuration is to be that of the server whose directory is backed up",
            dir.display()
        )));
    }
    if path.try_exists().unwrap_or(true) {
        return Err(refused(format!("{} is there: a backup replaces nothing", path.display())));
    }
    let runs = || {
        refused(format!(
            "a metadata server runs in {}: have it take the backup, without a configuration, or stop it",
            dir.display()
        ))
    };
    let source = Store::open(&dir.join("store"), kv::Options::default()).map_err(|error| match error {
        KvError::InUse { .. } => runs(),
        other => other.into(),
    })?;
    let aside = Aside::create(path)?;
    let copy = Store::open(&aside.0.join("store"), kv::Options::default())?;
    let mut import = Import::begin(&aside.0.join("rows"))?;
    let mut export = source.export()?;
    while let Some(piece) = export.chunk(PIECE_LEN)? {
        import.take(&piece)?;
    }
    copy.replace(import, &[])?;
    let machine = Machine::open(copy.clone(), aside.0.join("incoming"))?;
    if is_there("log") {
        let log = raft::Directory::new(&dir.join("log"));
        raft::replay(&log, &machine).map_err(|source| match source.kind() {
            std::io::ErrorKind::WouldBlock => runs(),
            _ => BackupError::Io { op: "reading the log in", path: dir.clone(), source },
        })?;
    }
    copy.flush()?;
    let founding = machine.founding()?;
    let founding = founding.ok_or_else(|| refused(format!("{} was never part of a store", dir.display())))?;
    let mut export = copy.export()?;
    let position = export.get(POSITION, &[])?.unwrap_or_default();
    let header = Header {
        pool: founding.pool,
        made_ms: now.0,
        entry: raft::entry_index(&position).unwrap_or_default(),
        level: machine.level(),
        version: VERSION.into(),
    };
    let mut writer = Writer::create(path, &header)?;
    while let Some(piece) = export.chunk(PIECE_LEN)? {
        writer.piece(&piece)?;
    }
    writer.finish()
}

/// A directory beside the backup, which goes with this.
struct Aside(PathBuf);

impl Aside {
    fn create(beside: &Path) -> Result<Self, BackupError> {
        let mut path = beside.as_os_str().to_owned();
        path.push(format!(".{}.rows", std::process::id()));
        let path = PathBuf::from(path);
        let made = DirBuilder::new().mode(DIR_MODE).create(&path);
        made.map_err(|source| BackupError::Io { op: "making", path: path.clone(), source })?;
        Ok(Self(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _it_is_of_no_use = std::fs::remove_dir_all(&self.0);
    }
}
