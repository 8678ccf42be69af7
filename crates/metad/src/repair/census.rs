//! How many blocks have fewer copies than their files ask for, counted in one place: fsck, dfsadmin, `/metrics` and
//! `levada admin` all ask here, so they tell the same.
//!
//! ```text
//! containers with too few members that are here and have all ──┐
//! files that were given another replication ───────────────────┼──▶ their blocks' rows ──▶ holders against replication ──▶ Census
//! replicas that are lacking, damaged or lost by name ──────────┘
//! ```
//!
//! The words are HDFS's. A block is **under-replicated** if it has a sound copy on a datanode that is up, and fewer of
//! them than its file asks for, whether or not anybody can make another; **missing** if it has none; **corrupt** if a
//! copy is known to be damaged, and **pending** if one is being made. Blocks that are being written are not counted.
//!
//! Promise: of a sound store no rows are read; of a sick one, those of the sick blocks. However many ask, counting
//! takes a tenth of one thread's time at most: what was counted is told again for ten times as long as it took.

use super::rules::rules;
use crate::census_cache::{Census, LackingBlock};
use crate::core::Core;
use lead::{Cluster, LivenessRules, Member};
use namespace::BlockView;
use namespace::read::{self, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::rows::RowsError;
use types::{BlockId, ContainerId, Epoch, FileId, NodeId, PipelineId};

/// Blocks told by name, of each kind.
const NAMED_COUNT_MAX: usize = wire::admin::placement::PAGE_COUNT_MAX;
/// Rows read from one view of the store.
const PAGE_COUNT: usize = 1000;
/// Who asks has a count made that takes no longer; otherwise the last one is told.
const WAITED_FOR: Duration = Duration::from_secs(1);
/// Between counts that nobody has asked for: `/metrics` tells what was counted last.
const COUNTED_EACH: Duration = Duration::from_secs(1);

/// Counts now and then until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        let counter = Arc::clone(&core);
        if let Err(error) = io::task::blocking(move || recount(&counter)).await {
            crate::task_fault::fault(&error).await;
        }
        io::stage::sleep(COUNTED_EACH).await;
    }
}

/// The census of this moment; of a moment ago where counting takes long.
pub(crate) async fn latest(core: &Arc<Core>) -> Result<Arc<Census>, RowsError> {
    let slow = core.counted.known().filter(|last| last.took > WAITED_FOR);
    if let Some(last) = slow {
        return Ok(last.census);
    }
    let core = Arc::clone(core);
    io::task::blocking(move || recount(&core)).await
}

/// May wait for the disk.
fn recount(core: &Core) -> Result<Arc<Census>, RowsError> {
    core.counted.count(|| core.monotonic(), || count(core))
}

/// What is known to be wrong with single replicas, as of one moment.
#[derive(Debug)]
pub(crate) struct Known {
    absent: BTreeSet<(BlockId, NodeId)>,
    bad: BTreeSet<(BlockId, NodeId)>,
    missing: BTreeSet<BlockId>,
    /// Containers whose newcomers have said what they have: those who came to this pipeline up to this epoch.
    told: BTreeMap<ContainerId, (PipelineId, Epoch)>,
    pub(crate) pending: u64,
}

impl Known {
    pub(crate) fn of(core: &Core) -> Self {
        let leader = core.leader();
        let repair = &leader.repair;
        Self {
            absent: repair.absent().collect(),
            bad: repair.bad().collect(),
            missing: repair.missing().map(|lost| lost.block).collect(),
            told: repair.told().collect(),
            pending: repair.pending_count() as u64,
        }
    }

    /// Nodes that are here with a sound replica.
    pub(crate) fn holders(&self, core: &Core, view: &BlockView) -> Vec<NodeId> {
        let rules = rules(core);
        core.with_cluster(|cluster, _| self.holders_in(cluster, &rules, view).collect())
    }

    fn holders_in<'a>(
        &'a self,
        cluster: &'a Cluster,
        rules: &'a LivenessRules,
        view: &'a BlockView,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let is_sound = |id: &NodeId| {
            let replica = (view.block, *id);
            !self.missing.contains(&view.block) && !self.absent.contains(&replica) && !self.bad.contains(&replica)
        };
        self.having(cluster, rules, view.home).filter(is_sound)
    }

    /// Members of a container that are here, and have of it what they did not say to lack.
    fn having<'a>(
        &'a self,
        cluster: &'a Cluster,
        rules: &'a LivenessRules,
        home: ContainerId,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let pipeline = cluster.container(home).map(|container| container.pipeline);
        let told = self.told.get(&home).filter(|(of, _)| Some(*of) == pipeline).map(|(_, epoch)| *epoch);
        let has_full_catalogue = move |joined: Epoch| told.is_some_and(|told| told >= joined);
        let members = cluster.member_ids(home).iter().copied();
        members
            .filter(move |id| cluster.node(*id).is_some_and(|member| is_here(member, rules)))
            .filter(move |id| cluster.joined(home, *id).is_none_or(has_full_catalogue))
    }

    /// Containers whose blocks all have too few copies, or may have. Only those of pipelines that are not as they
    /// should be are looked at, one pipeline at a time.
    fn short_containers(&self, core: &Core) -> BTreeSet<ContainerId> {
        let rules = rules(core);
        let doubtful = core.with_cluster(|cluster, _| cluster.doubtful_pipelines(|member| is_here(member, &rules)));
        let short = |id: PipelineId| {
            core.with_cluster(|cluster, _| {
                let wanted = cluster.pipeline(id).map_or(1, |known| known.row.wanted);
                let has_few = |home: &ContainerId| self.having(cluster, &rules, *home).count() < usize::from(wanted);
                cluster.containers_of(id).filter(has_few).collect::<Vec<_>>()
            })
        };
        doubtful.into_iter().flat_map(short).collect()
    }

    pub(crate) fn bad_on(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        let all = (block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]));
        self.bad.range(all).map(|(_, node)| *node)
    }

    pub(crate) fn is_damaged(&self, block: BlockId) -> bool {
        self.bad_on(block).next().is_some()
    }

    /// Blocks of which not every member may have a sound replica.
    pub(crate) fn blocks(&self) -> BTreeSet<BlockId> {
        let replicas = self.absent.iter().chain(&self.bad).map(|(block, _)| *block);
        replicas.chain(self.missing.iter().copied()).collect()
    }

    pub(crate) fn without_sound(&self) -> BTreeSet<BlockId> {
        self.missing.iter().copied().chain(self.bad.iter().map(|(block, _)| *block)).collect()
    }
}

/// Right after a leader began it has heard nobody yet, and says nothing of silences.
fn is_here(member: &Member, rules: &LivenessRules) -> bool {
    member.is_live(rules.now) || member.seen().is_none() && !rules.can_tell()
}

/// What a count has come to so far.
struct Count<'a> {
    core: &'a Core,
    known: Known,
    rules: LivenessRules,
    /// Of the files met.
    replication: BTreeMap<FileId, u16>,
    /// Containers that are looked through as a whole, and blocks counted by themselves: none is counted twice.
    whole: BTreeSet<ContainerId>,
    single: BTreeSet<BlockId>,
    census: Census,
    missing: Vec<LackingBlock>,
    short: Vec<LackingBlock>,
}

fn count(core: &Core) -> Result<Census, RowsError> {
    let known = Known::of(core);
    let census = Census { pending: known.pending, ..Census::default() };
    let mut count = Count {
        core,
        rules: rules(core),
        replication: BTreeMap::new(),
        whole: known.short_containers(core),
        single: BTreeSet::new(),
        census,
        missing: Vec::new(),
        short: Vec::new(),
        known,
    };
    count.containers()?;
    count.resized()?;
    count.singles()?;
    let Count { mut census, mut missing, short, .. } = count;
    missing.extend(short);
    census.named = missing;
    Ok(census)
}

impl Count<'_> {
    fn containers(&mut self) -> Result<(), RowsError> {
        for home in self.whole.clone() {
            let mut place = Some(Place::start(home));
            while let Some(from) = place {
                let page = read::container_page(&self.core.machine.store().view(), home, from, PAGE_COUNT)?;
                place = page.next;
                page.blocks.iter().try_for_each(|view| self.block(view))?;
            }
        }
        Ok(())
    }

    /// Until a file's blocks have moved to where as many are held as it asks for, their container says nothing of them.
    fn resized(&mut self) -> Result<(), RowsError> {
        let mut after = None;
        loop {
            let files = read::resized_files(&self.core.machine.store().view(), after, PAGE_COUNT)?;
            for file in &files {
                let mut offset = Some(0);
                while let Some(from) = offset {
                    let found = read::file_replicas(&self.core.machine.store().view(), *file, from, PAGE_COUNT)?;
                    let Some(found) = found else { break };
                    self.replication.insert(*file, found.replication);
                    offset = found.next_offset;
                    found.blocks.iter().try_for_each(|view| self.single(view))?;
                }
            }
            match files.last() {
                Some(last) if files.len() == PAGE_COUNT => after = Some(*last),
                _ => return Ok(()),
            }
        }
    }

    fn singles(&mut self) -> Result<(), RowsError> {
        for block in self.known.blocks() {
            let found = read::file_of_block(&self.core.machine.store().view(), block)?;
            if let Some((_, view)) = found {
                self.single(&view)?;
                self.census.corrupt += u64::from(self.known.is_damaged(block));
            }
        }
        Ok(())
    }

    /// One that may have been counted before, with its container or by itself.
    fn single(&mut self, view: &BlockView) -> Result<(), RowsError> {
        if !view.complete || self.whole.contains(&view.home) || !self.single.insert(view.block) {
            return Ok(());
        }
        self.block(view)
    }

    fn block(&mut self, view: &BlockView) -> Result<(), RowsError> {
        let wanted = self.wanted(view.file)?;
        let held = |cluster: &mut Cluster| self.known.holders_in(cluster, &self.rules, view).count() as u16;
        let live = self.core.with_cluster(|cluster, _| held(cluster));
        let poor = LackingBlock { view: *view, live, wanted };
        let (count, named) = match live {
            0 => (&mut self.census.missing, &mut self.missing),
            live if live < wanted => (&mut self.census.under_replicated, &mut self.short),
            _ => return Ok(()),
        };
        *count += 1;
        if named.len() < NAMED_COUNT_MAX {
            named.push(poor);
        }
        if live == 0 {
            self.census.missing_alone += u64::from(wanted <= 1);
        } else {
            self.census.missing_replicas += u64::from(wanted - live);
        }
        Ok(())
    }

    fn wanted(&mut self, file: FileId) -> Result<u16, RowsError> {
        if let Some(known) = self.replication.get(&file) {
            return Ok(*known);
        }
        let wanted = read::replication(&self.core.machine.store().view(), file)?.unwrap_or_default();
        // A store of many small files: those met a moment ago are asked for again.
        if self.replication.len() >= PAGE_COUNT {
            self.replication.clear();
        }
        self.replication.insert(file, wanted);
        Ok(wanted)
    }
}
