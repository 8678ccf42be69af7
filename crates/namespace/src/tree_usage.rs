//! What a tree takes.

/// What a tree takes. The sums of bytes are of files of up to 2^63 bytes with up to 2^9 replicas, which 64 bits do not
/// hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    pub files: u64,
    pub directories: u64,
    /// As recorded: an open file may have more.
    pub len: u128,
    /// With all replicas.
    pub space: u128,
}
types::record!(TreeUsage { 0: files, 1: directories, 2: len, 3: space });

impl TreeUsage {
    pub(crate) const DIRECTORY: Self = Self { files: 0, directories: 1, len: 0, space: 0 };

    /// What HDFS limits by number.
    pub fn names(&self) -> u64 {
        self.files.saturating_add(self.directories)
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        Self {
            files: self.files.saturating_add(more.files),
            directories: self.directories.saturating_add(more.directories),
            len: self.len.saturating_add(more.len),
            space: self.space.saturating_add(more.space),
        }
    }

    pub(crate) fn has(&self, part: Self) -> bool {
        let is_named = self.files >= part.files && self.directories >= part.directories;
        is_named && self.len >= part.len && self.space >= part.space
    }

    pub(crate) fn less(self, part: Self) -> Self {
        Self {
            files: self.files.saturating_sub(part.files),
            directories: self.directories.saturating_sub(part.directories),
            len: self.len.saturating_sub(part.len),
            space: self.space.saturating_sub(part.space),
        }
    }
}
