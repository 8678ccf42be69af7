//! The changes of the block side, and what each does to the rows.

use crate::node::Node;
use crate::tables::{
    self, ContainerRow, ContainerState, JobEnd, JobRow, Leave, LeaveKind, Listed, PipelineRow, Restored,
};
use crate::tables::{RepairHold, Service};
use std::collections::BTreeSet;
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError, RowsMut};
use types::{BlockId, ContainerId, Epoch, Millis, NodeId, PipelineId};

/// Nodes of one pipeline, at most. HDFS allows a replication of 512; far fewer make sense.
const MEMBER_COUNT_MAX: usize = types::limits::REPLICATION_MAX as usize;

/// One change, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A node came, or came back with another address.
    Register(Node),
    /// Makes a set of nodes known that should have `wanted` members, which may be more than there are. A set that is
    /// known keeps its id; `planned` can only be added to it.
    CreateSet { members: Vec<NodeId>, wanted: u16, planned: bool },
    /// Gives a pipeline one more container for new blocks.
    OpenContainer { pipeline: PipelineId },
    /// Hands the indexes `from..up_to` to `lessee`. `from` must be where the last lease ended, so that of two who ask,
    /// one gets it.
    LeaseIndexes { container: ContainerId, from: u32, up_to: u32, lessee: u64, len: u64 },
    /// Takes a container out of use for new blocks.
    Seal { container: ContainerId, len: u64 },
    /// All blocks of a sealing container are finalized.
    FinishSeal { container: ContainerId },
    /// Gives a pipeline other members, if its epoch is still `epoch`. Who is new copies what the containers hold.
    SetMembers { pipeline: PipelineId, epoch: Epoch, members: Vec<NodeId> },
    /// All members of these containers have all their blocks, as of the epoch of the pipeline beside each. One that has
    /// come into another pipeline meanwhile, which counts other epochs, is passed over.
    Whole { containers: Vec<(ContainerId, PipelineId, Epoch)> },
    /// Nobody joins this pipeline any more: all its containers are whole.
    Joined { pipeline: PipelineId, epoch: Epoch },
    /// Some containers of one pipeline move to another one of the same members. With its last container the first is
    /// gone.
    Merge { from: PipelineId, into: PipelineId, containers: Vec<ContainerId> },
    /// What an administrator wants of a node.
    SetService { node: NodeId, service: Service },
    /// Some containers of a pipeline, if its epoch is still `epoch`, get a set of their own, of these members: who has
    /// not all of them yet copies them. The same of its present members must have all of each of them.
    Carve { from: PipelineId, epoch: Epoch, containers: Vec<ContainerId>, members: Vec<NodeId> },
    /// Somebody asked for work that takes a while. `id` is the first that no job has had.
    BeginJob { id: u64, row: JobRow },
    /// It is over, in one way or another.
    EndJob { id: u64, end: JobEnd },
    /// A sealed container whose blocks were all deleted is forgotten. Its number is never given again.
    RemoveContainer { container: ContainerId },
    /// A node may be away, or its silence counts again.
    SetLeave { node: NodeId, leave: Option<Leave> },
    /// Repair waits, or goes on.
    HoldRepair { hold: Option<RepairHold> },
    /// Blocks that a restored backup did not know are nobody's from now on, and their replicas are deleted.
    ReleaseFound { at: Millis },
    /// What lists of hosts say of a node. It is carried out by other commands, behind this one.
    SetListed { node: NodeId, listed: Listed },
}
types::variants!(Command {
    0 => Register[node],
    1 => CreateSet { 0: members, 1: wanted, 2: planned },
    2 => OpenContainer { 0: pipeline },
    3 => LeaseIndexes { 0: container, 1: from, 2: up_to, 3: lessee, 4: len },
    4 => Seal { 0: container, 1: len },
    5 => FinishSeal { 0: container },
    6 => SetMembers { 0: pipeline, 1: epoch, 2: members },
    7 => Whole { 0: containers },
    8 => Joined { 0: pipeline, 1: epoch },
    9 => Merge { 0: from, 1: into, 2: containers },
    10 => SetService { 0: node, 1: service },
    11 => Carve { 0: from, 1: epoch, 2: containers, 3: members },
    12 => BeginJob { 0: id, 1: row },
    13 => EndJob { 0: id, 1: end },
    14 => RemoveContainer { 0: container },
    15 => SetLeave { 0: node, 1: leave },
    16 => HoldRepair { 0: hold },
    17 => ReleaseFound { 0: at },
    18 => SetListed { 0: node, 1: listed },
});

/// Jobs under way at a time: a drain for each datanode at most, and few others.
const JOB_COUNT_MAX: usize = 1000;
/// Of those that ended the last stay written down.
const ENDED_COUNT_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Pipeline(PipelineId),
    Container(ContainerId),
}
types::variants!(Reply { 0 => Done, 1 => Pipeline(0: pipeline), 2 => Container(0: container) });

/// Why a command did nothing. The leader looks at its picture again, which has moved on meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlocksError {
    #[error("no such {what}: {id}")]
    Unknown { what: &'static str, id: String },
    #[error("a pipeline has 1 to {MEMBER_COUNT_MAX} different nodes, not {count}")]
    Members { count: usize },
    #[error("{container}: block indexes from {from} were requested, but those below {leased} are leased; try again")]
    Overtaken { container: ContainerId, from: u32, leased: u32 },
    #[error("{container} is not open for new blocks")]
    NotOpen { container: ContainerId },
    #[error("{container} is open for new blocks, or not empty")]
    InUse { container: ContainerId },
    #[error("{pipeline} has changed since this was decided")]
    Moved { pipeline: PipelineId },
    #[error("datanode {node} is in maintenance")]
    InMaintenance { node: NodeId },
    #[error("job {id} exists already; try again")]
    JobTaken { id: u64 },
    #[error("{JOB_COUNT_MAX} jobs are under way; wait for one, or stop one")]
    TooManyJobs,
    /// Applying it panicked. No answer of this crate: whoever applies commands catches that.
    #[error("internal error in {operation}, which changed nothing; report it, with the server's log")]
    Fault { operation: String },
}

/// Applies one command. On a refusal (`Ok(Err(..))`) no row was changed.
pub fn apply(rows: &mut dyn RowsMut, command: &Command) -> Result<Result<Reply, BlocksError>, RowsError> {
    apply_with(rows, command, &|_, _| Ok(true))
}

/// What the namespace says of a container: whether nothing there speaks of it.
pub type IsEmpty = dyn Fn(&dyn Rows, ContainerId) -> Result<bool, RowsError>;

/// As [`apply`], and no container is removed that is not empty.
pub fn apply_with(
    rows: &mut dyn RowsMut,
    command: &Command,
    is_empty: &IsEmpty,
) -> Result<Result<Reply, BlocksError>, RowsError> {
    match command {
        Command::Register(node) => {
            tables::put_node(rows, node);
            // Whoever said that it would come back has done so.
            if tables::leave(rows, node.id)?.is_some_and(|leave| leave.kind == LeaveKind::Restart) {
                tables::put_leave(rows, node.id, None);
            }
            Ok(Ok(Reply::Done))
        }
        Command::CreateSet { members, wanted, planned } => create_set(rows, members, *wanted, *planned),
        Command::SetMembers { pipeline, epoch, members } => set_members(rows, *pipeline, *epoch, members),
        Command::Whole { containers } => {
            for (id, pipeline, epoch) in containers {
                if let Some(mut row) = tables::container(rows, *id)?
                    && row.pipeline == *pipeline
                    && row.epoch < *epoch
                {
                    row.epoch = *epoch;
                    tables::put_container(rows, *id, &row);
                }
            }
            Ok(Ok(Reply::Done))
        }
        Command::Joined { pipeline, epoch } => {
            let Some(mut row) = tables::pipeline(rows, *pipeline)?.filter(|row| row.epoch == *epoch) else {
                return Ok(Err(BlocksError::Moved { pipeline: *pipeline }));
            };
            row.end_joining();
            tables::put_pipeline(rows, *pipeline, &row);
            Ok(Ok(Reply::Done))
        }
        Command::Merge { from, into, containers } => merge(rows, *from, *into, containers),
        Command::Carve { from, epoch, containers, members } => carve(rows, *from, *epoch, containers, members),
        Command::SetService { node, service } => {
            if tables::node(rows, *node)?.is_none() {
                return Ok(Err(BlocksError::Unknown { what: "node", id: node.to_string() }));
            }
            tables::put_service(rows, *node, *service);
            Ok(Ok(Reply::Done))
        }
        Command::SetLeave { node, leave } => set_leave(rows, *node, *leave),
        Command::SetListed { node, listed } => {
            if tables::node(rows, *node)?.is_none() {
                return Ok(Err(BlocksError::Unknown { what: "node", id: node.to_string() }));
            }
            tables::put_listed(rows, *node, *listed);
            Ok(Ok(Reply::Done))
        }
        Command::HoldRepair { hold } => {
            tables::put_repair_hold(rows, *hold);
            Ok(Ok(Reply::Done))
        }
        Command::ReleaseFound { at } => {
            if let Some(restored) = tables::restored(rows)? {
                tables::put_restored(rows, &Restored { released: Some(*at), ..restored });
            }
            Ok(Ok(Reply::Done))
        }
        Command::BeginJob { id, row } => begin_job(rows, *id, row),
        Command::EndJob { id, end } => {
            let Some(mut row) = tables::job(rows, *id)? else {
                return Ok(Err(BlocksError::Unknown { what: "job", id: id.to_string() }));
            };
            if row.end.is_none() {
                row.end = Some(end.clone());
                tables::put_job(rows, *id, &row);
            }
            Ok(Ok(Reply::Done))
        }
        Command::OpenContainer { pipeline } => open_container(rows, *pipeline),
        Command::RemoveContainer { container } => {
            let in_use = Ok(Err(BlocksError::InUse { container: *container }));
            let is_sealed = |row: &ContainerRow| row.state == ContainerState::Sealed;
            let Some(row) = tables::container(rows, *container)?.filter(is_sealed) else { return in_use };
            if !is_empty(&*rows, *container)? && !mutation::is(Mutation::RemoveUnemptied) {
                return in_use;
            }
            tables::remove_container(rows, *container);
            if let Some(mut pipeline) = tables::pipeline(rows, row.pipeline)? {
                assert!(pipeline.container_count > 0, "{} counts no container, and had {container}", row.pipeline);
                pipeline.container_count -= 1;
                tables::put_pipeline(rows, row.pipeline, &pipeline);
            }
            Ok(Ok(Reply::Done))
        }
        Command::LeaseIndexes { container, from, up_to, len, .. } => {
            change_container(rows, *container, |row| match () {
                () if row.state != ContainerState::Open || *up_to > BlockId::INDEX_COUNT || up_to <= from => {
                    Err(BlocksError::NotOpen { container: *container })
                }
                () if row.leased_index_count != *from && !mutation::is(Mutation::LeaseIndexesAgain) => {
                    Err(BlocksError::Overtaken { container: *container, from: *from, leased: row.leased_index_count })
                }
                () => {
                    (row.leased_index_count, row.len) = (*up_to, *len);
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

/// A node that says goodbye while an administrator works on it stays in maintenance: that lasts as long as was said.
fn set_leave(
    rows: &mut dyn RowsMut,
    node: NodeId,
    leave: Option<Leave>,
) -> Result<Result<Reply, BlocksError>, RowsError> {
    if tables::node(rows, node)?.is_none() {
        return Ok(Err(BlocksError::Unknown { what: "node", id: node.to_string() }));
    }
    let present = tables::leave(rows, node)?.map(|leave| leave.kind);
    if present == Some(LeaveKind::Maintenance) && leave.is_some_and(|leave| leave.kind == LeaveKind::Restart) {
        return Ok(Err(BlocksError::InMaintenance { node }));
    }
    tables::put_leave(rows, node, leave);
    Ok(Ok(Reply::Done))
}

fn begin_job(rows: &mut dyn RowsMut, id: u64, row: &JobRow) -> Result<Result<Reply, BlocksError>, RowsError> {
    let known = tables::all::<JobRow>(rows, tables::JOB)?;
    let mut ids = Vec::with_capacity(known.len());
    for (key, row) in &known {
        ids.push((tables::number(key)?, row.end.is_some()));
    }
    if ids.last().is_some_and(|(last, _)| *last >= id) {
        return Ok(Err(BlocksError::JobTaken { id }));
    }
    let mut ended = ids.iter().filter(|(_, ended)| *ended);
    let oldest = ended.next();
    let ended_count = ended.count() + usize::from(oldest.is_some());
    if ids.len() - ended_count >= JOB_COUNT_MAX {
        return Ok(Err(BlocksError::TooManyJobs));
    }
    if let Some((oldest, _)) = oldest.filter(|_| ended_count >= ENDED_COUNT_MAX) {
        rows.delete(tables::JOB, &oldest.to_be_bytes());
    }
    tables::put_job(rows, id, row);
    Ok(Ok(Reply::Done))
}

/// The members as a set, if they are one and known.
fn check_members(rows: &dyn RowsMut, members: &[NodeId]) -> Result<Result<Vec<NodeId>, BlocksError>, RowsError> {
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
    Ok(Ok(set))
}

fn create_set(
    rows: &mut dyn RowsMut,
    members: &[NodeId],
    wanted: u16,
    planned: bool,
) -> Result<Result<Reply, BlocksError>, RowsError> {
    if wanted == 0 {
        return Ok(Err(BlocksError::Members { count: 0 }));
    }
    let set = match check_members(rows, members)? {
        Ok(set) => set,
        Err(refused) => return Ok(Err(refused)),
    };
    // Pipelines are few, some thousands at most, and made rarely: a scan costs less than a second index.
    for (key, mut row) in tables::all::<PipelineRow>(rows, tables::PIPELINE)? {
        if row.members == set && row.wanted == wanted {
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
    debug_assert!(matches!(tables::pipeline(rows, id), Ok(None)), "{id} is given a second time");
    tables::put_counters(rows, counters);
    tables::put_pipeline(rows, id, &PipelineRow::new(set, wanted, planned));
    Ok(Ok(Reply::Pipeline(id)))
}

fn set_members(
    rows: &mut dyn RowsMut,
    pipeline: PipelineId,
    epoch: Epoch,
    members: &[NodeId],
) -> Result<Result<Reply, BlocksError>, RowsError> {
    let set = match check_members(rows, members)? {
        Ok(set) => set,
        Err(refused) => return Ok(Err(refused)),
    };
    let is_current = |row: &PipelineRow| row.epoch == epoch;
    let Some(mut row) = tables::pipeline(rows, pipeline)?.filter(is_current) else {
        return Ok(Err(BlocksError::Moved { pipeline }));
    };
    row.set_members(set);
    tables::put_pipeline(rows, pipeline, &row);
    Ok(Ok(Reply::Done))
}

fn merge(
    rows: &mut dyn RowsMut,
    from: PipelineId,
    into: PipelineId,
    containers: &[ContainerId],
) -> Result<Result<Reply, BlocksError>, RowsError> {
    let moved = Ok(Err(BlocksError::Moved { pipeline: from }));
    let (gone, stays) = (tables::pipeline(rows, from)?, tables::pipeline(rows, into)?);
    let (Some(mut gone), Some(mut stays)) = (gone, stays) else { return moved };
    let found = match found_in(rows, from, containers)? {
        Some(found) if from != into && gone.can_merge(&stays) => found,
        _ => return moved,
    };
    assert!(gone.container_count >= found.len() as u64, "{from} counts {} containers", gone.container_count);
    gone.container_count -= found.len() as u64;
    stays.container_count += found.len() as u64;
    for (id, mut row) in found {
        (row.pipeline, row.epoch) = (into, stays.epoch);
        if row.state == ContainerState::Open {
            // One open container a pipeline is enough.
            row.state = ContainerState::Sealing;
        }
        tables::put_container(rows, id, &row);
    }
    tables::put_pipeline(rows, into, &stays);
    if gone.container_count == 0 {
        rows.delete(tables::PIPELINE, &from.0.to_be_bytes());
    } else {
        tables::put_pipeline(rows, from, &gone);
    }
    Ok(Ok(Reply::Done))
}

/// These containers' rows, each once; `None` if one of them is elsewhere.
fn found_in(
    rows: &dyn RowsMut,
    pipeline: PipelineId,
    containers: &[ContainerId],
) -> Result<Option<Vec<(ContainerId, ContainerRow)>>, RowsError> {
    let ids: BTreeSet<ContainerId> = containers.iter().copied().collect();
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        match tables::container(rows, id)?.filter(|row| row.pipeline == pipeline) {
            Some(row) => found.push((id, row)),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

fn carve(
    rows: &mut dyn RowsMut,
    from: PipelineId,
    epoch: Epoch,
    containers: &[ContainerId],
    members: &[NodeId],
) -> Result<Result<Reply, BlocksError>, RowsError> {
    let moved = Ok(Err(BlocksError::Moved { pipeline: from }));
    let Some(mut row) = tables::pipeline(rows, from)?.filter(|row| row.epoch == epoch) else { return moved };
    let set = match check_members(rows, members)? {
        Ok(set) => set,
        Err(refused) => return Ok(Err(refused)),
    };
    let Some(carved) = found_in(rows, from, containers)? else { return moved };
    let Some((_, first)) = carved.first() else { return moved };
    let whole = row.whole_at(first.epoch);
    if whole.is_empty() || carved.iter().any(|(_, other)| row.whole_at(other.epoch) != whole) {
        return moved;
    }
    let mut fresh = row.carved(first.epoch, set);
    fresh.container_count = carved.len() as u64;
    assert!(row.container_count >= fresh.container_count, "{from} counts {} containers", row.container_count);
    row.container_count -= fresh.container_count;
    let mut counters = tables::counters(rows)?;
    counters.pipeline += 1;
    let id = PipelineId(counters.pipeline);
    debug_assert!(matches!(tables::pipeline(rows, id), Ok(None)), "{id} is given a second time");
    tables::put_counters(rows, counters);
    tables::put_pipeline(rows, id, &fresh);
    tables::put_pipeline(rows, from, &row);
    for (container, mut carved) in carved {
        carved.carve(id);
        tables::put_container(rows, container, &carved);
    }
    Ok(Ok(Reply::Pipeline(id)))
}

impl ContainerRow {
    /// It goes into the new pipeline `id`, whole on those who were its members before.
    fn carve(&mut self, id: PipelineId) {
        (self.pipeline, self.epoch) = (id, Epoch(1));
        if self.state == ContainerState::Open {
            // New blocks go to the pipeline that it came from.
            self.state = ContainerState::Sealing;
        }
    }
}

impl PipelineRow {
    /// Members that have all of a container that was whole at this epoch.
    pub fn whole_at(&self, epoch: Epoch) -> Vec<NodeId> {
        let lacks = |id: &NodeId| self.joining.iter().any(|(joiner, joined)| joiner == id && *joined > epoch);
        self.members.iter().copied().filter(|id| !lacks(id)).collect()
    }

    /// A new set, of these members, for containers that were whole at `epoch`.
    pub fn carved(&self, epoch: Epoch, mut members: Vec<NodeId>) -> Self {
        let wanted = self.wanted;
        let mut carved = Self::new(self.whole_at(epoch), wanted, false);
        carved.former.clone_from(&self.former);
        members.sort_unstable();
        carved.set_members(members);
        carved
    }

    pub fn new(members: Vec<NodeId>, wanted: u16, planned: bool) -> Self {
        let (joining, former) = (Vec::new(), Vec::new());
        Self { epoch: Epoch(1), members, planned, wanted, joining, former, container_count: 0 }
    }

    /// `members` is sorted.
    pub fn set_members(&mut self, members: Vec<NodeId>) {
        assert!(members.is_sorted_by(|one, next| one < next), "members are a set, in order: {members:?}");
        // Who goes before all was copied holds nothing that others lack.
        let joined = |id: &NodeId| !self.joining.iter().any(|(joiner, _)| joiner == id);
        let went = self.members.iter().copied().filter(|id| members.binary_search(id).is_err() && joined(id));
        let went: Vec<NodeId> = went.collect();
        let came: Vec<NodeId> = members.iter().copied().filter(|id| self.members.binary_search(id).is_err()).collect();
        self.epoch = Epoch(self.epoch.0 + 1);
        self.joining.retain(|(id, _)| members.binary_search(id).is_ok());
        self.joining.extend(came.into_iter().map(|id| (id, self.epoch)));
        self.former.extend(went);
        self.former.retain(|id| members.binary_search(id).is_err());
        self.former.sort_unstable();
        self.former.dedup();
        if self.joining.is_empty() {
            self.former.clear();
        }
        self.members = members;
    }

    pub fn end_joining(&mut self) {
        self.joining.clear();
        self.former.clear();
    }

    /// Two sets that became the same can be one.
    pub fn can_merge(&self, into: &Self) -> bool {
        let quiet = self.joining.is_empty() && into.joining.is_empty();
        quiet && (!self.planned || into.planned) && self.members == into.members && self.wanted == into.wanted
    }
}

fn open_container(rows: &mut dyn RowsMut, pipeline: PipelineId) -> Result<Result<Reply, BlocksError>, RowsError> {
    let Some(mut row) = tables::pipeline(rows, pipeline)? else {
        return Ok(Err(BlocksError::Unknown { what: "pipeline", id: pipeline.to_string() }));
    };
    row.container_count += 1;
    tables::put_pipeline(rows, pipeline, &row);
    let mut counters = tables::counters(rows)?;
    counters.container += 1;
    let id = ContainerId(counters.container);
    // Some 9·10¹² containers of gigabytes each: the numbers outlast the disks.
    assert!(id < ContainerId::END, "container numbers are used up");
    debug_assert!(matches!(tables::container(rows, id), Ok(None)), "{id} is given a second time");
    tables::put_counters(rows, counters);
    let fresh = ContainerRow { pipeline, epoch: row.epoch, state: ContainerState::Open, leased_index_count: 0, len: 0 };
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
