//! Placement: nodes for the next block, replacements in a broken chain, and the container of a changed chain.
//!
//! Promise: a node is not chosen if it has been silent too long, is short of space, or is excluded: unless it has come
//! back since, and there is no other. A quiet node is not
//! chosen while there are enough others. Fewer nodes than asked are returned only when there are no more. A decision
//! that needs a durable change first is returned as [`Plan::Propose`]: commit it, pass it to [`Cluster::on_applied`],
//! ask again.

use crate::cluster::Cluster;
use crate::member::Member;
use crate::preallocate::lease_count;
use blocks::Command;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use types::{BlockId, ContainerId, NodeId, PipelineId, Random};

/// Pipelines looked at when the choice is free. Two are enough to keep loads even (Mitzenmacher 2001); some more so
/// that a few that lost a member do not send us over the whole list.
const SAMPLE_COUNT: usize = 8;
/// Sets of one size, for each node, beyond which no set is made just to copy less when files change their replication.
const SETS_PER_NODE: usize = 6;
/// Nodes on the client's host whose pipelines are looked at.
const LOCAL_COUNT_MAX: usize = 4;

#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub replication: u16,
    /// Space each node must have.
    pub block_len: u64,
    /// Name or address of the client's machine; `None`: no matter where.
    pub client_host: Option<String>,
    pub excluded: Vec<NodeId>,
    /// Taken if that costs nothing else.
    pub favored: Vec<NodeId>,
}

/// The next block, with the nodes in the order of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub block: BlockId,
    pub home: ContainerId,
    pub nodes: Vec<NodeId>,
}

/// Several blocks of one container, with its nodes in the order of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub blocks: Vec<BlockId>,
    pub home: ContainerId,
    pub nodes: Vec<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan<T> {
    Use(T),
    /// First put this through Raft, then ask again.
    Propose(Command),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The text is HDFS's, after the name of the file: people and tools know it.
    #[error(
        "could only be written to 0 of the 1 minReplication nodes. There are {running} datanode(s) running and {} \
         node(s) are excluded in this operation.{}", count(*.excluded), no_room
    )]
    NoNodes { running: usize, excluded: usize, no_room: NoRoom },
    #[error("datanode {0} is not known here")]
    UnknownNode(NodeId),
}

/// Nodes that would take a block if they had room for it. Clients exclude those that have just become full as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRoom {
    pub node_count: usize,
    /// Of the block.
    pub len: u64,
    /// The most that one of them has room for.
    pub free_len: u64,
}

/// Nothing where no node lacks room.
impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node_count, len, free_len } = self;
        if *node_count == 0 {
            return Ok(());
        }
        write!(
            f,
            " {node_count} of the datanodes have no room for a block of {len} bytes; the most that one has is \
             {free_len}: delete files, or add disks or datanodes."
        )
    }
}

fn count(number: usize) -> String {
    if number == 0 { "no".into() } else { number.to_string() }
}

impl Cluster {
    /// Chooses pipeline and container for a new block and takes the next of the ids in hand.
    pub fn place(&mut self, ask: &Ask, now: Duration, random: &mut dyn Random) -> Result<Plan<Allocation>, PlaceError> {
        let batch = self.place_batch(ask, 1, now, random)?;
        Ok(match batch {
            Plan::Use(Batch { blocks, home, nodes }) => Plan::Use(Allocation { block: blocks[0], home, nodes }),
            Plan::Propose(command) => Plan::Propose(command),
        })
    }

    /// As [`Cluster::place`], for up to `count` blocks that a client will write one after the other: all in one
    /// container, and at least one.
    pub fn place_batch(
        &mut self,
        ask: &Ask,
        count: u32,
        now: Duration,
        random: &mut dyn Random,
    ) -> Result<Plan<Batch>, PlaceError> {
        let count_able = |ask: &Ask| self.nodes.values().filter(|member| is_able(member, ask, now)).count();
        let excluded_count = ask.excluded.len();
        let (mut ask, mut able_count) = (Cow::Borrowed(ask), count_able(ask));
        if able_count == 0 && excluded_count > 0 {
            ask = Cow::Owned(self.readmitting(&ask, now));
            able_count = count_able(&ask);
        }
        let ask = &*ask;
        if able_count == 0 || ask.replication == 0 {
            return Err(self.no_nodes(excluded_count, ask.block_len, now));
        }
        let size = able_count.min(usize::from(ask.replication));
        let ask = &self.without_quiet(ask, now);
        let Some(id) = self.choose(size, ask, now, random) else {
            let able: Vec<NodeId> =
                self.nodes.values().filter(|member| is_able(member, ask, now)).map(|member| member.node.id).collect();
            let first = self.local_nodes(ask).find(|id| able.contains(id));
            let members = self.draw_set(size, &able, first, random);
            // Sets made for a moment's trouble are not used again when it is over, so distinct sets stay few.
            let planned = ask.excluded.is_empty() && size == usize::from(ask.replication);
            return Ok(Plan::Propose(Command::CreateSet { members, wanted: ask.replication, planned }));
        };
        let (blocks, home) = match self.next_blocks(id, ask.block_len, count) {
            Plan::Use(next) => next,
            Plan::Propose(command) => return Ok(Plan::Propose(command)),
        };
        let members = self.pipelines[&id].row.members.clone();
        let nodes = self.chain_order(&members, ask.client_host.as_deref(), random);
        for node in &nodes {
            if let Some(member) = self.nodes.get_mut(node) {
                member.placed_count = member.placed_count.saturating_add(1);
            }
        }
        Ok(Plan::Use(Batch { blocks, home, nodes }))
    }

    /// Why no node takes a block of `len` bytes.
    fn no_nodes(&self, excluded: usize, len: u64, now: Duration) -> PlaceError {
        let lacks_room = |member: &&Member| member.is_taken(now) && member.usage.free_len < len;
        let free = self.nodes.values().filter(lacks_room).map(|member| member.usage.free_len);
        let no_room = NoRoom { node_count: free.clone().count(), len, free_len: free.max().unwrap_or(0) };
        PlaceError::NoNodes { running: self.live_count(now), excluded, no_room }
    }

    /// No node can take a block, and some are to be back soon.
    pub fn is_back_soon(&self, now: Duration) -> bool {
        let mut members = self.nodes.values();
        !members.clone().any(|member| member.is_taken(now)) && members.any(Member::has_said_goodbye)
    }

    /// The same, with those excluded nodes that have come back since they may have failed: better than none.
    fn readmitting(&self, ask: &Ask, now: Duration) -> Ask {
        let is_back = |id: &NodeId| self.nodes.get(id).is_some_and(|member| member.is_back(now));
        let excluded = ask.excluded.iter().copied().filter(|id| !is_back(id)).collect();
        Ask { excluded, ..ask.clone() }
    }

    /// The same, without quiet nodes, if there are enough others.
    fn without_quiet<'a>(&self, ask: &'a Ask, now: Duration) -> Cow<'a, Ask> {
        let able = self.nodes.values().filter(|member| is_able(member, ask, now));
        let (quiet, others): (Vec<&Member>, Vec<&Member>) = able.partition(|member| member.is_quiet(now));
        let mut ask = Cow::Borrowed(ask);
        if !quiet.is_empty() && others.len() >= usize::from(ask.replication) {
            ask.to_mut().excluded.extend(quiet.into_iter().map(|member| member.node.id));
        }
        ask
    }

    /// The container whose members are exactly `nodes`, for a block that goes on there: `current` if its members are
    /// those.
    pub fn home_for(&self, nodes: &[NodeId], current: ContainerId) -> Result<Plan<ContainerId>, PlaceError> {
        let mut members = nodes.to_vec();
        members.sort_unstable();
        members.dedup();
        if let Some(unknown) = members.iter().find(|id| !self.nodes.contains_key(id)) {
            return Err(PlaceError::UnknownNode(*unknown));
        }
        if members.is_empty() {
            return Err(PlaceError::NoNodes { running: 0, excluded: 0, no_room: NoRoom::default() });
        }
        if self.member_ids(current) == members {
            return Ok(Plan::Use(current));
        }
        let wanted = self.wanted(current).max(members.len() as u16);
        let Some(id) = self.find_set(&members, wanted) else {
            return Ok(Plan::Propose(Command::CreateSet { members, wanted, planned: false }));
        };
        Ok(match self.pipelines[&id].open.last() {
            Some(home) => Plan::Use(*home),
            None => Plan::Propose(Command::OpenContainer { pipeline: id }),
        })
    }

    /// A container for a block of `current` that is to have `replication` copies: one of a set that shares as many
    /// nodes with it as can be, so that little is copied.
    pub fn home_of_size(
        &self,
        current: ContainerId,
        replication: u16,
        block_len: u64,
        now: Duration,
        random: &mut dyn Random,
    ) -> Result<Plan<ContainerId>, PlaceError> {
        let ask = Ask { replication, block_len, ..Ask::default() };
        let has = |id: &NodeId| self.is_member(current, *id) && self.is_whole(current, *id);
        // A node that has the bytes needs no room for them: fewer copies are asked for when disks are full.
        let nothing = Ask { block_len: 0, ..ask.clone() };
        let is_able = |member: &&Member| is_able(member, if has(&member.node.id) { &nothing } else { &ask }, now);
        let able: Vec<NodeId> = self.nodes.values().filter(is_able).map(|member| member.node.id).collect();
        let size = able.len().min(usize::from(replication));
        if size == 0 {
            return Err(self.no_nodes(0, block_len, now));
        }
        let holders: Vec<NodeId> = able.iter().copied().filter(has).collect();
        let sets = self.by_wanted.get(&replication).map_or(&[][..], Vec::as_slice);
        let usable = sets.iter().filter(|id| {
            let row = &self.pipelines[id].row;
            row.members.len() == size && row.joining.is_empty() && row.members.iter().all(|id| able.contains(id))
        });
        let shared = |id: &PipelineId| self.pipelines[id].row.members.iter().filter(|id| holders.contains(id)).count();
        let best = usable.copied().max_by_key(|id| (shared(id), random.next_u64()));
        let found = best.filter(|id| shared(id) == holders.len().min(size) || sets.len() > SETS_PER_NODE * able.len());
        let Some(id) = found else {
            let mut members = if holders.len() > size {
                self.draw_set(size, &holders, None, random)
            } else {
                let more = self.additional(&holders, size - holders.len(), &ask, now, random);
                holders.into_iter().chain(more).collect()
            };
            members.sort_unstable();
            return Ok(Plan::Propose(Command::CreateSet { members, wanted: replication, planned: false }));
        };
        Ok(match self.pipelines[&id].open.last() {
            Some(home) if self.containers[home].is_full(self.container_len_max) => {
                Plan::Propose(Command::Seal { container: *home, len: self.containers[home].held_len() })
            }
            Some(home) => Plan::Use(*home),
            None => Plan::Propose(Command::OpenContainer { pipeline: id }),
        })
    }

    /// Up to `count` more nodes for a chain that has `existing`. Excluded nodes that came back are taken after all
    /// others. Nodes that are not quiet come first, of those the ones that add a rack, then the idle ones.
    pub fn additional(
        &self,
        existing: &[NodeId],
        count: usize,
        ask: &Ask,
        now: Duration,
        random: &mut dyn Random,
    ) -> Vec<NodeId> {
        let mut racks: Vec<&str> =
            existing.iter().filter_map(|id| self.nodes.get(id)).map(|member| member.node.rack.as_str()).collect();
        let mut found: Vec<NodeId> = Vec::new();
        let mut readmitted = None;
        while found.len() < count {
            let ask = readmitted.as_ref().unwrap_or(ask);
            let free = self.nodes.values().filter(|member| is_able(member, ask, now));
            let free = free.filter(|member| {
                let id = &member.node.id;
                !existing.contains(id) && !found.contains(id)
            });
            let next = free.min_by_key(|member| {
                let same = racks.iter().filter(|rack| **rack == member.node.rack).count();
                (member.is_quiet(now), same, member.load(), random.next_u64())
            });
            let Some(next) = next else {
                if readmitted.is_none() && !ask.excluded.is_empty() {
                    readmitted = Some(self.readmitting(ask, now));
                    continue;
                }
                break;
            };
            racks.push(&next.node.rack);
            found.push(next.node.id);
        }
        found
    }

    /// The pipeline of `size` able nodes that suits best; `None` if there is none.
    fn choose(&self, size: usize, ask: &Ask, now: Duration, random: &mut dyn Random) -> Option<PipelineId> {
        let able = |id: &PipelineId| {
            let row = &self.pipelines[id].row;
            let mut members = row.members.iter();
            row.members.len() == size
                && row.wanted == ask.replication
                && members.all(|node| self.nodes.get(node).is_some_and(|member| is_able(member, ask, now)))
        };
        let planned = |id: &PipelineId| self.pipelines[id].row.planned;
        let wanted = self.near_nodes(ask, random);
        let near = wanted.iter().take(LOCAL_COUNT_MAX).filter_map(|node| self.by_node.get(node)).flatten().copied();
        let near: Vec<PipelineId> = near.filter(|id| planned(id) && able(id)).collect();
        if let Some(best) = self.idlest(near.into_iter(), random) {
            return Some(best);
        }
        let all = self.by_wanted.get(&ask.replication).map_or(&[][..], Vec::as_slice);
        if all.len() > SAMPLE_COUNT {
            let drawn: Vec<PipelineId> = (0..SAMPLE_COUNT).map(|_| all[random.below(all.len())]).collect();
            let drawn = drawn.into_iter().filter(|id| planned(id) && able(id));
            if let Some(best) = self.idlest(drawn, random) {
                return Some(best);
            }
        }
        let scan = all.iter().copied().filter(able);
        let (planned, others): (Vec<_>, Vec<_>) = scan.partition(planned);
        self.idlest(planned.into_iter(), random).or_else(|| self.idlest(others.into_iter(), random))
    }

    fn idlest(&self, from: impl Iterator<Item = PipelineId>, random: &mut dyn Random) -> Option<PipelineId> {
        from.min_by_key(|id| {
            let members = self.pipelines[id].row.members.iter().filter_map(|node| self.nodes.get(node));
            let busiest = members.map(|member| (member.load(), member.used_permille() / 100)).max();
            (busiest, random.next_u64())
        })
    }

    /// Those whose pipelines are looked at first: favored ones, those on the client's machine, or, if there are none,
    /// some of its rack.
    fn near_nodes(&self, ask: &Ask, random: &mut dyn Random) -> Vec<NodeId> {
        let near: Vec<NodeId> = ask.favored.iter().copied().chain(self.local_nodes(ask)).collect();
        let rack = ask.client_host.as_ref().and_then(|host| self.racks.get(host));
        let Some(rack) = rack.filter(|_| near.is_empty()) else { return near };
        let same = self.nodes.values().filter(|member| member.node.rack == *rack);
        let mut same: Vec<NodeId> = same.map(|member| member.node.id).collect();
        while same.len() > LOCAL_COUNT_MAX {
            same.swap_remove(random.below(same.len()));
        }
        same
    }

    fn local_nodes<'a>(&'a self, ask: &'a Ask) -> impl Iterator<Item = NodeId> + 'a {
        let host = ask.client_host.as_deref();
        let local = self.nodes.values().filter(move |member| host.is_some_and(|host| member.node.is_on(host)));
        local.map(|member| member.node.id)
    }

    /// The next ids of the pipeline's open container, or what must be done to have one.
    fn next_blocks(&mut self, id: PipelineId, block_len: u64, count: u32) -> Plan<(Vec<BlockId>, ContainerId)> {
        let pipeline = self.pipelines.get_mut(&id).expect("a pipeline just chosen");
        pipeline.in_use = true;
        let Some(home) = pipeline.open.last().copied() else {
            return Plan::Propose(Command::OpenContainer { pipeline: id });
        };
        let lessee = self.lessee();
        let container = self.containers.get_mut(&home).expect("open containers are mirrored");
        if container.is_full(self.container_len_max) {
            return Plan::Propose(Command::Seal { container: home, len: container.held_len() });
        }
        if container.in_hand.is_empty() {
            let (from, up_to) = (
                container.leased_index_count,
                container.leased_index_count + lease_count(container, block_len, self.container_len_max),
            );
            return Plan::Propose(Command::LeaseIndexes {
                container: home,
                from,
                up_to,
                lessee,
                len: container.held_len(),
            });
        }
        let taken = container.in_hand.by_ref().take(count.max(1) as usize);
        let blocks: Vec<BlockId> = taken.map(|index| BlockId::new(home, index)).collect();
        container.given_count += blocks.len() as u64;
        Plan::Use((blocks, home))
    }
}

pub(crate) fn is_able(member: &Member, ask: &Ask, now: Duration) -> bool {
    member.is_taken(now) && member.usage.free_len >= ask.block_len && !ask.excluded.contains(&member.node.id)
}
