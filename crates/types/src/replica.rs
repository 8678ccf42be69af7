//! What a node says of one replica: the words that datanodes, their messages and the leader share.

use std::cmp::Ordering;
use std::fmt;

/// How far a replica has come. The order is that of trust: what a node put is whole; what a node was writing has all it
/// acknowledged; what a node found after its own crash may lack the end; the target of a copy is no replica yet.
///
/// Messages carry the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum ReplicaState {
    /// Whole. It changes only if it is reopened under a new generation.
    #[default]
    Finalized = 0,
    /// Being written, by a chain or by one that broke off; readable up to its visible length.
    Open = 1,
    /// Found unfinished when the volume was opened. Only recovery or its writer's return revives it; nobody reads it.
    WaitingForRecovery = 2,
    /// The target of a copy between nodes; gone if the copy does not end well. Its node's own affair: not reported.
    Copying = 3,
}

impl ReplicaState {
    const ALL: [Self; 4] = [Self::Finalized, Self::Open, Self::WaitingForRecovery, Self::Copying];
}

impl Ord for ReplicaState {
    fn cmp(&self, other: &Self) -> Ordering {
        // The number rises as trust falls.
        i32::from(*other).cmp(&i32::from(*self))
    }
}

impl PartialOrd for ReplicaState {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "being written",
            Self::Finalized => "finalized",
            Self::WaitingForRecovery => "waiting for recovery",
            Self::Copying => "being copied",
        })
    }
}

/// Whether a node can serve a replica that it is asked for. Messages carry the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Fitness {
    /// It has it, of this generation or a later one, and as long.
    #[default]
    Fit = 0,
    /// It has none, or one of an earlier generation.
    Absent = 1,
    /// It has one of this generation that is damaged, too short, or was never finished.
    Unfit = 2,
    /// It is being written: no copy to rely on, and not to be touched. Ask again.
    Busy = 3,
    /// As [`Self::Absent`], but for now it reads well on a disk that is lost for everything else: a source of copies,
    /// and no copy.
    Readable = 4,
}

impl Fitness {
    const ALL: [Self; 5] = [Self::Fit, Self::Absent, Self::Unfit, Self::Busy, Self::Readable];
}

/// A number in a message that stands for nothing this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown number {0}")]
pub struct UnknownNumber(pub i32);

macro_rules! numbered {
    ($($kind:ty)*) => {$(
        impl From<$kind> for i32 {
            fn from(value: $kind) -> Self {
                value as Self
            }
        }

        impl TryFrom<i32> for $kind {
            type Error = UnknownNumber;

            fn try_from(number: i32) -> Result<Self, UnknownNumber> {
                let is_meant = |value: &Self| i32::from(*value) == number;
                Self::ALL.into_iter().find(is_meant).ok_or(UnknownNumber(number))
            }
        }
    )*};
}

numbered!(ReplicaState Fitness);

#[cfg(test)]
mod tests {
    use super::*;

    /// They are in messages: none ever changes.
    #[test]
    fn numbers_stand() {
        assert_eq!(ReplicaState::ALL.map(i32::from), [0, 1, 2, 3]);
        assert_eq!(Fitness::ALL.map(i32::from), [0, 1, 2, 3, 4]);
        assert!(ReplicaState::ALL.into_iter().all(|state| ReplicaState::try_from(i32::from(state)) == Ok(state)));
        assert!(Fitness::ALL.into_iter().all(|fitness| Fitness::try_from(i32::from(fitness)) == Ok(fitness)));
        assert_eq!(ReplicaState::try_from(4), Err(UnknownNumber(4)));
        assert_eq!(Fitness::try_from(-1), Err(UnknownNumber(-1)));
    }

    #[test]
    fn what_was_put_is_trusted_most() {
        use ReplicaState::{Copying, Finalized, Open, WaitingForRecovery};
        assert!(Copying < WaitingForRecovery && WaitingForRecovery < Open && Open < Finalized);
    }
}
