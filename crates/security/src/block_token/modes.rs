//! What a block token allows. The words are HDFS's: its operations each need one of them.

use std::fmt;

/// What an operation needs. The numbers are those of HDFS's `AccessModeProto`, and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Reading, digests, visible lengths (ops 81, 85, 87).
    Read = 1,
    /// Writing, appending, recovering (op 80).
    Write = 2,
    /// Copying to another datanode (ops 84, 86).
    Copy = 3,
    /// Putting a copy in place of a replica (op 83).
    Replace = 4,
    /// Putting a small replica whole (op 200), which no stock client does. Apart from writing, as it is granted before
    /// there is a file: what such a token can fill is short.
    Put = 5,
}

impl Mode {
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Copy, Self::Replace, Self::Put];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Copy => "COPY",
            Self::Replace => "REPLACE",
            Self::Put => "PUT",
        })
    }
}

/// Some of the modes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modes(u8);

impl Modes {
    pub const NONE: Self = Self(0);

    pub fn of(modes: &[Mode]) -> Self {
        modes.iter().fold(Self::NONE, |all, mode| all.with(*mode))
    }

    #[must_use]
    pub fn with(self, mode: Mode) -> Self {
        Self(self.0 | 1 << mode as u8)
    }

    pub fn allows(self, mode: Mode) -> bool {
        self.0 & 1 << mode as u8 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether they let bytes be written: into a replica there is, or into one that is made.
    pub fn changes(self) -> bool {
        self.allows(Mode::Write) || self.allows(Mode::Replace) || self.allows(Mode::Put)
    }

    /// In the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Mode> {
        Mode::ALL.into_iter().filter(move |mode| self.allows(*mode))
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, mode) in self.iter().enumerate() {
            write!(f, "{}{mode}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_a_set() {
        let modes = Modes::of(&[Mode::Replace, Mode::Read, Mode::Read]);
        assert_eq!(modes.to_string(), "READ,REPLACE");
        assert!(modes.allows(Mode::Read) && !modes.allows(Mode::Write));
        assert!(Modes::NONE.is_empty() && Modes::of(&Mode::ALL).iter().eq(Mode::ALL));
    }
}
