//! Copies of replicas that the metadata server ordered, and what a node says of its replicas when it is asked; as
//! `datad`'s copier and comparing. What is copied when is decided by [`datanode::Copies`].

use crate::datanode::{Datanode, held};
use crate::platter::Identity;
use crate::reads::Ask;
use crate::volume::VolumeError;
use crate::world::World;
use datanode::copies::COPY_COUNT_MAX;
use datanode::{Begin, compare};
use hdfs::proto::TokenProto;
use std::rc::Rc;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Fitness, Generation, InodeId, ReplicaState};
use wire::node::{CopyFailure, CopyOrder};
use xfer::fault;
use xfer::read::Extent;
use xfer::write::Limits;

/// Why nothing came of it.
enum Fault {
    Source { corrupt: bool },
    Own,
}

impl Datanode {
    /// Tasks for orders that wait.
    pub(crate) fn begin_copies(self: &Rc<Self>) {
        while let Some(number) = self.with(|node| node.copies.begin(COPY_COUNT_MAX, 0)) {
            let node = Rc::clone(self);
            self.spawn(async move { node.copy_all(number).await });
        }
    }

    async fn copy_all(self: Rc<Self>, number: u64) {
        while let Some(order) = self.with(|node| node.copies.take(number, false)) {
            let failures = self.copy(&order).await.err().unwrap_or_default();
            let is_put = failures.is_empty();
            self.sim.say(|| format!("node {} copies {order:?}: {is_put}", self.number));
            let counts = self.with(|node| node.end_copy(self.sim.now(), number, failures));
            assert!(counts, "nobody writes off a copy here");
            if is_put {
                self.was_put(BlockId(order.block));
            }
        }
    }

    /// Tries one source after the other.
    async fn copy(self: &Rc<Self>, order: &CopyOrder) -> Result<(), Vec<CopyFailure>> {
        let block = BlockId(order.block);
        let failure = |source: &str, corrupt| CopyFailure {
            block: order.block,
            generation: order.generation,
            source: source.to_owned(),
            corrupt,
            ..CopyFailure::default()
        };
        let here = self.held(block);
        match self.with(|node| node.begin_copy(order, here.as_ref(), self.is_writing(block), false)) {
            Begin::Copy => {}
            Begin::Here => return Ok(()),
            Begin::Refused(_) => return Err(vec![failure("", false)]),
        }
        // One that was never finalized makes room when the source was read.
        let before = here.filter(|held| held.state == ReplicaState::Finalized).map(|held| held.generation);
        let deleted_count = self.deleted_count.get();
        let mut failures = Vec::new();
        for source in &order.sources {
            let copied = self.copy_from(order, &source.addr).await;
            // What was here goes by an order to delete it, or for something newer, and by nothing else.
            if before.is_some() && self.volume.find(block).is_none() && self.deleted_count.get() == deleted_count {
                self.world.fail(|| format!("node {} lost {block:?} at {before:?} to a copy that failed", self.number));
            }
            match copied {
                Ok(()) => return Ok(()),
                Err(Fault::Source { corrupt }) => failures.push(failure(&source.node, corrupt)),
                Err(Fault::Own) => {
                    failures.push(failure("", false));
                    break;
                }
            }
        }
        Err(failures)
    }

    async fn copy_from(self: &Rc<Self>, order: &CopyOrder, addr: &str) -> Result<(), Fault> {
        let (block, generation) = (BlockId(order.block), Generation(order.generation));
        if mutation::is(Mutation::CopyInPlace) {
            self.volume.remove_older(block, generation).await;
        }
        let (host, number) = (World::node_host(self.number), World::node_number(World::node_of_addr(addr)));
        let ask = Ask { block, generation, from: 0, end: order.len, extent: Extent::WholeChunks };
        // As `datad` is set up.
        let (connect, silent) = (Limits::DEFAULT.connect, Limits::DEFAULT.setup);
        let wire::node::BlockToken { identifier, password } = order.token.clone().unwrap_or_default();
        let token = TokenProto { identifier, password, ..TokenProto::none() };
        let read = self.world.read_replica(host, number, ask, token, (connect, silent)).await;
        let bytes = read.map_err(|fault| {
            self.sim.say(|| format!("node {} gets no {block:?} of node {number}: {fault}", self.number));
            match fault {
                fault if fault.is_token_refusal() => Fault::Own,
                fault => Fault::Source { corrupt: matches!(fault, fault::Fault::Corrupt { .. }) },
            }
        })?;
        let (file, home) = (Some(InodeId(order.file)), Some(ContainerId(order.home)));
        let identity = Identity { block, generation, file, home };
        self.volume.put_copy(identity, &bytes, order.replaces).await.map_err(|error| {
            self.sim.say(|| format!("node {} cannot put a copy of {block:?}: {error:?}", self.number));
            Fault::Own
        })?;
        if self.volume.verify(block).await != Ok(true) {
            let _gone = self.volume.delete(block, generation).await;
            return Err(Fault::Own);
        }
        self.with(|node| node.reads_well(block));
        self.world.was_copied(self.number, block);
        Ok(())
    }

    // ── questions ──

    pub(crate) async fn verify(&self, block: BlockId, generation: Generation) -> Fitness {
        match self.volume.find(block) {
            Some(info)
                if compare::is_worth_reading(
                    &held(&info),
                    generation,
                    self.is_to_delete(block, info.identity.generation),
                ) =>
            {
                match self.volume.verify(block).await {
                    Ok(true) => {
                        self.with(|node| node.reads_well(block));
                        Fitness::Fit
                    }
                    Ok(false) => {
                        let fell = self.world.falls(self.number) > 0 || self.world.is_spoiled(self.number, block);
                        if info.state == ReplicaState::Open && !fell {
                            self.world.fail(|| {
                                format!("node {} calls its open {block:?} damaged, which it is not", self.number)
                            });
                        }
                        self.with(|node| node.found_damaged(self.sim.now(), &held(&info)));
                        Fitness::Unfit
                    }
                    Err(VolumeError::NotFound) => Fitness::Absent,
                    Err(_) => Fitness::Unfit,
                }
            }
            _ => Fitness::Absent,
        }
    }
}
