//! The log of a member that does not run, for whoever takes what it knows elsewhere.
//!
//! Promise: nothing of the member is changed, so it may still be started. Entries count whether or not the log says
//! that they were committed: of these, the member that led may have told a caller, and only the log of a majority
//! knows.

use crate::disk::Disk;
use crate::level;
use crate::machine::Machine;
use crate::position::Position;
use crate::types::Payload;
use crate::writer::scan;
use std::io;

/// Applies to `machine`, which has a copy of this member's rows, what its log has behind them. Returns how many entries
/// these were. An error of kind `WouldBlock`: the member runs.
pub fn replay<M: Machine>(disk: &dyn Disk, machine: &M) -> io::Result<u64> {
    let _lock = disk.lock()?;
    let mut position = machine.position().map_or_else(|| Ok(Position::default()), |bytes| Position::decode(&bytes))?;
    let log = scan(disk, None)?.replay;
    let mut count = 0;
    for entry in log.entries {
        let id = entry.log_id;
        let next = position.applied.map_or(0, |applied| applied.index + 1);
        if id.index < next {
            continue;
        }
        if id.index > next {
            return Err(damaged(format!(
                "the log in {} goes on at entry {}, and the rows end before {next}",
                disk.path().display(),
                id.index
            )));
        }
        position.applied = Some(id);
        let command = match entry.payload {
            Payload::Blank => None,
            Payload::Membership(membership) => {
                position = Position { members: Position::members_of(id, membership), ..position };
                None
            }
            Payload::Normal(command) => Some(level::decode(machine, &command.0).map_err(damaged)?),
        };
        machine.apply(&position.encode(), command).map_err(|error| damaged(format!("entry {}: {error}", id.index)))?;
        count += 1;
    }
    Ok(count)
}

fn damaged(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
