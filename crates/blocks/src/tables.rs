//! The tables of the block side. Numbers in keys are big-endian; values are a version byte and a postcard record.
//!
//! ```text
//! table            key                          value
//! 16 NODE          node id 16 B                 Node: addresses, rack
//! 17 PIPELINE      pipeline u64                 PipelineRow: epoch, members
//! 18 CONTAINER     container u64                ContainerRow: pipeline, epoch, state, leased indexes, bytes about
//! 19 COUNTERS      (empty)                      Counters: last pipeline, last container
//! ```
//!
//! Tables 20 to 31 are kept free.

use crate::node::Node;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError, RowsMut, Table};
use types::{ContainerId, Epoch, NodeId, PipelineId};

pub const NODE: Table = Table(16);
pub const PIPELINE: Table = Table(17);
pub const CONTAINER: Table = Table(18);
pub const COUNTERS: Table = Table(19);

/// Version of every record here. A new form gets a new number, and the old one stays readable.
const VERSION: u8 = 1;

/// A set of nodes. Its members are sorted, so that a set has one form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineRow {
    pub epoch: Epoch,
    pub members: Vec<NodeId>,
    /// Chosen ahead of time, so new blocks go here; false: came about when a chain lost a node.
    pub planned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// Takes new blocks.
    Open,
    /// Takes none; some are still being written.
    Sealing,
    /// All its blocks are finalized.
    Sealed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRow {
    pub pipeline: PipelineId,
    /// Of the pipeline when the container's members were last brought up to date.
    pub epoch: Epoch,
    pub state: ContainerState,
    /// Indexes below this are leased: used, in somebody's hand, or lost with whoever held them.
    pub leased: u32,
    /// Bytes of its blocks, about: as known when indexes were leased last.
    pub len: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) pipeline: u64,
    pub(crate) container: u64,
}

pub(crate) fn node(rows: &dyn Rows, id: NodeId) -> Result<Option<Node>, RowsError> {
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

pub(crate) fn counters(rows: &dyn Rows) -> Result<Counters, RowsError> {
    Ok(read(rows, COUNTERS, &[])?.unwrap_or_default())
}

pub(crate) fn put_counters(rows: &mut dyn RowsMut, counters: Counters) {
    rows.put(COUNTERS, &[], encode(&counters));
}

/// Every record of `table`, with its key.
pub(crate) fn all<T: DeserializeOwned>(rows: &dyn Rows, table: Table) -> Result<Vec<(Vec<u8>, T)>, RowsError> {
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

fn read<T: DeserializeOwned>(rows: &dyn Rows, table: Table, key: &[u8]) -> Result<Option<T>, RowsError> {
    rows.get(table, key)?.map(|value| decode(&value)).transpose()
}

fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    postcard::to_extend(record, vec![VERSION]).expect("records of this crate are plain data")
}

fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, RowsError> {
    match value.split_first() {
        Some((&VERSION, record)) => postcard::from_bytes(record).map_err(|error| corrupt(error.to_string())),
        Some((version, _)) => Err(corrupt(format!("record version {version}; a newer program wrote it"))),
        None => Err(corrupt("an empty record".into())),
    }
}

fn corrupt(reason: String) -> RowsError {
    RowsError { op: "reading rows of the block side", reason }
}
