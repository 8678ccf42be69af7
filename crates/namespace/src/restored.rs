//! Numbers that a backup of the rows does not know: those that were given out after it was made.
//!
//! Promise: no inode, generation stamp or token number that the lost store may have given out since is given out again.

use crate::delegation_token;
use crate::error::corrupt;
use crate::inode::{read_counters, write_counters};
use std::time::Duration;
use types::rows::{RowsError, RowsMut};
use types::{Generation, InodeId, Millis, Skip};

/// A million files a second, and as many blocks. Numbers end where HDFS's clients read a negative one, in thousands of
/// years.
const SKIP: Skip = Skip { count: 1 << 20, each: Duration::from_secs(1), least: 1 << 32, max: 1 << 62 };

/// Readies rows of a backup for a store that goes on with them at `now`.
pub fn restore(rows: &mut dyn RowsMut, now: Millis) -> Result<(), RowsError> {
    let op = "restore a backup";
    let mut counters = read_counters(rows)?.ok_or_else(|| corrupt(op, "it has no namespace in it"))?;
    let skip = |last, what| SKIP.behind(last, now).ok_or_else(|| corrupt(op, format!("no {what} is left")));
    counters.inode = InodeId(skip(counters.inode.0, "number of a file")?);
    counters.generation = Generation(skip(counters.generation.0, "generation stamp")?);
    write_counters(rows, counters);
    delegation_token::skip(rows, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{ROOT, next_generation, next_inode};
    use crate::record::Counters;
    use types::rows::MemoryRows;

    /// A morning in 2027.
    const MORNING: Millis = Millis(1_800_000_000_000);

    fn backup() -> MemoryRows {
        let mut rows = MemoryRows::default();
        write_counters(&mut rows, Counters { inode: ROOT, generation: Generation(1001) });
        delegation_token::set_last(&mut rows, 9);
        rows
    }

    /// A backup is restored; a minute later it is restored once more, as the first store was given up.
    #[test]
    fn two_restores_of_one_backup_give_out_nothing_alike() {
        let minute = Duration::from_secs(60);
        let restored = [MORNING, MORNING.plus(minute)].map(|now| {
            let mut rows = backup();
            restore(&mut rows, now).unwrap();
            rows
        });
        let given_out = restored.map(|mut rows| {
            let token = delegation_token::last(&rows).unwrap();
            [next_inode(&mut rows).unwrap().0, next_generation(&mut rows).unwrap().0, u64::from(token)]
        });
        let apart = |which: usize| given_out[1][which] - given_out[0][which];
        assert!(apart(0) >= 60 << 20 && apart(1) >= 60 << 20 && apart(2) >= 60, "{given_out:?}");
        assert!(given_out[0][0] > 1 << 32 && given_out[0][1] > 1 << 32, "the lost store went on: {given_out:?}");
    }

    #[test]
    fn a_backup_with_no_number_left_is_refused() {
        let mut rows = backup();
        write_counters(&mut rows, Counters { inode: ROOT, generation: Generation(1 << 62) });
        assert!(restore(&mut rows, MORNING).unwrap_err().to_string().contains("no generation stamp is left"));
    }
}
