//! The tables of the block side. Numbers in keys are big-endian; values are a version byte and a record as
//! [`types::encoding`] draws it.
//!
//! ```text
//! table            key                          value
//! 16 NODE          node id 16 B                 Node: addresses, rack, incarnation
//! 17 PIPELINE      pipeline u64                 PipelineRow: epoch, members, wanted count, who still copies
//! 18 CONTAINER     container u64                ContainerRow: pipeline, epoch, state, leased indexes, bytes about
//! 19 COUNTERS      (empty)                      Counters: last pipeline, last container
//! 20 SERVICE       node id 16 B                 Service: absent for a node that serves as usual
//! 21 JOB           job u64                      JobRow: what was asked for, since when, how it ended
//! 22 LEAVE         node id 16 B                 Leave: absent for a node whose silence counts
//! 23 REPAIR_HOLD   (empty)                      RepairHold: absent while repair goes on
//! 24 RESTORED      (empty)                      Restored: absent for a store that never was restored from a backup
//! 25 LISTED        node id 16 B                 Listed: absent for a node of which lists of hosts say nothing
//! ```
//!
//! Tables 26 to 31 are kept free.

use crate::node::Node;
use std::ops::{Bound, ControlFlow};
use types::encoding::{self, Encoded};
use types::rows::{Rows, RowsError, RowsMut, Table};
use types::{ContainerId, Epoch, Millis, NodeId, PipelineId};

/// Of all rows. It changes only where a row means something else than before.
pub(crate) const VERSION: u8 = 4;

pub const NODE: Table = Table(16);
pub const PIPELINE: Table = Table(17);
pub const CONTAINER: Table = Table(18);
pub const COUNTERS: Table = Table(19);
pub const SERVICE: Table = Table(20);
pub const JOB: Table = Table(21);
pub const LEAVE: Table = Table(22);
pub const REPAIR_HOLD: Table = Table(23);
pub const RESTORED: Table = Table(24);
pub const LISTED: Table = Table(25);

/// A set of nodes. Its members are sorted, so that a set has one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineRow {
    /// Rises with every change of the members.
    pub epoch: Epoch,
    pub members: Vec<NodeId>,
    /// Chosen ahead of time, so new blocks go here; false: came about when a chain lost a node.
    pub planned: bool,
    /// Members it should have: the replication of the files whose blocks are here.
    pub wanted: u16,
    /// Members that came under a later epoch than the first, and which: what containers held then they still have to
    /// copy.
    pub joining: Vec<(NodeId, Epoch)>,
    /// Members that went since somebody began to join. What they have may be needed until all is copied.
    pub former: Vec<NodeId>,
    /// Containers that are here: a set that others have taken all of goes.
    pub container_count: u64,
}
types::record!(PipelineRow { 0: epoch, 1: members, 2: planned, 3: wanted, 4: joining, 5: former, 6: container_count });

/// What an administrator told a node to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    #[default]
    Serving,
    /// Takes no new blocks; what it has is copied to others, and then it holds nothing.
    Draining,
}
types::numbered!(Service { 0 => Serving, 1 => Draining });

/// A time in which a node's silence does not count: it is away, and others do not copy what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    pub kind: LeaveKind,
    /// By the wall clock. Whoever leads then ends it.
    pub until: Millis,
}
types::record!(Leave { 0: kind, 1: until });

/// Why a node is away, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveKind {
    /// An administrator works on it: it takes no new blocks, and comes and goes until that is over.
    Maintenance,
    /// Its process ended in order, and said for how long it may be away. Its next registration ends this.
    Restart,
}
types::numbered!(LeaveKind { 0 => Maintenance, 1 => Restart });

/// What a node is by lists of hosts in files. Whoever leads when they say so no more undoes that, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// It is to be emptied.
    pub is_excluded: bool,
    pub is_in_maintenance: bool,
}
types::record!(Listed { 0: is_excluded, 1: is_in_maintenance });

/// An administrator has repair wait, for the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHold {
    /// By the wall clock. Whoever leads then ends it.
    pub until: Millis,
}
types::record!(RepairHold { 0: until });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Takes new blocks.
    Open,
    /// Takes none; some are still being written.
    Sealing,
    /// All its blocks are finalized.
    Sealed,
}
types::numbered!(ContainerState { 0 => Open, 1 => Sealing, 2 => Sealed });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRow {
    pub pipeline: PipelineId,
    /// Of the pipeline when the container's members were last brought up to date.
    pub epoch: Epoch,
    pub state: ContainerState,
    /// Indexes below this are leased: used, in somebody's hand, or lost with whoever held them.
    pub leased_index_count: u32,
    /// Bytes of its blocks, about: as known when indexes were leased last.
    pub len: u64,
}
types::record!(ContainerRow { 0: pipeline, 1: epoch, 2: state, 3: leased_index_count, 4: len });

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    Repair,
    Drain,
    Balance,
    Scrub,
    /// Between the disks of single nodes.
    BalanceDisks,
}
types::numbered!(JobKind { 0 => Repair, 1 => Drain, 2 => Balance, 3 => Scrub, 4 => BalanceDisks });

/// How much of a job is done, in bytes and in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub done_len: u64,
    pub total_len: u64,
    pub done_count: u64,
    pub total_count: u64,
    /// Damaged replicas met, and how many of them were replaced.
    pub found_count: u64,
    pub mended_count: u64,
}
types::record!(Work { 0: done_len, 1: total_len, 2: done_count, 3: total_count, 4: found_count, 5: mended_count });

/// Work that somebody asked for. How far it is follows from the blocks, or is told by the datanodes, and is written
/// down at its end only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub kind: JobKind,
    /// What it is about, for programs: a node's id, or empty.
    pub subject: String,
    pub started: Millis,
    pub task: JobTask,
    pub end: Option<JobEnd>,
}
types::record!(JobRow { 0: kind, 1: subject, 2: started, 3: task, 4: end });

/// What a leader needs to go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTask {
    /// Nothing more: it stands elsewhere in the rows.
    Known,
    /// Until no datanode's fullness is farther from the mean of all, in parts of 10⁹.
    Balance { within: u64, len_per_s: Option<u64> },
    /// The number is the one by which the datanodes know it.
    Scrub { number: u64, len_per_s: u64, nodes: Vec<NodeId> },
    /// The same, and how far a disk may be from all disks of its node, in parts of 10⁹.
    BalanceDisks { number: u64, len_per_s: u64, within: u64, nodes: Vec<NodeId> },
}
types::variants!(JobTask {
    0 => Known,
    1 => Balance { 0: within, 1: len_per_s },
    2 => Scrub { 0: number, 1: len_per_s, 2: nodes },
    3 => BalanceDisks { 0: number, 1: len_per_s, 2: within, 3: nodes },
});

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    pub at: Millis,
    /// Somebody or something ended it before it was done.
    pub stopped: bool,
    /// For people.
    pub note: String,
    pub work: Work,
}
types::record!(JobEnd { 0: at, 1: stopped, 2: note, 3: work });

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) pipeline: u64,
    pub(crate) container: u64,
}
types::record!(Counters { 0: pipeline, 1: container });

/// These rows were a backup once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// When they took the place of the store.
    pub at: Millis,
    /// When the backup was made.
    pub made: Millis,
    /// Up to this one, containers may hold blocks that the backup did not know.
    pub last_container: ContainerId,
    /// When these were released: since then their replicas are garbage.
    pub released: Option<Millis>,
}
types::record!(Restored { 0: at, 1: made, 2: last_container, 3: released });

/// The last time, if there were several.
pub fn restored(rows: &dyn Rows) -> Result<Option<Restored>, RowsError> {
    read(rows, RESTORED, &[])
}

pub(crate) fn put_restored(rows: &mut dyn RowsMut, restored: &Restored) {
    rows.put(RESTORED, &[], encode(restored));
}

/// A datanode as it registered last.
pub fn node(rows: &dyn Rows, id: NodeId) -> Result<Option<Node>, RowsError> {
    read(rows, NODE, &id.0)
}

pub(crate) fn put_node(rows: &mut dyn RowsMut, node: &Node) {
    rows.put(NODE, &node.id.0, encode(node));
}

pub(crate) fn pipeline(rows: &dyn Rows, id: PipelineId) -> Result<Option<PipelineRow>, RowsError> {
    read(rows, PIPELINE, &id.0.to_be_bytes())
}

pub(crate) fn put_pipeline(rows: &mut dyn RowsMut, id: PipelineId, row: &PipelineRow) {
    rows.put(PIPELINE, &id.0.to_be_bytes(), encode(row));
}

pub(crate) fn container(rows: &dyn Rows, id: ContainerId) -> Result<Option<ContainerRow>, RowsError> {
    read(rows, CONTAINER, &id.0.to_be_bytes())
}

pub(crate) fn put_container(rows: &mut dyn RowsMut, id: ContainerId, row: &ContainerRow) {
    rows.put(CONTAINER, &id.0.to_be_bytes(), encode(row));
}

pub(crate) fn remove_container(rows: &mut dyn RowsMut, id: ContainerId) {
    rows.delete(CONTAINER, &id.0.to_be_bytes());
}

/// Whether there is such a container: blocks may have their home there.
pub fn has_container(rows: &dyn Rows, id: ContainerId) -> Result<bool, RowsError> {
    Ok(rows.get(CONTAINER, &id.0.to_be_bytes())?.is_some())
}

pub(crate) fn counters(rows: &dyn Rows) -> Result<Counters, RowsError> {
    Ok(read(rows, COUNTERS, &[])?.unwrap_or_default())
}

pub(crate) fn put_counters(rows: &mut dyn RowsMut, counters: Counters) {
    rows.put(COUNTERS, &[], encode(&counters));
}

pub(crate) fn job(rows: &dyn Rows, id: u64) -> Result<Option<JobRow>, RowsError> {
    read(rows, JOB, &id.to_be_bytes())
}

pub(crate) fn put_job(rows: &mut dyn RowsMut, id: u64, row: &JobRow) {
    rows.put(JOB, &id.to_be_bytes(), encode(row));
}

/// Every datanode that ever registered.
pub fn nodes(rows: &dyn Rows) -> Result<Vec<Node>, RowsError> {
    Ok(all::<Node>(rows, NODE)?.into_iter().map(|(_, node)| node).collect())
}

/// What administrators want of nodes that do not serve as usual.
pub fn services(rows: &dyn Rows) -> Result<Vec<(NodeId, Service)>, RowsError> {
    let id = |key: Vec<u8>| key.try_into().map(NodeId).map_err(|_| corrupt("a node's key is not its id".into()));
    all::<Service>(rows, SERVICE)?.into_iter().map(|(key, service)| Ok((id(key)?, service))).collect()
}

/// Nodes that are away, or may be.
pub fn leaves(rows: &dyn Rows) -> Result<Vec<(NodeId, Leave)>, RowsError> {
    let id = |key: Vec<u8>| key.try_into().map(NodeId).map_err(|_| corrupt("a node's key is not its id".into()));
    all::<Leave>(rows, LEAVE)?.into_iter().map(|(key, leave)| Ok((id(key)?, leave))).collect()
}

pub(crate) fn leave(rows: &dyn Rows, id: NodeId) -> Result<Option<Leave>, RowsError> {
    read(rows, LEAVE, &id.0)
}

pub(crate) fn put_leave(rows: &mut dyn RowsMut, id: NodeId, leave: Option<Leave>) {
    match leave {
        Some(leave) => rows.put(LEAVE, &id.0, encode(&leave)),
        None => rows.delete(LEAVE, &id.0),
    }
}

/// What lists of hosts have said of nodes.
pub fn listed(rows: &dyn Rows) -> Result<Vec<(NodeId, Listed)>, RowsError> {
    let id = |key: Vec<u8>| key.try_into().map(NodeId).map_err(|_| corrupt("a node's key is not its id".into()));
    all::<Listed>(rows, LISTED)?.into_iter().map(|(key, listed)| Ok((id(key)?, listed))).collect()
}

pub(crate) fn put_listed(rows: &mut dyn RowsMut, id: NodeId, listed: Listed) {
    if listed == Listed::default() {
        rows.delete(LISTED, &id.0);
    } else {
        rows.put(LISTED, &id.0, encode(&listed));
    }
}

/// `None`: repair goes on.
pub fn repair_hold(rows: &dyn Rows) -> Result<Option<RepairHold>, RowsError> {
    read(rows, REPAIR_HOLD, &[])
}

pub(crate) fn put_repair_hold(rows: &mut dyn RowsMut, hold: Option<RepairHold>) {
    match hold {
        Some(hold) => rows.put(REPAIR_HOLD, &[], encode(&hold)),
        None => rows.delete(REPAIR_HOLD, &[]),
    }
}

pub fn pipelines(rows: &dyn Rows) -> Result<Vec<(PipelineId, PipelineRow)>, RowsError> {
    all::<PipelineRow>(rows, PIPELINE)?.into_iter().map(|(key, row)| Ok((PipelineId(number(&key)?), row))).collect()
}

pub fn containers(rows: &dyn Rows) -> Result<Vec<(ContainerId, ContainerRow)>, RowsError> {
    all::<ContainerRow>(rows, CONTAINER)?.into_iter().map(|(key, row)| Ok((ContainerId(number(&key)?), row))).collect()
}

/// The youngest container there ever was.
pub fn last_container(rows: &dyn Rows) -> Result<ContainerId, RowsError> {
    Ok(ContainerId(counters(rows)?.container))
}

/// Jobs by their numbers, in the order in which they began.
pub fn jobs(rows: &dyn Rows) -> Result<Vec<(u64, JobRow)>, RowsError> {
    all::<JobRow>(rows, JOB)?.into_iter().map(|(key, row)| Ok((number(&key)?, row))).collect()
}

/// Every record of `table`, with its key.
pub(crate) fn all<T: Encoded>(rows: &dyn Rows, table: Table) -> Result<Vec<(Vec<u8>, T)>, RowsError> {
    let mut found = Ok(Vec::new());
    rows.scan(table, Bound::Unbounded, &mut |key, value| {
        match (decode(value), &mut found) {
            (Ok(record), Ok(list)) => list.push((key.to_vec(), record)),
            (Err(error), found) => *found = Err(error),
            (_, Err(_)) => {}
        }
        if found.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    found
}

/// A key that is one number.
pub(crate) fn number(key: &[u8]) -> Result<u64, RowsError> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| corrupt(format!("a key of {} bytes", key.len())))
}

pub(crate) fn put_service(rows: &mut dyn RowsMut, id: NodeId, service: Service) {
    match service {
        Service::Serving => rows.delete(SERVICE, &id.0),
        Service::Draining => rows.put(SERVICE, &id.0, encode(&service)),
    }
}

fn read<T: Encoded>(rows: &dyn Rows, table: Table, key: &[u8]) -> Result<Option<T>, RowsError> {
    rows.get(table, key)?.map(|value| decode(&value)).transpose()
}

impl PipelineRow {
    /// A member that has not all yet of what was here before it came.
    pub fn is_joining(&self, node: NodeId) -> bool {
        self.joining.iter().any(|(joiner, _)| *joiner == node)
    }
}

pub(crate) fn encode<T: Encoded>(record: &T) -> Vec<u8> {
    encoding::encode(record, vec![VERSION])
}

pub(crate) fn decode<T: Encoded>(value: &[u8]) -> Result<T, RowsError> {
    match value.split_first() {
        Some((&VERSION, record)) => encoding::decode(record).map_err(|error| corrupt(error.to_string())),
        Some((version, _)) => Err(corrupt(format!("a record of version {version}; this program knows {VERSION}"))),
        None => Err(corrupt("an empty record".into())),
    }
}

fn corrupt(reason: String) -> RowsError {
    RowsError { op: "reading rows of the block side", reason }
}
