//! What a backup of the rows misses when it takes the place of the store: what happened after it was made.
//!
//! Promise: no pipeline, container or block number that the lost store may have given out since is given out again. A
//! block of a container up to [`Restored::last_container`] may be one that the backup does not know, so it is never
//! taken for garbage; every block that is made from now on has its home behind that.

use crate::tables::{self, ContainerState, Restored};
use types::rows::{RowsError, RowsMut};
use types::{ContainerId, Millis};

/// Numbers that the lost store may have given out since the backup. A guess, above what a store makes in years.
const GIVEN_OUT_MAX: u64 = 1 << 24;

/// Readies rows of a backup that was made at `made` for a store that goes on with them at `now`.
pub fn restore(rows: &mut dyn RowsMut, made: Millis, now: Millis) -> Result<(), RowsError> {
    let mut counters = tables::counters(rows)?;
    counters.pipeline = counters.pipeline.saturating_add(GIVEN_OUT_MAX);
    counters.container = counters.container.saturating_add(GIVEN_OUT_MAX);
    tables::put_counters(rows, counters);
    // Blocks that were put into them since have indexes that the rows do not know.
    for (id, row) in tables::containers(rows)? {
        if row.state == ContainerState::Open {
            tables::put_container(rows, id, &tables::ContainerRow { state: ContainerState::Sealing, ..row });
        }
    }
    tables::put_restored(rows, &Restored { at: now, made, last_container: ContainerId(counters.container) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Node, Reply, apply};
    use types::rows::MemoryRows;
    use types::{NodeId, PipelineId};

    #[test]
    fn nothing_is_given_out_twice() {
        let mut rows = MemoryRows::default();
        let run = |rows: &mut MemoryRows, command| apply(rows, &command).unwrap().unwrap();
        let create = || Command::CreateSet { members: vec![NodeId([1; 16])], wanted: 1, planned: true };
        run(&mut rows, Command::Register(Node::example(1, "/r")));
        run(&mut rows, create());
        run(&mut rows, Command::OpenContainer { pipeline: PipelineId(1) });
        restore(&mut rows, Millis(5), Millis(9)).unwrap();
        let restored = tables::restored(&rows).unwrap().unwrap();
        assert_eq!(
            (restored.at, restored.made, restored.last_container),
            (Millis(9), Millis(5), ContainerId(1 + (1 << 24)))
        );
        assert_eq!(tables::containers(&rows).unwrap()[0].1.state, ContainerState::Sealing);
        let opened = run(&mut rows, Command::OpenContainer { pipeline: PipelineId(1) });
        assert!(matches!(opened, Reply::Container(id) if id > restored.last_container), "{opened:?}");
    }
}
