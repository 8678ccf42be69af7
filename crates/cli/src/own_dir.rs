//! Where `levada up` keeps a store when nobody says: the first of these places that may be written.
//!
//! ```text
//! $XDG_DATA_HOME/levada, $HOME/.local/share/levada   of who starts it
//! /var/lib/levada/up                                 in a container, whose user may have no home
//! $TMPDIR/levada-UID, /tmp/levada-UID                where nothing else may be written: gone with the container
//! ```

use crate::roles::StartError;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Below that of the services, whose own directories a store of `up` must not touch.
const SYSTEM: &str = "/var/lib/levada/up";

/// A directory that is there and may be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnDir {
    pub(crate) path: PathBuf,
    /// Why it is one of those that are gone with the next start of the machine.
    pub(crate) passing: Option<String>,
}

/// Finds it, and makes it.
pub(crate) fn find() -> Result<OwnDir, StartError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data_home = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let temporary = absolute("TMPDIR").unwrap_or_else(|| "/tmp".into());
    first(data_home.map(|home| home.join("levada")).into_iter().chain([SYSTEM.into()]).collect(), &temporary)
}

fn first(lasting: Vec<PathBuf>, temporary: &Path) -> Result<OwnDir, StartError> {
    let mut refused = Vec::new();
    for path in lasting {
        match may_write(&path, |path| std::fs::create_dir_all(path)) {
            Ok(()) => return Ok(OwnDir { path, passing: None }),
            Err(error) => refused.push(format!("{}: {error}", path.display())),
        }
    }
    let path = temporary.join(format!("levada-{}", geteuid().as_raw()));
    match may_write(&path, private) {
        Ok(()) => Ok(OwnDir { path, passing: Some(refused.join("; ")) }),
        Err(error) => {
            refused.push(format!("{}: {error}", path.display()));
            Err(StartError(format!("no directory for the store: {}; name one with --dir", refused.join("; "))))
        }
    }
}

fn may_write(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    make(path)?;
    Ok(access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Everybody can make a directory of that name there: one of somebody else's is refused.
fn private(path: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = std::fs::symlink_metadata(path)?;
    if !there.is_dir() || there.uid() != geteuid().as_raw() {
        return Err(std::io::Error::other("it is somebody else's"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_passed_over_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let (file, good) = (dir.path().join("file"), dir.path().join("a/b"));
        std::fs::write(&file, "").unwrap();
        let found = first(vec![file.join("levada"), good.clone()], dir.path()).unwrap();
        assert_eq!(found, OwnDir { path: good.clone(), passing: None });
        assert!(good.is_dir());
        let found = first(vec![file.join("levada")], dir.path()).unwrap();
        assert_eq!(found.path, dir.path().join(format!("levada-{}", geteuid().as_raw())));
        assert!(found.passing.unwrap().contains("file/levada"));
        let refused = first(vec![file.join("levada")], &file).unwrap_err().0;
        assert!(refused.contains("--dir") && refused.matches("file").count() == 2, "{refused}");
    }

    #[test]
    fn a_temporary_directory_of_another_shape_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("levada-{}", geteuid().as_raw()));
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(first(Vec::new(), dir.path()).unwrap_err().0.contains("somebody else's"));
    }
}
