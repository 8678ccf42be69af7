//! What a backup of the rows misses when it takes the place of the store: what happened after it was made.
//!
//! Promise: no pipeline, container or block number that the lost store may have given out since is given out again. A
//! block of a container up to [`Restored::last_container`] may be one that the backup does not know, so it is never
//! taken for garbage, until an administrator releases such blocks; every block that is made from now on has its home
//! behind that.

use crate::tables::{self, ContainerState, Restored};
use std::time::Duration;
use types::rows::{RowsError, RowsMut};
use types::{ContainerId, Millis, Skip};

/// Terabytes a second, in containers of gigabytes; a store that was just restored opens some for each of its pipelines.
/// Block ids have room for those of 270 years.
const CONTAINERS: Skip =
    Skip { count: 1 << 10, each: Duration::from_secs(1), least: 1 << 24, max: ContainerId::END.0 - (1 << 40) };
/// There are fewer of these.
const PIPELINES: Skip = CONTAINERS;

/// Readies rows of a backup that was made at `made` for a store that goes on with them at `now`.
pub fn restore(rows: &mut dyn RowsMut, made: Millis, now: Millis) -> Result<(), RowsError> {
    let mut counters = tables::counters(rows)?;
    let none_left = |what| RowsError { op: "restore a backup", reason: format!("no number of a {what} is left") };
    counters.pipeline = PIPELINES.behind(counters.pipeline, now).ok_or_else(|| none_left("pipeline"))?;
    counters.container = CONTAINERS.behind(counters.container, now).ok_or_else(|| none_left("container"))?;
    tables::put_counters(rows, counters);
    // Blocks that were put into them since have indexes that the rows do not know.
    for (id, row) in tables::containers(rows)? {
        if row.state == ContainerState::Open {
            tables::put_container(rows, id, &tables::ContainerRow { state: ContainerState::Sealing, ..row });
        }
    }
    tables::put_restored(
        rows,
        &Restored { at: now, made, last_container: ContainerId(counters.container), released: None },
    );
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

    /// A store is restored, gives out containers for a minute, and is given up for another restore of the same backup:
    /// what datanodes have of it are found blocks, and nothing has their ids.
    #[test]
    fn two_restores_of_one_backup_give_out_nothing_alike() {
        let morning = Millis(1_800_000_000_000);
        let minute = Duration::from_secs(60);
        let open = |rows: &mut MemoryRows| match apply(rows, &Command::OpenContainer { pipeline: PipelineId(1) }) {
            Ok(Ok(Reply::Container(id))) => id,
            other => panic!("{other:?}"),
        };
        let mut backup = MemoryRows::default();
        apply(&mut backup, &Command::Register(Node::example(1, "/r"))).unwrap().unwrap();
        let create = Command::CreateSet { members: vec![NodeId([1; 16])], wanted: 1, planned: true };
        apply(&mut backup, &create).unwrap().unwrap();
        open(&mut backup);

        let (mut first, mut second) = (backup.clone(), backup);
        restore(&mut first, Millis(5), morning).unwrap();
        let given_up: Vec<ContainerId> = (0..1000).map(|_| open(&mut first)).collect();
        restore(&mut second, Millis(5), morning.plus(minute)).unwrap();
        let restored = tables::restored(&second).unwrap().unwrap();
        assert!(given_up.iter().all(|id| *id <= restored.last_container), "its blocks are garbage: {given_up:?}");
        let next = open(&mut second);
        assert!(!given_up.contains(&next) && next > restored.last_container, "{next} was given out before");
        let pipelines = [&first, &second].map(|rows| tables::counters(rows).unwrap().pipeline);
        assert!(pipelines[1] >= pipelines[0] + 60_000, "{pipelines:?}");
    }

    #[test]
    fn container_numbers_stay_within_a_block_id() {
        let mut rows = MemoryRows::default();
        let restore_at = |rows: &mut MemoryRows, years: u64| {
            restore(rows, Millis(5), Millis(1_735_689_600_000 + years * 365 * 86_400_000))
        };
        restore_at(&mut rows, 100).unwrap();
        assert!(restore_at(&mut rows, 400).unwrap_err().to_string().contains("no number of a"));
    }
}
