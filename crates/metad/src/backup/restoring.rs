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

/// For the server's user alone: keys of tokens are among the rows.
const DIR_MODE: u32 = 0o700;

/// Restores the backup at `path` into the directory of `config`, which must have no store; `now` is the time of day. It
/// may take minutes.
pub fn restore(config: &Config, path: &Path, now: Millis) -> Result<Verified, BackupError> {
    let refused = |text: String| Err(BackupError::Refused(text));
    config.check().map_err(BackupError::Refused)?;
    if config.join || config.members.iter().any(|member| member.id != config.id) {
        return refused(
            "a backup is restored to one server: leave the others out of `members`, start this one, and add others to \
             it by `levada admin meta add`"
                .into(),
        );
    }
    let dir = &config.dir;
    for name in ["store", "log"] {
        if dir.join(name).try_exists().unwrap_or(true) {
            return refused(format!(
                "{} has a {name} already: a backup is restored into a new directory; move that one away",
                dir.display()
            ));
        }
    }
    // Known to be whole before anything is made of it.
    let verified = verify(path)?;
    if verified.header.level > LEVEL {
        return Err(BackupError::Newer { path: path.to_owned(), version: verified.header.version });
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
    fill(&restoring, path, &verified, now)?;
    std::fs::rename(&restoring, dir.join("store")).map_err(fault("naming the store in"))?;
    std::fs::File::open(dir).and_then(|dir| io::file::sync_all(&dir)).map_err(fault("naming the store in"))?;
    Ok(verified)
}

fn fill(restoring: &Path, path: &Path, verified: &Verified, now: Millis) -> Result<(), BackupError> {
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
    namespace::restore(&mut change)?;
    change.commit();
    store.flush()?;
    let is_anew = store.view().get(POSITION, &[])?.is_none();
    assert!(is_anew && store.overlay_len() == 0, "a restored store begins a log, and all of it is on disk");
    Ok(())
}
