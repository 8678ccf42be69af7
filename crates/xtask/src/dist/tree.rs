//! Files and directories that become an archive: sorted by name, with owners and modes that are said, not found.

use super::output::Result;
use std::collections::BTreeMap;

/// By path, without a slash in front. A directory comes before what is in it, as a prefix sorts first.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<String, Entry>);

enum Entry {
    File { mode: u32, bytes: Vec<u8> },
    Directory { mode: u32, owner: Owner },
}

/// Of an archive's entry; all files are root's.
#[derive(Clone, Copy, Default)]
pub(super) struct Owner {
    pub(super) uid: u64,
    pub(super) gid: u64,
}

impl Tree {
    /// Its directories come along.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.parents(path);
        let before = self.0.insert(path.to_owned(), Entry::File { mode, bytes: bytes.into() });
        assert!(before.is_none(), "{path} is in the archive twice");
    }

    pub(super) fn directory(&mut self, path: &str, mode: u32, owner: Owner) {
        self.parents(path);
        self.0.insert(path.to_owned(), Entry::Directory { mode, owner });
    }

    fn parents(&mut self, path: &str) {
        for (slash, _) in path.match_indices('/') {
            let parent = Entry::Directory { mode: 0o755, owner: Owner::default() };
            self.0.entry(path[..slash].to_owned()).or_insert(parent);
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| match entry {
            Entry::File { bytes, .. } => Some((path.as_str(), bytes.as_slice())),
            Entry::Directory { .. } => None,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.files().map(|(_, bytes)| bytes.len()).sum()
    }

    pub(super) fn to_tar(&self, seconds: u64) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::with_capacity(self.len()));
        for (path, entry) in &self.0 {
            // GNU's, for long names; dpkg and everything else reads it.
            let mut header = tar::Header::new_gnu();
            header.set_mtime(seconds);
            let (bytes, owner) = match entry {
                Entry::File { mode, bytes } => {
                    header.set_mode(*mode);
                    (bytes.as_slice(), Owner::default())
                }
                Entry::Directory { mode, owner } => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(*mode);
                    (&[][..], *owner)
                }
            };
            header.set_uid(owner.uid);
            header.set_gid(owner.gid);
            header.set_size(bytes.len() as u64);
            let is_directory = matches!(entry, Entry::Directory { .. });
            archive.append_data(&mut header, format!("{path}{}", if is_directory { "/" } else { "" }), bytes)?;
        }
        Ok(archive.into_inner()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_sorted_and_has_no_time_of_its_own() {
        let archive = |first: &str, second: &str| {
            let mut tree = Tree::default();
            tree.file(first, 0o644, "one");
            tree.file(second, 0o644, "one");
            tree.directory("var/lib/levada", 0o750, Owner { uid: 7, gid: 7 });
            tree.to_tar(1_000_000_000).unwrap()
        };
        let bytes = archive("usr/bin/levada", "usr/bin-x");
        assert!(bytes == archive("usr/bin-x", "usr/bin/levada"));
        let mut names = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 1_000_000_000);
            names.push((entry.path().unwrap().display().to_string(), entry.header().uid().unwrap()));
        }
        let place = |name: &str| names.iter().position(|(other, _)| other == name).unwrap();
        assert!(place("usr/") < place("usr/bin/") && place("usr/bin/") < place("usr/bin/levada"), "{names:?}");
        assert_eq!(names[place("var/lib/levada/")].1, 7);
    }
}
