//! Blocks on lease, and small files put whole; as `metad`'s own protocol has it.

use super::{Answer, Metad, Refused};
use lead::{Ask, Batch};
use lead::{Grant, LeaseRefused, LeasedHome, PutFate};
use namespace::{
    AddBlock, AddLeased, Allocated, BlockRef, Caller, Create, NsError, Op, PutBlock, PutFile, Reply, Reserve, RetryKey,
    read,
};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use types::{BlockId, FileId, FsPath, Generation, NodeId};

const RESERVE_COUNT: u32 = 4096;
const RESERVE_ATTEMPTS: usize = 8;
/// All clients count as one host.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The name under which the call's outcome is kept.
const PUT_FILE: &str = "putFile";

/// Blocks of one answer, the oldest in front.
#[derive(Clone, Debug)]
pub(crate) struct LeasedBlocks {
    pub(crate) grants: Vec<Grant>,
    pub(crate) generation: Generation,
    pub(crate) nodes: Vec<NodeId>,
}

/// Which blocks a client wants on lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseAsk {
    pub(crate) holder: String,
    pub(crate) replication: u16,
    pub(crate) count: u32,
    pub(crate) excluded: Vec<NodeId>,
    pub(crate) returned: Vec<BlockId>,
    /// For this open file; for new ones if there is none.
    pub(crate) open: Option<FileId>,
}

/// A small file, as its client asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) path: FsPath,
    pub(crate) holder: String,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
    pub(crate) grant: Grant,
    pub(crate) generation: Generation,
    pub(crate) len: u64,
    /// Not all of its nodes have said that they put the block.
    pub(crate) short: bool,
}

/// A block that is being put. It counts as on lease until the log says what became of the put, also where nobody waits
/// for that.
struct Held<'a> {
    metad: &'a Metad,
    block: BlockId,
    number: u64,
    fate: PutFate,
}

impl<'a> Held<'a> {
    fn begin(metad: &'a Metad, holder: &str, grant: Grant, is_short: bool) -> Result<(Self, LeasedHome), LeaseRefused> {
        let mut leased = metad.leased.borrow_mut();
        let home = leased.begin_put(holder, grant, is_short, metad.now())?;
        let number = leased.last_put();
        Ok((Self { metad, block: grant.block, number, fate: PutFate::NotProposed }, home))
    }

    async fn change(&mut self, retry: Option<RetryKey>, op: impl Into<Op>) -> Answer<Reply> {
        self.fate = PutFate::InDoubt;
        let changed = self.metad.change(retry, op).await;
        if !matches!(changed, Err(Refused::Standby)) {
            self.fate = PutFate::Decided;
        }
        changed
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.metad.leased.borrow_mut().leave_put(self.block, self.number, self.fate);
    }
}

impl Metad {
    pub(crate) async fn lease_blocks(self: Rc<Self>, asked: LeaseAsk) -> Answer<LeasedBlocks> {
        let LeaseAsk { holder, replication, count, excluded, returned, open } = asked;
        self.group.read_barrier().await?;
        self.leased.borrow_mut().give_back(&holder, returned.into_iter());
        let ask = Ask { replication, block_len: 1, excluded, ..Ask::default() };
        self.nodes_arrived(replication).await?;
        let Batch { blocks, home, nodes } =
            self.decide(|cluster, random| cluster.place_batch(&ask, count, self.now(), random)).await?;
        let set = self.with_cluster(|cluster, _| cluster.set_of(home, &nodes))?;
        let place = LeasedHome { container: home, set };
        for _ in 0..RESERVE_ATTEMPTS {
            match self.leased.borrow_mut().grant(&holder, HOST, place, &blocks, open, self.now()) {
                Ok((grants, generation)) => return Ok(LeasedBlocks { grants, generation, nodes }),
                Err(LeaseRefused::NoIds) => {}
                Err(_) => return Err(Refused::Odd),
            }
            self.reserve(if open.is_some() { 1 } else { blocks.len() }).await?;
        }
        Err(Refused::Odd)
    }

    async fn reserve(&self, count: usize) -> Answer<()> {
        let lock = self.planning.borrow().clone();
        let _planning = lock.lock().await;
        if self.leased.borrow().has_files(count) {
            return Ok(());
        }
        match self.change(None, Reserve { count: RESERVE_COUNT }).await? {
            Reply::Reserved { first, generation } => {
                self.leased.borrow_mut().reserved(first, RESERVE_COUNT, generation);
                Ok(())
            }
            _ => Err(Refused::Odd),
        }
    }

    /// The file's id.
    pub(crate) async fn put_file(self: Rc<Self>, retry: RetryKey, put: Put) -> Answer<FileId> {
        self.group.read_barrier().await?;
        let Put { path, holder, replication, block_len, grant, generation, len, short } = put;
        let create = Create {
            takeover: self.silent_holder(&path),
            path,
            client: holder.clone(),
            client_host: holder.clone(),
            mode: 0o644,
            unmasked: None,
            create: true,
            overwrite: false,
            create_parent: true,
            replication,
            block_len,
            block_len_min: 1,
        };
        let Ok((mut held, LeasedHome { container: home, .. })) = Held::begin(&self, &holder, grant, short) else {
            // An earlier attempt at this call has put the file: its lease ended with that, but its answer got lost.
            let outcome = read::outcome(&*self.group.rows(), retry, PUT_FILE, self.wall()).expect("memory can be read");
            if let Some(Reply::Status(status)) = outcome {
                return Ok(status.id);
            }
            return Err(Refused::Namespace(NsError::LeaseExpired(format!("{:?} is not on lease", grant.block))));
        };
        if !self.with_cluster(|cluster, _| cluster.was_given_out(grant.block))? {
            return Err(Refused::Odd);
        }
        let block = PutBlock { file: grant.file, block: grant.block, generation, len, home };
        match held.change(Some(retry), PutFile { create, block: Some(block) }).await? {
            Reply::Status(status) => Ok(status.id),
            Reply::Recovery(recovery) => Err(self.wait_for(recovery)),
            _ => Err(Refused::Odd),
        }
    }

    /// A block that was on lease becomes the next of its file.
    pub(crate) async fn add_leased(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        previous: Option<BlockRef>,
        block: BlockId,
        generation: Generation,
    ) -> Answer<()> {
        self.group.read_barrier().await?;
        let plan =
            read::plan_block(&*self.group.rows(), &Caller::system(), &path, Some(file), &client, previous.as_ref());
        let plan = plan.expect("memory can be read").map_err(Refused::Namespace)?;
        if plan.existing.is_some_and(|view| view.block == block) {
            return Ok(()); // the call before this one was well, its answer got lost
        }
        let held = Held::begin(&self, &client, Grant { block, file }, false);
        let (mut held, LeasedHome { container: home, .. }) = held.map_err(|_| {
            Refused::Namespace(NsError::LeaseExpired(format!("{block:?} is not on lease to {client} for {file}")))
        })?;
        if !self.with_cluster(|cluster, _| cluster.was_given_out(block))? {
            return Err(Refused::Odd);
        }
        let add = AddBlock { path, client, file: Some(file), previous, allocated: Allocated { block, home } };
        held.change(None, AddLeased { add, generation }).await.map(|_| ())
    }
}
