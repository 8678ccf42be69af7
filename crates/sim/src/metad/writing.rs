//! Calls of writers.

use super::compare::expected;
use super::{Answer, LEASE_SOFT, Located, Metad, Refused};
use crate::world::Mutation;
use lead::{Allocation, Ask, Cluster};
use namespace::{
    AbandonBlock, AddBlock, Allocated, Append, BeginRecovery, BlockRef, BlockView, BumpGeneration, Caller, Complete,
    Create, RECOVERY_HOLDER, Recovery, RecoveryTarget, RetryKey, Status, Truncate, UpdatePipeline, read,
};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, Generation, NodeId};

const ENDED_WAIT: Duration = Duration::from_millis(800);
const PAGE_COUNT: usize = 1000;

/// How a new file is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) overwrite: bool,
    pub(crate) mode: u16,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
}

impl Metad {
    pub(super) fn silent_holder(&self, path: &FsPath) -> Option<String> {
        let holder = read::holder_of(&*self.group.rows(), path).expect("memory can be read");
        let holder = holder.filter(|holder| !holder.recovering).map(|holder| holder.holder);
        holder.filter(|holder| self.leases.borrow().is_silent(holder, self.now(), LEASE_SOFT))
    }

    pub(crate) async fn create(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
        wish: Wish,
    ) -> Answer<Status> {
        let Wish { overwrite, mode, replication, block_len } = wish;
        self.group.read_barrier().await?;
        let create = Create {
            takeover: self.silent_holder(&path),
            path,
            client: client.clone(),
            client_host: client.clone(),
            mode,
            unmasked: None,
            create: true,
            overwrite,
            create_parent: true,
            replication,
            block_len,
            block_len_min: 1,
        };
        self.leases.borrow_mut().asks(&client);
        let changed = self.change(Some(retry), create).await;
        self.leases.borrow_mut().answered(&client, true, self.now());
        match changed? {
            namespace::Reply::Status(status) => Ok(status),
            namespace::Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }

    /// The last block, which is whole, and the length.
    pub(crate) async fn append(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
    ) -> Answer<(Option<BlockView>, Status)> {
        self.group.read_barrier().await?;
        let append = Append {
            takeover: self.silent_holder(&path),
            path: path.clone(),
            client: client.clone(),
            client_host: client.clone(),
            new_block: true,
        };
        self.leases.borrow_mut().asks(&client);
        let changed = self.change(Some(retry), append).await;
        self.leases.borrow_mut().answered(&client, true, self.now());
        match changed? {
            namespace::Reply::Append { last, status } => {
                let located = read::located(&*self.group.rows(), &Caller::system(), &path, 0, 0);
                let last = last.or(located.expect("memory can be read").ok().and_then(|file| file.last));
                Ok((last, status))
            }
            namespace::Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }

    pub(super) fn wait_for(self: &Rc<Self>, recovery: Recovery) -> Refused {
        if let Recovery::Started { file, last, generation, .. } = recovery {
            self.start_recovery(file, last, generation);
        }
        Refused::RecoveryInProgress
    }

    pub(crate) async fn add_block(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        previous: Option<BlockRef>,
        excluded: Vec<NodeId>,
    ) -> Answer<Located> {
        self.group.read_barrier().await?;
        let plan =
            read::plan_block(&*self.group.rows(), &Caller::system(), &path, Some(file), &client, previous.as_ref());
        let plan = plan.expect("memory can be read").map_err(Refused::Namespace)?;
        if let Some(view) = plan.existing {
            return self.locate(view, true);
        }
        let ask = Ask { replication: plan.replication, block_len: plan.block_len, excluded, ..Ask::default() };
        self.nodes_arrived(plan.replication).await?;
        let allocation: Allocation = self.decide(|cluster, random| cluster.place(&ask, self.sim.now(), random)).await?;
        let allocated = Allocated { block: allocation.block, home: allocation.home };
        let reply = self.change(None, AddBlock { path, client, file: Some(file), previous, allocated }).await?;
        let namespace::Reply::Block(view) = reply else { return Err(Refused::Odd) };
        if view.block == allocation.block {
            Ok(Located { view, nodes: allocation.nodes })
        } else {
            self.locate(view, true)
        }
    }

    pub(crate) async fn abandon(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        block: BlockId,
    ) -> Answer<()> {
        self.change(None, AbandonBlock { path, client, file: Some(file), block }).await.map(|_| ())
    }

    pub(crate) async fn bump(self: Rc<Self>, client: String, block: BlockId) -> Answer<(Generation, BlockView)> {
        let reply = self.change(None, BumpGeneration { block, client }).await?;
        let namespace::Reply::Generation(generation) = reply else { return Err(Refused::Odd) };
        let found = read::file_of_block(&*self.group.rows(), block).expect("memory can be read");
        found.map(|(_, view)| (generation, view)).ok_or(Refused::Odd)
    }

    pub(crate) async fn update_pipeline(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        old: BlockRef,
        new: BlockRef,
        nodes: Vec<NodeId>,
    ) -> Answer<()> {
        self.group.read_barrier().await?;
        let current = read::written_block(&*self.group.rows(), old.block, &client);
        let written = current.expect("memory can be read").map_err(Refused::Namespace)?;
        let current = written.home;
        if self.with_cluster(|cluster, _| cluster.needs_set(&nodes, current))? {
            // Clients here go on with nodes that they were given: a refusal is a fault.
            if let Err(refused) = self.chain_sets.borrow_mut().spend(written.file, self.now()) {
                self.world.fail(|| format!("an honest writer of {} is refused: {refused}", new.block));
            }
        }
        if self.world.mutation == Some(Mutation::RefuseStrangers) {
            let is_stranger = |cluster: &Cluster, node: &NodeId| !cluster.may_hold(current, *node);
            let strangers = |cluster: &mut Cluster| nodes.iter().copied().find(|node| is_stranger(cluster, node));
            if let Some(stranger) = self.with_cluster(|cluster, _| strangers(cluster))? {
                self.world.fail(|| format!("an honest writer of {} is refused: {stranger} is no member", new.block));
            }
        }
        let found = self.decide(|cluster, _| cluster.home_for(&nodes, current)).await?;
        let home = (found != current).then_some(found);
        let (block, len) = (new.block, new.len);
        let update = UpdatePipeline { client, block, old: old.generation, new: new.generation, len, home };
        self.change(Some(retry), update).await.map(|_| ())
    }

    pub(crate) async fn complete(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        last: Option<BlockRef>,
    ) -> Answer<bool> {
        let before = last.and_then(|last| self.view_of(last.block));
        let seen = match last.zip(before) {
            Some((last, before)) => self.is_seen(&client, last, before).await?,
            None => false,
        };
        match self.change(None, Complete { path, client, file: Some(file), last, seen }).await? {
            namespace::Reply::Bool(done) => Ok(done),
            _ => Err(Refused::Odd),
        }
    }

    /// Whether the block is said to be longer than the blocks of its file, and a datanode has it whole at that length.
    async fn is_seen(self: &Rc<Self>, client: &str, claim: BlockRef, before: BlockView) -> Answer<bool> {
        if self.world.mutation == Some(Mutation::BelieveLengths) {
            return Ok(true);
        }
        let BlockRef { block, generation, len } = claim;
        if !read::is_outgrown(&*self.group.rows(), &before, client, len).expect("memory can be read") {
            return Ok(false);
        }
        let members = self.with_cluster(|cluster, _| cluster.member_ids(before.home).to_vec())?;
        let wanted = expected(&BlockView { block, generation, len, ..before });
        Ok(self.answers(&[wanted], &members).await.is_any_fit(0))
    }

    pub(crate) async fn fsync(self: Rc<Self>, client: String, path: FsPath, file: FileId) -> Answer<()> {
        self.group.read_barrier().await?;
        let writing = read::writing(&*self.group.rows(), &Caller::system(), &path, Some(file), &client);
        writing.expect("memory can be read").map_err(Refused::Namespace).map(|_| ())
    }

    pub(crate) async fn renew(self: Rc<Self>, client: String) -> Answer<()> {
        if self.group.reign().is_none() {
            return Err(Refused::Standby);
        }
        self.leases.borrow_mut().renew(&client, self.now());
        self.leased.borrow_mut().renew(&client, self.now());
        Ok(())
    }

    pub(crate) async fn recover_lease(self: Rc<Self>, path: FsPath) -> Answer<bool> {
        self.group.read_barrier().await?;
        let holder = read::holder_of(&*self.group.rows(), &path).expect("memory can be read");
        if holder.is_some_and(|holder| holder.recovering && self.recoveries.borrow().contains_key(&holder.file)) {
            return Ok(false);
        }
        let begin = BeginRecovery { target: RecoveryTarget::Path(path), holder: None };
        match self.change(None, begin).await? {
            namespace::Reply::Recovery(Recovery::Started { file, last, generation, .. }) => {
                self.start_recovery(file, last, generation);
                let ended = async {
                    while self.recoveries.borrow().contains_key(&file) {
                        self.recovery_ended.notified().await;
                    }
                };
                let ended = self.sim.timeout(ENDED_WAIT, ended).await.is_some();
                let open = read::lease_files(&*self.group.rows(), RECOVERY_HOLDER, None, PAGE_COUNT);
                Ok(ended && !open.expect("memory can be read").contains(&file))
            }
            namespace::Reply::Recovery(Recovery::Closed { .. }) => Ok(true),
            _ => Ok(false),
        }
    }

    /// False: the last block is still being cut, and the file open until it is.
    pub(crate) async fn truncate(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
        len: u64,
    ) -> Answer<bool> {
        self.group.read_barrier().await?;
        let takeover = self.silent_holder(&path);
        let truncate = Truncate { path, len, client: client.clone(), client_host: client, takeover };
        match self.change(Some(retry), truncate).await? {
            namespace::Reply::Bool(done) => Ok(done),
            namespace::Reply::Cutting { file, last, generation } => {
                self.start_recovery(file, last, generation);
                Ok(false)
            }
            namespace::Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }
}
