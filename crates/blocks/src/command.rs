//! The changes of the block side, and what each does to the rows.

use crate::node::Node;
use crate::tables::{self, ContainerRow, ContainerState, PipelineRow};
use serde::{Deserialize, Serialize};
use types::rows::{RowsError, RowsMut};
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};

/// Nodes of one pipeline, at most. HDFS allows a replication of 512; far fewer make sense.
const MEMBER_COUNT_MAX: usize = types::limits::REPLICATION_MAX as usize;

/// One change, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A node came, or came back with another address.
    Register(Node),
    /// Makes a set of nodes known. A set that is known keeps its id; `planned` can only be added to it.
    CreatePipeline { members: Vec<NodeId>, planned: bool },
    /// Gives a pipeline one more container for new blocks.
    OpenContainer { pipeline: PipelineId },
    /// Hands the indexes `from..up_to` to `lessee`. `from` must be where the last lease ended, so that of two who ask, one gets it.
    LeaseIndexes { container: ContainerId, from: u32, up_to: u32, lessee: u64, len: u64 },
    /// Takes a container out of use for new blocks.
    Seal { container: ContainerId, len: u64 },
    /// All blocks of a sealing container are finalized.
    FinishSeal { container: ContainerId },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Pipeline(PipelineId),
    Container(ContainerId),
}

/// Why a command did nothing. The leader looks at its picture again, which has moved on meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlocksError {
    #[error("no such {what}: {id}")]
    Unknown { what: &'static str, id: String },
    #[error("a pipeline needs 1 to {MEMBER_COUNT_MAX} different nodes, not {count}")]
    Members { count: usize },
    #[error("{container}: indexes from {from} are asked for, {leased} are leased; ask again from there")]
    Overtaken { container: ContainerId, from: u32, leased: u32 },
    #[error("{container} takes no new blocks")]
    NotOpen { container: ContainerId },
}

/// Applies one command. On a refusal (`Ok(Err(..))`) no row was changed.
pub fn apply(rows: &mut dyn RowsMut, command: &Command) -> Result<Result<Reply, BlocksError>, RowsError> {
    match command {
        Command::Register(node) => {
            tables::put_node(rows, node);
            Ok(Ok(Reply::Done))
        }
        Command::CreatePipeline { members, planned } => create_pipeline(rows, members, *planned),
        Command::OpenContainer { pipeline } => open_container(rows, *pipeline),
        Command::LeaseIndexes { container, from, up_to, len, .. } => {
            change_container(rows, *container, |row| match () {
                () if row.state != ContainerState::Open || *up_to > BlockId::INDEX_COUNT || up_to <= from => {
                    Err(BlocksError::NotOpen { container: *container })
                }
                () if row.leased != *from => {
                    Err(BlocksError::Overtaken { container: *container, from: *from, leased: row.leased })
                }
                () => {
                    (row.leased, row.len) = (*up_to, *len);
                    Ok(())
                }
            })
        }
        Command::Seal { container, len } => change_container(rows, *container, |row| {
            if row.state == ContainerState::Open {
                (row.state, row.len) = (ContainerState::Sealing, *len);
            }
            Ok(())
        }),
        Command::FinishSeal { container } => change_container(rows, *container, |row| {
            if row.state == ContainerState::Sealing {
                row.state = ContainerState::Sealed;
            }
            Ok(())
        }),
    }
}

fn create_pipeline(
    rows: &mut dyn RowsMut,
    members: &[NodeId],
    planned: bool,
) -> Result<Result<Reply, BlocksError>, RowsError> {
    let mut set = members.to_vec();
    set.sort_unstable();
    set.dedup();
    if set.is_empty() || set.len() > MEMBER_COUNT_MAX || set.len() != members.len() {
        return Ok(Err(BlocksError::Members { count: set.len() }));
    }
    for member in &set {
        if tables::node(rows, *member)?.is_none() {
            return Ok(Err(BlocksError::Unknown { what: "node", id: member.to_string() }));
        }
    }
    // Pipelines are few, some thousands at most, and made rarely: a scan costs less than a second index.
    for (key, mut row) in tables::all::<PipelineRow>(rows, tables::PIPELINE)? {
        if row.members == set {
            let id = PipelineId(tables::number(&key)?);
            if planned && !row.planned {
                row.planned = true;
                tables::put_pipeline(rows, id, &row);
            }
            return Ok(Ok(Reply::Pipeline(id)));
        }
    }
    let mut counters = tables::counters(rows)?;
    counters.pipeline += 1;
    let id = PipelineId(counters.pipeline);
    tables::put_counters(rows, counters);
    tables::put_pipeline(rows, id, &PipelineRow { epoch: Epoch(1), members: set, planned });
    Ok(Ok(Reply::Pipeline(id)))
}

fn open_container(rows: &mut dyn RowsMut, pipeline: PipelineId) -> Result<Result<Reply, BlocksError>, RowsError> {
    let Some(row) = tables::pipeline(rows, pipeline)? else {
        return Ok(Err(BlocksError::Unknown { what: "pipeline", id: pipeline.to_string() }));
    };
    let mut counters = tables::counters(rows)?;
    counters.container += 1;
    let id = ContainerId(counters.container);
    // Some 9·10¹² containers of gigabytes each: the numbers outlast the disks.
    assert!(id < ContainerId::END, "container numbers are used up");
    tables::put_counters(rows, counters);
    let fresh = ContainerRow { pipeline, epoch: row.epoch, state: ContainerState::Open, leased: 0, len: 0 };
    tables::put_container(rows, id, &fresh);
    Ok(Ok(Reply::Container(id)))
}

fn change_container(
    rows: &mut dyn RowsMut,
    id: ContainerId,
    change: impl FnOnce(&mut ContainerRow) -> Result<(), BlocksError>,
) -> Result<Result<Reply, BlocksError>, RowsError> {
    let Some(mut row) = tables::container(rows, id)? else {
        return Ok(Err(BlocksError::Unknown { what: "container", id: id.to_string() }));
    };
    if let Err(refused) = change(&mut row) {
        return Ok(Err(refused));
    }
    tables::put_container(rows, id, &row);
    Ok(Ok(Reply::Done))
}
