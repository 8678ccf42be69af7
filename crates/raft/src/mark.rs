//! Files whose being there is what this member found out before it went down; their text says why.

use crate::disk::Disk;
use std::io;

/// The text of the mark, if it is there.
pub(crate) fn read(disk: &dyn Disk, name: &str) -> io::Result<Option<String>> {
    let is_marked = disk.names()?.iter().any(|known| known == name);
    is_marked.then(|| disk.read(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())).transpose()
}

/// On disk when this returns.
pub(crate) fn write(disk: &dyn Disk, name: &str, reason: &str) -> io::Result<()> {
    let mark = disk.create(name)?;
    mark.write_at(reason.as_bytes(), 0)?;
    mark.sync_all()?;
    disk.sync_names()
}

pub(crate) fn remove(disk: &dyn Disk, name: &str) -> io::Result<()> {
    disk.remove(name)?;
    disk.sync_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Directory;

    #[test]
    fn a_mark_is_there_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Directory::new(dir.path());
        assert_eq!(read(&disk, "mark").unwrap(), None);
        write(&disk, "mark", "why").unwrap();
        assert_eq!(read(&disk, "mark").unwrap().as_deref(), Some("why"));
        assert_eq!(read(&disk, "other").unwrap(), None);
        remove(&disk, "mark").unwrap();
        assert_eq!(read(&disk, "mark").unwrap(), None);
    }
}
