//! A block that is being written: the driver of `xfer::writer::Block`, with the calls to the metadata server that a
//! recovery takes, as the crate `client` has it.

use super::chain::Chain;
use super::writer::PACKET_LEN;
use super::{Client, Error, Result};
use crate::executor::Boxed;
use crate::metad::{Answer, Located, Metad};
use crate::platter::SPEC;
use crate::world::{World, node_of, rack_of};
use hdfs::proto::{DatanodeIdProto, DatanodeInfoProto};
use namespace::{BlockRef, BlockView};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use types::{FsPath, NodeId};
use xfer::writer::{Break, Identity, Manner, Member, Packet, RECOVERIES_MAX, Step};

/// Of so many changes of a chain one after which the writer says once more what is old by then.
const REPEATS_OLD_EACH: usize = 3;
/// Of so many updates of a chain one is slow, by up to so long.
const SLOW_UPDATE_EACH: usize = 4;
const SLOW_UPDATE_MAX: Duration = Duration::from_secs(2);

/// How a stream's nodes send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Chain,
    Tree,
    Star,
    /// As HBase's writer of logs: a star with one block, however long, which ends with the first node that is lost.
    FanOut,
}

/// One block being written.
pub(super) struct Block {
    pub(super) view: BlockView,
    machine: xfer::writer::Block,
    /// There is one while the machine streams.
    chain: Option<Chain>,
    /// The nodes of the present chain, and how often each had lost power when it was set up.
    pub(super) holders: RefCell<Vec<(NodeId, u64)>>,
    /// Of a block that was on lease: no server knows yet that it is the file's.
    pub(super) before: Option<Before>,
    /// Faults of nodes that were told already.
    noted_count: usize,
}

/// What a server is told with the block.
#[derive(Clone)]
pub(super) struct Before {
    pub(super) path: FsPath,
    pub(super) previous: Option<BlockRef>,
}

impl Block {
    /// With its chain; `Err` has the node to blame.
    pub(super) async fn create(
        client: &Rc<Client>,
        Located { view, nodes, token }: Located,
        shape: Shape,
        before: Option<Before>,
    ) -> std::result::Result<Self, NodeId> {
        let members = nodes.into_iter().map(|node| member(&client.world, node)).collect();
        let BlockView { block, generation, len, .. } = view;
        let identity = Identity { pool: String::new(), block, generation, len };
        let machine = xfer::writer::Block::new(manner(client, shape), identity, token, members);
        let mut block = Self { view, machine, chain: None, holders: RefCell::default(), before, noted_count: 0 };
        match block.open(client).await {
            Ok(chain) => {
                block.machine.on_opened();
                block.chain = Some(chain);
                Ok(block)
            }
            Err(broken) => {
                block.machine.on_open_failed(broken);
                let (member, _) = block.machine.faults().last().expect("a set-up fails by a node");
                Err(World::node_of_addr(&member.addr()))
            }
        }
    }

    /// The nodes that were not dropped.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.machine.members().iter().map(|member| World::node_of_addr(&member.addr())).collect()
    }

    pub(super) fn next_seqno(&mut self) -> i64 {
        self.machine.next_seqno()
    }

    /// Has a server make a block that was on lease the file's.
    pub(super) async fn settle_before(&mut self, client: &Rc<Client>) -> Result<()> {
        let Some(Before { path, previous }) = self.before.clone() else { return Ok(()) };
        let (name, BlockView { file, block, generation, .. }) = (client.name.clone(), self.view);
        let token = self.machine.token().clone();
        let call = move |metad: Rc<Metad>, _| -> Boxed<Answer<()>> {
            let leased = (block, generation, token.clone());
            Box::pin(metad.add_leased(name.clone(), path.clone(), file, previous, leased))
        };
        client.call(call).await?;
        client.sim.say(|| format!("{} has {:?} of {file}, which was on lease", client.name, block));
        self.before = None;
        Ok(())
    }

    /// Returns when another packet may be pushed.
    pub(super) async fn room(&mut self, client: &Rc<Client>) -> Result<()> {
        loop {
            match &self.chain {
                Some(chain) if chain.room().await.is_ok() => return Ok(()),
                None if self.machine.is_finished() => return Err(Error::NoNodeLeft),
                _ => self.recover(client).await?,
            }
        }
    }

    /// Takes a packet for which there is room. It is sent by whoever writes or drains next.
    pub(super) fn push(&mut self, packet: Arc<Packet>) {
        self.machine.on_pushed(&packet);
        self.chain.as_ref().expect("a stream has a chain").push(packet);
    }

    /// Packets that are acknowledged, once.
    pub(super) fn take_spent(&self) -> Vec<Arc<Packet>> {
        self.chain.as_ref().map(Chain::take_spent).unwrap_or_default()
    }

    /// Sends what was pushed.
    pub(super) async fn write(&mut self, client: &Rc<Client>) -> Result<()> {
        loop {
            match &self.chain {
                Some(chain) if chain.write().await.is_ok() => return Ok(()),
                None if self.machine.is_finished() => return Ok(()),
                _ => self.recover(client).await?,
            }
        }
    }

    /// Returns when all nodes have everything that was pushed.
    pub(super) async fn drain(&mut self, client: &Rc<Client>) -> Result<()> {
        loop {
            match &self.chain {
                Some(chain) if chain.drain().await.is_ok() => return Ok(()),
                None if self.machine.is_finished() => return Ok(()),
                _ => self.recover(client).await?,
            }
        }
    }

    async fn open(&mut self, client: &Rc<Client>) -> std::result::Result<Chain, Break> {
        let opening = self.machine.opening(true);
        let nodes = self.nodes();
        let falls = |node: &NodeId| (*node, client.world.falls(World::node_number(*node)));
        *self.holders.borrow_mut() = nodes.iter().map(falls).collect();
        Chain::open(client, nodes[0], &opening).await
    }

    /// Puts another chain in the place of the one that broke, or brings the block to its end without one.
    async fn recover(&mut self, client: &Rc<Client>) -> Result<()> {
        self.settle_before(client).await?;
        if let Some(chain) = self.chain.take() {
            self.machine.on_broken(chain.into_rest());
        }
        let mut opened = None;
        loop {
            self.note_faults(client);
            match self.machine.next_step() {
                Step::Stream | Step::Finished => return Ok(()),
                Step::Failed => return Err(Error::NoNodeLeft),
                Step::AskGeneration => {
                    let (name, block) = (client.name.clone(), self.view.block);
                    let bump = client.call(move |metad, _| Box::pin(metad.bump(name.clone(), block)));
                    let (generation, located) = bump.await?;
                    self.view.home = located.view.home;
                    self.machine.on_generation(generation, located.token);
                }
                Step::Open => match self.open(client).await {
                    Ok(chain) => {
                        self.machine.on_opened();
                        opened = Some(chain);
                    }
                    Err(broken) => self.machine.on_open_failed(broken),
                },
                Step::UpdatePipeline(update) => {
                    let [old, new] = [&update.old, &update.new].map(block_ref);
                    if client.sim.one_in(SLOW_UPDATE_EACH) {
                        // Time in which whoever waits for the write may give it up.
                        client.sim.sleep(client.sim.between(Duration::ZERO, SLOW_UPDATE_MAX)).await;
                    }
                    self.update_pipeline(client, old, new).await?;
                    // From here to the chain in its place nothing is waited for.
                    let resend = self.machine.on_updated();
                    self.view.generation = new.generation;
                    self.chain = opened.take().filter(|_| !self.machine.is_finished());
                    self.chain.iter().for_each(|chain| resend.iter().for_each(|packet| chain.push(Arc::clone(packet))));
                    if client.sim.one_in(REPEATS_OLD_EACH) {
                        self.repeat_old_calls(client, old, new).await;
                    }
                }
            }
        }
    }

    async fn update_pipeline(&self, client: &Rc<Client>, old: BlockRef, new: BlockRef) -> Result<()> {
        let nodes = self.nodes();
        client.world.oracle.borrow_mut().go_on_with(self.view.file, old.block, &nodes);
        let name = client.name.clone();
        let call =
            client.call(move |metad, key| Box::pin(metad.update_pipeline(key, name.clone(), old, new, nodes.clone())));
        call.await
    }

    /// What came late over the wire, or from a program that is wrong: none of it may be believed.
    async fn repeat_old_calls(&self, client: &Rc<Client>, before: BlockRef, now: BlockRef) {
        self.must_be_refused(client, now, before).await;
        let (name, block) = (client.name.clone(), now.block);
        let Ok((next, _)) = client.call(move |metad, _| Box::pin(metad.bump(name.clone(), block))).await else {
            return;
        };
        if let Some(len) = now.len.checked_sub(1) {
            self.must_be_refused(client, now, BlockRef { generation: next, len, ..now }).await;
        }
    }

    async fn must_be_refused(&self, client: &Rc<Client>, old: BlockRef, new: BlockRef) {
        let (name, nodes) = (client.name.clone(), self.nodes());
        let call =
            client.call(move |metad, key| Box::pin(metad.update_pipeline(key, name.clone(), old, new, nodes.clone())));
        if call.await.is_ok() {
            client.world.fail(|| format!("{} was believed that {old:?} goes on as {new:?}", client.name));
        }
    }

    fn note_faults(&mut self, client: &Client) {
        for (member, fault) in &self.machine.faults()[self.noted_count..] {
            client.sim.say(|| {
                let number = World::node_number(World::node_of_addr(&member.addr()));
                format!("{} drops node {number} from the chain of {:?}: {fault}", client.name, self.view.block)
            });
        }
        self.noted_count = self.machine.faults().len();
    }
}

fn block_ref(identity: &Identity) -> BlockRef {
    BlockRef { block: identity.block, generation: identity.generation, len: identity.len }
}

pub(crate) fn manner(client: &Client, shape: Shape) -> Manner {
    Manner {
        holder: client.name.clone(),
        spec: SPEC,
        shape: match shape {
            Shape::Chain => xfer::writer::Shape::Chain,
            Shape::Tree => xfer::writer::Shape::Tree,
            Shape::Star | Shape::FanOut => xfer::writer::Shape::Star { leader: None },
        },
        packet_len: xfer::writer::whole_len_max(SPEC, PACKET_LEN),
        recoveries_max: if shape == Shape::FanOut { 0 } else { RECOVERIES_MAX },
    }
}

/// A node as the metadata server describes it.
pub(crate) fn member(world: &World, node: NodeId) -> Member {
    let number = World::node_number(node);
    let described = node_of(world.process(number, false));
    let id = DatanodeIdProto {
        ip_addr: described.ip,
        host_name: described.host,
        datanode_uuid: node.to_string(),
        xfer_port: described.xfer_port.into(),
        ..DatanodeIdProto::default()
    };
    let info = DatanodeInfoProto { id, location: Some(rack_of(number)), ..DatanodeInfoProto::default() };
    Member { info, storage_type: 0, storage: described.storage }
}
