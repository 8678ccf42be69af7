//! What clients are told about a file or directory, and of the space that there is.

use std::fmt::Write;

/// Bits of the flags in a status line.
mod flag {
    /// A program, or a directory that may be searched.
    pub(super) const EXECUTABLE: u32 = 1;
    pub(super) const DIRECTORY: u32 = 2;
    /// Neither a file nor a directory.
    pub(super) const OTHER: u32 = 4;
    pub(super) const READABLE: u32 = 16;
}

/// A file or a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub id: u64,
    pub len: u64,
    pub is_dir: bool,
    /// A link.
    pub is_other: bool,
    /// `rwxrwxrwx` and the sticky bit.
    pub mode: u16,
    /// Seconds since 1970.
    pub modified_s: u64,
    pub accessed_s: u64,
    pub owner: String,
    pub group: String,
}

impl Info {
    /// Who asks may read it or not: that is known when he tries. Nobody writes here.
    fn flags(&self) -> u32 {
        let of = |has: bool, flag: u32| if has { flag } else { 0 };
        flag::READABLE
            | of(self.is_dir, flag::DIRECTORY)
            | of(self.is_other, flag::OTHER)
            | of(self.mode & 0o111 != 0, flag::EXECUTABLE)
    }

    /// `id len flags modified changed accessed mode owner group`. Older clients take the first four.
    pub fn line(&self) -> String {
        let Self { id, len, modified_s, accessed_s, mode, owner, group, .. } = self;
        // XRootD takes 0 for "not on disk".
        let (id, flags) = ((*id).max(1), self.flags());
        // When it was changed is not kept beside when it was written to.
        let mut line = format!("{id} {len} {flags} {modified_s} {modified_s} {accessed_s} {mode:04o} ");
        word(owner, &mut line);
        line.push(' ');
        word(group, &mut line);
        line
    }

    /// Of a path in a question about the types of many.
    pub fn type_byte(&self) -> u8 {
        // All flags are below 256.
        self.flags() as u8
    }
}

/// What [`Info::type_byte`] is of what is not there.
pub const TYPE_OF_NOTHING: u8 = flag::OTHER as u8;

/// A name as one word of a line.
fn word(name: &str, line: &mut String) {
    line.extend(name.chars().map(|letter| if letter.is_whitespace() || letter.is_control() { '_' } else { letter }));
    if name.is_empty() {
        line.push('_');
    }
}

/// Bytes of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub capacity: u64,
    pub free: u64,
    pub used: u64,
}

impl Space {
    /// What a status for a file system is: servers that write, of which there is none here, their free megabytes and
    /// how full they are in per cent; the same of staging.
    pub fn line(&self) -> String {
        let full = self.used.saturating_mul(100).checked_div(self.capacity).unwrap_or(0).min(100);
        format!("0 {} {full} 0 0 0", self.free >> 20)
    }

    /// The answer to a query for space, in the words of XRootD's `oss`.
    pub fn words(&self) -> String {
        let Self { capacity, free, used } = self;
        let mut words = String::new();
        let _ = write!(
            words,
            "oss.cgroup=public&oss.space={capacity}&oss.free={free}&oss.maxf={free}&oss.used={used}&oss.quota=-1"
        );
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_line_of_words() {
        let file = Info {
            id: 16_387,
            len: 260_822_928,
            mode: 0o640,
            modified_s: 1_700_000_000,
            accessed_s: 1_700_000_001,
            owner: "a b".into(),
            ..Info::default()
        };
        assert_eq!(file.line(), "16387 260822928 16 1700000000 1700000000 1700000001 0640 a_b _");
        let dir = Info { is_dir: true, mode: 0o1777, ..Info::default() };
        assert!(dir.line().starts_with("1 0 19 0 0 0 1777"), "{}", dir.line());
        assert_eq!((dir.type_byte(), Info { is_other: true, ..Info::default() }.type_byte()), (19, 20));
    }

    #[test]
    fn space_is_told_in_both_ways() {
        let space = Space { capacity: 4 << 30, free: 1 << 30, used: 3 << 30 };
        assert_eq!(space.line(), "0 1024 75 0 0 0");
        assert!(space.words().contains("oss.free=1073741824&"));
        assert_eq!(Space::default().line(), "0 0 0 0 0 0");
    }
}
