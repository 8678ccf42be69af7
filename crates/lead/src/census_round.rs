//! The one count of blocks that have fewer copies than their files ask for. Every report to users comes from it.
//!
//! ```text
//! containers with too few whole live members ───────┐
//! files whose replication was changed ──────────────┼──▶ their blocks' rows ──▶ holders against replication ──▶ Census
//! replicas known to be lacking, damaged or lost ────┘
//! ```
//!
//! The terms are HDFS's.
//!
//! - **under-replicated**: the block has a sound copy on a live datanode, but fewer than its file asks for. It counts
//!   even if no further copy can be made.
//! - **missing**: it has no sound copy on a live datanode.
//! - **corrupt**: a copy is known to be damaged.
//! - **pending**: a copy is being made.
//!
//! Blocks that are being written are not counted.
//!
//! Promise: in a sound store no rows of blocks are read; otherwise only the rows of the blocks concerned. Each step and
//! each read is bounded, no block is counted twice, and a step reads no rows.

use crate::census::{Census, LackingBlock};
use crate::cluster::Cluster;
use crate::liveness::LivenessRules;
use crate::repair::Repair;
use crate::unsound_replicas::{UnsoundReplicas, is_here};
use namespace::BlockView;
use namespace::read::{self, Place};
use std::collections::{BTreeMap, BTreeSet};
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, PipelineId};

/// Blocks listed by name, of each kind: a page of an administrator's list.
const NAMED_COUNT_MAX: usize = 1000;
/// Rows of one read, and blocks of one step.
const PAGE_COUNT: usize = 1000;

/// A count under way: [`Self::step`] and [`Self::read`] in turn, until all was counted.
#[derive(Debug)]
pub struct CensusRound {
    known: UnsoundReplicas,
    rules: LivenessRules,
    next: Next,
    /// Blocks that were read, and how many copies their files ask for.
    page: Vec<(BlockView, u16)>,
    /// Of the files met.
    replication: BTreeMap<FileId, u16>,
    /// Containers that are looked through as a whole, and blocks counted by themselves: none is counted twice.
    whole: BTreeSet<ContainerId>,
    single: BTreeSet<BlockId>,
    census: Census,
    missing: Vec<LackingBlock>,
    short: Vec<LackingBlock>,
}

/// What is looked at next.
#[derive(Debug)]
enum Next {
    /// Pipelines that are not as they should be: their containers may be short.
    Pipelines(BTreeSet<PipelineId>),
    /// A page of a container that is short as a whole.
    Container(ContainerId, Place),
    /// Files whose blocks are to move to where as many are held as they ask for; until then their containers say
    /// nothing of them.
    Resized {
        after: Option<FileId>,
    },
    /// Blocks of the first of these files from an offset on.
    ResizedFile {
        files: Vec<FileId>,
        offset: u64,
    },
    /// Blocks that have unsound replicas.
    Singles(std::collections::btree_set::IntoIter<BlockId>),
    Nothing,
}

impl CensusRound {
    pub fn begin(cluster: &Cluster, repair: &Repair, rules: LivenessRules) -> Self {
        let known = UnsoundReplicas::of(repair);
        let doubtful = cluster.doubtful_pipelines(|member| is_here(member, &rules));
        Self {
            rules,
            next: Next::Pipelines(doubtful),
            page: Vec::new(),
            replication: BTreeMap::new(),
            whole: BTreeSet::new(),
            single: BTreeSet::new(),
            census: Census { pending: known.pending_count, ..Census::default() },
            missing: Vec::new(),
            short: Vec::new(),
            known,
        }
    }

    /// Counts what was read. False: all was counted.
    pub fn step(&mut self, cluster: &Cluster) -> bool {
        assert!(self.page.len() <= PAGE_COUNT, "{} blocks in one step", self.page.len());
        for (view, wanted) in std::mem::take(&mut self.page) {
            self.count(cluster, view, wanted);
        }
        if let Next::Pipelines(left) = &mut self.next {
            match left.pop_first() {
                Some(pipeline) => self.whole.extend(self.known.short_containers(cluster, &self.rules, pipeline)),
                None => self.next = self.container_after(None),
            }
        }
        !matches!(self.next, Next::Nothing)
    }

    /// Reads what the next step counts. May wait for a disk.
    pub fn read(&mut self, rows: &dyn Rows) -> Result<(), RowsError> {
        assert!(self.page.is_empty(), "{} blocks were read, and not counted", self.page.len());
        match std::mem::replace(&mut self.next, Next::Nothing) {
            pipelines @ Next::Pipelines(_) => self.next = pipelines,
            Next::Container(home, from) => {
                let page = read::container_page(rows, home, from, PAGE_COUNT)?;
                for view in page.blocks {
                    let wanted = self.wanted(rows, view.file)?;
                    self.page.push((view, wanted));
                }
                self.next = match page.next {
                    Some(place) => Next::Container(home, place),
                    None => self.container_after(Some(home)),
                };
            }
            Next::Resized { after } => {
                let mut files = read::resized_files(rows, after, PAGE_COUNT)?;
                files.reverse();
                self.next = match files.is_empty() {
                    true => Next::Singles(self.known.blocks().into_iter()),
                    false => Next::ResizedFile { files, offset: 0 },
                };
            }
            Next::ResizedFile { mut files, offset } => {
                let file = *files.last().expect("a file that is looked at");
                let found = read::file_replicas(rows, file, offset, PAGE_COUNT)?;
                let next = found.as_ref().and_then(|found| found.next_offset);
                if let Some(found) = found {
                    for view in found.blocks {
                        self.single(view, found.replication);
                    }
                }
                if next.is_none() {
                    files.pop();
                }
                self.next = match files.is_empty() {
                    true => Next::Resized { after: Some(file) },
                    false => Next::ResizedFile { files, offset: next.unwrap_or(0) },
                };
            }
            Next::Singles(mut left) => {
                for block in left.by_ref().take(PAGE_COUNT) {
                    if let Some((_, view)) = read::file_of_block(rows, block)? {
                        let wanted = self.wanted(rows, view.file)?;
                        self.single(view, wanted);
                        self.census.corrupt += u64::from(self.known.is_damaged(block));
                    }
                }
                self.next = if left.len() == 0 { Next::Nothing } else { Next::Singles(left) };
            }
            Next::Nothing => {}
        }
        Ok(())
    }

    /// All was counted.
    pub fn end(self) -> Census {
        assert!(matches!(self.next, Next::Nothing) && self.page.is_empty(), "it was not counted to its end");
        let Self { mut census, mut missing, short, .. } = self;
        missing.extend(short);
        census.named = missing;
        census
    }

    fn container_after(&self, home: Option<ContainerId>) -> Next {
        let from = ContainerId(home.map_or(0, |home| home.0 + 1));
        let next = self.whole.range(from..).next();
        next.map_or(Next::Resized { after: None }, |home| Next::Container(*home, Place::start(*home)))
    }

    /// One that may have been counted before, with its container or by itself.
    fn single(&mut self, view: BlockView, wanted: u16) {
        if view.complete && !self.whole.contains(&view.home) && self.single.insert(view.block) {
            self.page.push((view, wanted));
        }
    }

    fn count(&mut self, cluster: &Cluster, view: BlockView, wanted: u16) {
        let live = self.known.holders(cluster, &self.rules, &view).count() as u16;
        let (count, named) = match live {
            0 => (&mut self.census.missing, &mut self.missing),
            live if live < wanted => (&mut self.census.under_replicated, &mut self.short),
            _ => return,
        };
        *count += 1;
        if named.len() < NAMED_COUNT_MAX {
            named.push(LackingBlock { view, live, wanted });
        }
        if live == 0 {
            self.census.missing_alone += u64::from(wanted <= 1);
        } else {
            self.census.missing_replicas += u64::from(wanted - live);
        }
    }

    fn wanted(&mut self, rows: &dyn Rows, file: FileId) -> Result<u16, RowsError> {
        if let Some(known) = self.replication.get(&file) {
            return Ok(*known);
        }
        let wanted = read::replication(rows, file)?.unwrap_or_default();
        // A store of many small files: those met a moment ago are asked for again.
        if self.replication.len() >= PAGE_COUNT {
            self.replication.clear();
        }
        self.replication.insert(file, wanted);
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Leader;
    use crate::leader::tests::{HOME, block, leader, node, rules};
    use namespace::{
        AddBlock, Allocated, BlockRef, Caller, Complete, Create, Format, Op, Reply, Request, SetReplication, apply,
    };
    use types::rows::MemoryRows;
    use types::{FsPath, Generation, Millis};

    fn run(rows: &mut MemoryRows, op: impl Into<Op>) -> Reply {
        let request = Request { now: Millis(1), caller: Caller::system(), retry: None, op: op.into() };
        apply(rows, &request).unwrap().unwrap().reply
    }

    fn path() -> FsPath {
        FsPath::parse("/f").unwrap()
    }

    /// A file of three blocks that asks for two copies; nodes 1 and 2 hold its container.
    fn rows() -> MemoryRows {
        let (mut rows, mut previous) = (MemoryRows::default(), None);
        let create = Create {
            path: path(),
            client: "writer".into(),
            client_host: "here".into(),
            mode: 0o644,
            unmasked: None,
            create: true,
            overwrite: false,
            create_parent: true,
            replication: 2,
            block_len: 1 << 20,
            block_len_min: 1 << 20,
            takeover: None,
        };
        run(&mut rows, Format { owner: "owner".into(), group: "group".into() });
        run(&mut rows, create);
        for index in 1..=3 {
            let allocated = Allocated { block: block(index), home: HOME };
            let add = AddBlock { path: path(), client: "writer".into(), file: None, previous, allocated };
            let Reply::Block(view) = run(&mut rows, add) else { panic!("no block") };
            previous = Some(BlockRef { block: view.block, generation: view.generation, len: 1 << 20 });
        }
        let complete = Complete { path: path(), client: "writer".into(), file: None, last: previous, seen: false };
        run(&mut rows, complete);
        rows
    }

    fn count(rows: &MemoryRows, leader: &Leader, rules: LivenessRules) -> Census {
        let mut round = CensusRound::begin(&leader.cluster, &leader.repair, rules);
        while round.step(&leader.cluster) {
            round.read(rows).unwrap();
        }
        round.end()
    }

    fn names(census: &Census) -> Vec<(BlockId, u16)> {
        census.named.iter().map(|poor| (poor.view.block, poor.live)).collect()
    }

    #[test]
    fn of_single_blocks_those_without_sound_copies_come_first() {
        let (rows, mut leader) = (rows(), leader());
        assert_eq!(count(&rows, &leader, rules()), Census::default());
        leader.repair.on_bad(block(1), node(1), Generation(5));
        leader.repair.on_bad(block(3), node(1), Generation(5));
        leader.repair.on_bad(block(3), node(2), Generation(5));
        leader.repair.on_bad(block(9), node(1), Generation(5));
        let census = count(&rows, &leader, rules());
        assert_eq!((census.under_replicated, census.missing_replicas, census.missing, census.corrupt), (1, 1, 1, 2));
        assert_eq!(names(&census), [(block(3), 0), (block(1), 1)], "no file has the block 9");
    }

    /// One of its members is down, and one replica of the other is damaged: no block is counted twice.
    #[test]
    fn blocks_of_a_container_with_too_few_members_are_counted_once() {
        let (rows, mut leader) = (rows(), leader());
        let later = LivenessRules { now: rules().now + crate::SILENCE_MAX * 2, ..rules() };
        leader.cluster.on_message(later.now, node(1));
        leader.repair.on_bad(block(2), node(1), Generation(5));
        let census = count(&rows, &leader, later);
        assert_eq!((census.under_replicated, census.missing_replicas, census.missing, census.corrupt), (2, 2, 1, 1));
        assert_eq!(names(&census), [(block(2), 0), (block(1), 1), (block(3), 1)]);
    }

    /// Its container has as many members as it should have, and the file asks for more.
    #[test]
    fn blocks_of_a_file_that_asks_for_more_copies_lack_them() {
        let (mut rows, leader) = (rows(), leader());
        run(&mut rows, SetReplication { path: path(), replication: 3 });
        let census = count(&rows, &leader, rules());
        assert_eq!((census.under_replicated, census.missing_replicas, census.named.len()), (3, 3, 3));
    }
}
