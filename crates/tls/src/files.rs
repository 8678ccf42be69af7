//! Files of keys and certificates: whole or not there, and keys for their owner alone.

use crate::error::TlsError;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

pub(crate) const CERTIFICATE: &str = "node.crt";
pub(crate) const KEY: &str = "node.key";
pub(crate) const AUTHORITIES: &str = "ca.crt";
/// What [`put_pair`] is about to put in place.
const NEXT_KEY: &str = "next.key";
const NEXT_CERTIFICATE: &str = "next.crt";

/// Some certificates of authorities; one has 600 bytes.
pub(crate) const FILE_LEN_MAX: u64 = 64 << 10;
const OWNER_ALONE: u32 = 0o600;
const DIRECTORY_OF_OWNER: u32 = 0o700;
const OTHERS: u32 = 0o077;

pub(crate) fn make_dir(dir: &Path) -> Result<(), TlsError> {
    let made = DirBuilder::new().recursive(true).mode(DIRECTORY_OF_OWNER).create(dir);
    made.map_err(|source| TlsError::File { path: dir.to_owned(), source })
}

/// Puts a file in place of the one that may be there. Nobody but the owner ever could read it, whatever the umask is.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), TlsError> {
    let partial = path.with_extension("new");
    let put = || {
        // It may be left from a start that was killed, with another mode.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ALONE).open(&partial)?;
        file.write_all(content)?;
        ::io::file::sync_all(&file)?;
        fs::rename(&partial, path)?;
        path.parent().map_or(Ok(()), ::io::file::sync_dir)
    };
    put().map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Puts a key and its certificate in place of those that may be there: both, or neither, whenever this is cut short.
///
/// ```text
/// next.key ─ synced ─▶ next.crt ─ synced: from here on the pair counts ─▶ renamed to node.key ─▶ renamed to node.crt
/// ```
pub(crate) fn put_pair(dir: &Path, key: &str, certificate: &str) -> Result<(), TlsError> {
    // A certificate that is left there would take the new key for its own.
    finish_pair(dir)?;
    write(&dir.join(NEXT_KEY), key.as_bytes())?;
    write(&dir.join(NEXT_CERTIFICATE), certificate.as_bytes())?;
    finish_pair(dir)
}

/// Ends what [`put_pair`] began and was not let end.
pub(crate) fn finish_pair(dir: &Path) -> Result<(), TlsError> {
    if !dir.join(NEXT_CERTIFICATE).exists() {
        return Ok(());
    }
    // The key first, and durably: as long as its certificate waits, this is done again.
    for (from, to) in [(NEXT_KEY, KEY), (NEXT_CERTIFICATE, CERTIFICATE)] {
        let put = match fs::rename(dir.join(from), dir.join(to)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.and_then(|()| ::io::file::sync_dir(dir)),
        };
        put.map_err(|source| TlsError::File { path: dir.join(to), source })?;
    }
    Ok(())
}

/// Removes a file that may be there.
pub(crate) fn remove(path: &Path) -> Result<(), TlsError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TlsError::File { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

pub(crate) fn read(path: &Path) -> Result<String, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    read_open(path, File::open(path).map_err(failed)?)
}

/// As [`read`], and refuses a key that others could read.
pub(crate) fn read_key(path: &Path) -> Result<String, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & OTHERS != 0 {
        return Err(TlsError::Readable { path: path.to_owned() });
    }
    read_open(path, file)
}

fn read_open(path: &Path, file: File) -> Result<String, TlsError> {
    let mut text = String::new();
    let len = file.take(FILE_LEN_MAX + 1).read_to_string(&mut text);
    match len.map_err(|source| TlsError::File { path: path.to_owned(), source })? as u64 {
        ..=FILE_LEN_MAX => Ok(text),
        _ => Err(TlsError::content(path, format_args!("longer than {FILE_LEN_MAX} bytes"))),
    }
}

/// Of several texts, told apart.
pub(crate) fn digest(texts: &[&str]) -> [u8; 32] {
    let put = |hash: Sha256, text: &&str| hash.chain_update((text.len() as u64).to_be_bytes()).chain_update(text);
    texts.iter().fold(Sha256::new(), put).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A crash after each step leaves the pair of before or the new one.
    #[test]
    fn a_key_and_its_certificate_are_put_together() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let pair = || [KEY, CERTIFICATE].map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default());
        put_pair(dir, "key 1", "certificate 1").unwrap();
        assert_eq!(pair(), ["key 1", "certificate 1"]);
        write(&dir.join(NEXT_KEY), b"key 2").unwrap();
        finish_pair(dir).unwrap();
        assert_eq!(pair(), ["key 1", "certificate 1"]);
        write(&dir.join(NEXT_CERTIFICATE), b"certificate 2").unwrap();
        finish_pair(dir).unwrap();
        assert_eq!(pair(), ["key 2", "certificate 2"]);
        write(&dir.join(NEXT_KEY), b"key 3").unwrap();
        write(&dir.join(NEXT_CERTIFICATE), b"certificate 3").unwrap();
        fs::rename(dir.join(NEXT_KEY), dir.join(KEY)).unwrap();
        put_pair(dir, "key 4", "certificate 4").unwrap();
        assert_eq!(pair(), ["key 4", "certificate 4"]);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 2, "nothing is left");
    }

    #[test]
    fn what_is_written_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, mode) = (dir.path().join("a/b"), |path: &Path| fs::metadata(path).unwrap().mode() & 0o777);
        make_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        let key = dir.join("node.key");
        fs::write(dir.join("node.new"), "left from another start").unwrap();
        for content in ["one", "two"] {
            write(&key, content.as_bytes()).unwrap();
            assert_eq!((read_key(&key).unwrap().as_str(), mode(&key)), (content, 0o600));
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read_key(&key), Err(TlsError::Readable { .. })));
        fs::write(&key, vec![b'x'; FILE_LEN_MAX as usize + 1]).unwrap();
        assert!(read(&key).is_err());
    }
}
