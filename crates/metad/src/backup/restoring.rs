//! Puts a backup into the directory of a new metadata server, which then begins a log of its own.

use super::file::{BackupError, Verified, each_piece, verify};
use crate::command::LEVEL;
use crate::config::Config;
use crate::machine::{POSITION, may_begin_anew};
use kv::{Import, Store};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use types::Millis;
use types::rows::{Rows, RowsMut};

/// What a restored store is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub backup: Verified,
    /// Join tokens that nobody had used when the backup was made, and that count no more: since then somebody may have,
    /// or they were withdrawn.
    pub invitations_dropped: usize,
}

/// For the server's user alone: keys of tokens are among the rows.
const DIR_MODE: u32 = 0o700;

/// Restores the backup at `path` into the directory of `config`, which must have no store; `now` is the time of day. It
/// may take minutes.
pub fn restore(config: &Config, path: &Path, now: Millis) -> Result<Restored, BackupError> {
    let refused = |text: String| Err(BackupError::Refused(text));
    config.check().map_err(BackupError::Refused)?;
    if config.join || config.members.iter().any(|member| member.id != config.id) {
        return refused(
            "`members` names other metadata servers. As long as most of them are up, nothing is lost: remove this one \
             by `levada admin meta remove`, and add it anew with an empty directory. If most of them are lost, and the \
             directory of one is left, it is newer than a backup: `levada admin meta backup FILE --config FILE` makes \
             one of it. A backup is restored to one server: leave the others out of `members`, start this one, and add \
             others to it by `levada admin meta add`, with empty directories"
                .into(),
        );
    }
    let dir = &config.dir;
    for name in ["store", "log"] {
        if dir.join(name).try_exists().unwrap_or(true) {
            return refused(format!(
                "{} has a {name}, which may be newer than the backup. Start the server with it; if it does not start, \
                 `levada admin meta backup FILE --config FILE` may read it. To restore this backup all the same, move \
                 the directory away, and keep it",
                dir.display()
            ));
        }
    }
    // Known to be whole before anything is made of it.
    let verified = verify(path)?;
    if verified.header.level > LEVEL {
        return Err(BackupError::Newer { path: path.to_owned(), version: verified.header.version });
    }
    // Numbers that others may have are passed over by the clock.
    if now.0 < verified.header.made_ms {
        return refused(format!(
            "the clock of this machine is {} s behind the time at which {} was made: set it, and restore then",
            (verified.header.made_ms - now.0).div_ceil(1000),
            path.display()
        ));
    }
    let fault = |op: &'static str| {
        let path = dir.clone();
        move |source| BackupError::Io { op, path, source }
    };
    std::fs::create_dir_all(dir).map_err(fault("making"))?;
    std::fs::set_permissions(dir, Permissions::from_mode(DIR_MODE)).map_err(fault("making"))?;
    // A restore that was cut short leaves no store.
    let restoring = dir.join("restoring");
    if restoring.exists() {
        std::fs::remove_dir_all(&restoring).map_err(fault("clearing"))?;
    }
    let invitations_dropped = fill(&restoring, path, &verified, now)?;
    std::fs::rename(&restoring, dir.join("store")).map_err(fault("naming the store in"))?;
    std::fs::File::open(dir).and_then(|dir| io::file::sync_all(&dir)).map_err(fault("naming the store in"))?;
    Ok(Restored { backup: verified, invitations_dropped })
}

fn fill(restoring: &Path, path: &Path, verified: &Verified, now: Millis) -> Result<usize, BackupError> {
    let store = Store::open(restoring, kv::Options::default())?;
    let mut import = Import::begin(&restoring.join("incoming"))?;
    let again = each_piece(path, |piece| Ok(import.take(piece)?))?;
    if again != *verified {
        let reason = "it changed while it was read".into();
        return Err(BackupError::Damaged { path: path.to_owned(), reason });
    }
    store.replace(import, &[])?;
    if !may_begin_anew(&store.view())? {
        let reason = "it has no store in it".into();
        return Err(BackupError::Damaged { path: path.to_owned(), reason });
    }
    let mut change = store.change();
    // The log of the new server begins at its beginning.
    change.delete(POSITION, &[]);
    blocks::restore(&mut change, Millis(verified.header.made_ms), now)?;
    namespace::restore(&mut change, now)?;
    let invitations_dropped = security::restore(&mut change, now)?;
    change.commit();
    store.flush()?;
    let is_anew = store.view().get(POSITION, &[])?.is_none();
    assert!(is_anew && store.overlay_len() == 0, "a restored store begins a log, and all of it is on disk");
    Ok(invitations_dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::{Header, Writer};

    /// Numbers that others have are passed over by the clock.
    #[test]
    fn a_clock_that_is_behind_the_backup_restores_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backup");
        let header = Header { pool: "BP-1".into(), made_ms: 5000, entry: 1, level: 1, version: String::new() };
        Writer::create(&path, &header).unwrap().finish().unwrap();
        let config = Config::new(dir.path().join("meta"), "127.0.0.1:0".parse().unwrap());
        let refused = restore(&config, &path, Millis(3999)).unwrap_err().to_string();
        assert!(refused.contains("2 s behind"), "{refused}");
        assert!(!config.dir.exists());
    }
}
