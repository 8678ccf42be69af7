//! The driver of one block: its chain, and the calls to the metadata server that a recovery takes. Which node is
//! dropped, what comes next and what is sent again is decided in [`xfer::writer::Block`].
//!
//! A recovery whose future was dropped, or that failed, has ended nothing: the block stays broken, and whoever sends or
//! drains next begins the recovery anew.

use super::chain::Chain;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::located::{Located, Node};
use crate::options::{Options, Routing};
use crate::retry::told;
use crate::scope::Task;
use hdfs::proto::TokenProto;
use std::sync::Arc;
use types::ChecksumSpec;
use wire::Abilities;
use xfer::fault::Fault;
use xfer::writer::{Break, Identity, Manner, Member, Packet, Patience, RECOVERIES_MAX, Shape, Step, whole_len_max};

#[derive(Debug)]
pub(super) struct Block {
    path: String,
    machine: xfer::writer::Block,
    /// There is one while the machine streams.
    chain: Option<Chain>,
    /// The server has written down that the block exists.
    pub(super) known_to_server: bool,
    /// Of a block that was on lease: the one before it is being put, and this one made the file's.
    before: Option<Task<Result<()>>>,
    /// Faults of nodes that were logged already.
    noted_count: usize,
}

impl Block {
    /// Sets up the chain of a new block; `Err` names the node that failed.
    pub(super) async fn create(
        client: &Client,
        path: &str,
        located: &Located,
        spec: ChecksumSpec,
    ) -> Result<Self, (Node, Fault)> {
        let (identity, token) = (located.identity.clone(), located.token.clone().into());
        let machine = xfer::writer::Block::new(manner(client, spec), identity, token, located.members());
        let mut block =
            Self { path: path.into(), machine, chain: None, known_to_server: false, before: None, noted_count: 0 };
        match block.open(client).await {
            Ok(chain) => {
                block.machine.on_opened();
                block.chain = Some(chain);
                Ok(block)
            }
            Err(broken) => {
                block.machine.on_open_failed(broken);
                let (member, fault) = block.machine.faults().last().cloned().expect("a set-up fails by a node");
                Err((member.info.into(), fault))
            }
        }
    }

    pub(super) fn token(&self) -> &TokenProto {
        self.machine.token()
    }

    pub(super) fn id(&self) -> &Identity {
        self.machine.identity()
    }

    pub(super) fn node_ids(&self) -> impl Iterator<Item = &str> {
        self.machine.members().iter().map(|member| member.info.id.datanode_uuid.as_str())
    }

    /// The nodes of its chain that were not dropped.
    pub(super) fn members(&self) -> &[Member] {
        self.machine.members()
    }

    /// It lost a node, or the connection to the first.
    pub(super) fn is_broken(&self) -> bool {
        self.chain.as_ref().map_or(!self.machine.is_finished(), Chain::is_broken)
    }

    /// The server is told of this block by `before`.
    pub(super) fn set_before(&mut self, before: Task<Result<()>>) {
        self.before = Some(before);
    }

    /// Returns when the block before is put and the server knows of this one.
    pub(super) async fn settle_before(&mut self) -> Result<()> {
        let Some(before) = &mut self.before else { return Ok(()) };
        let done = before.await.flatten();
        self.before = None;
        self.known_to_server |= done.is_ok();
        done
    }

    pub(super) fn next_seqno(&mut self) -> i64 {
        self.machine.next_seqno()
    }

    /// Returns when another packet may be pushed; a chain that breaks is recovered.
    pub(super) async fn room(&mut self, client: &Client) -> Result<()> {
        // Ends: the machine allows so many recoveries.
        loop {
            match &self.chain {
                Some(chain) if chain.room().await.is_ok() => return Ok(()),
                None if self.machine.is_finished() => return Err(self.gone()),
                _ => self.recover(client).await?,
            }
        }
    }

    /// Takes a packet, for which there must be room. It is sent by whoever writes or drains next.
    pub(super) fn push(&mut self, packet: Arc<Packet>) {
        self.machine.on_pushed(&packet);
        self.chain.as_ref().expect("a stream has a chain").push(packet);
    }

    /// Sends what was pushed; a chain that breaks is recovered. Gives back packets that were acknowledged.
    pub(super) async fn write(&mut self, client: &Client) -> Result<Vec<Arc<Packet>>> {
        loop {
            match &self.chain {
                Some(chain) => match chain.write().await {
                    Ok(spent) => return Ok(spent),
                    Err(()) => self.recover(client).await?,
                },
                None if self.machine.is_finished() => return Ok(Vec::new()),
                None => self.recover(client).await?,
            }
        }
    }

    /// Returns when all nodes have everything that was pushed.
    pub(super) async fn drain(&mut self, client: &Client) -> Result<()> {
        loop {
            match &self.chain {
                Some(chain) if chain.drain().await.is_ok() => return Ok(()),
                None if self.machine.is_finished() => return Ok(()),
                _ => self.recover(client).await?,
            }
        }
    }

    /// Ends the block: when this returns, all nodes have finalized it.
    ///
    /// The end is sent when all data is acknowledged, so that after a fault either data is missing or the end alone:
    /// nodes of HDFS cannot rejoin a chain for data with a replica that they have finalized.
    pub(super) async fn finish(&mut self, client: &Client, end: Arc<Packet>) -> Result<()> {
        self.drain(client).await?;
        self.settle_before().await?;
        self.room(client).await?;
        self.push(end);
        self.drain(client).await
    }

    /// Puts another chain in the place of the one that broke, or brings the block to its end without one.
    async fn recover(&mut self, client: &Client) -> Result<()> {
        if let Some(chain) = self.chain.take() {
            self.machine.on_broken(chain.into_rest());
        }
        let mut opened = None;
        loop {
            self.note_faults(client);
            match self.machine.next_step() {
                Step::Stream | Step::Finished => return Ok(()),
                Step::Failed => return Err(self.gone()),
                Step::AskGeneration => self.ask_generation(client).await?,
                Step::Open => match self.open(client).await {
                    Ok(chain) => {
                        self.machine.on_opened();
                        opened = Some(chain);
                    }
                    Err(broken) => self.machine.on_open_failed(broken),
                },
                Step::UpdatePipeline(update) => {
                    client.update_pipeline(&update, self.machine.members()).await?;
                    // From here to the chain in its place nothing is waited for.
                    let resend = self.machine.on_updated();
                    self.chain = opened.take().filter(|_| !self.machine.is_finished());
                    // A fault now is found by whoever sends or drains next, with the packets in the window.
                    self.chain.iter().for_each(|chain| resend.iter().for_each(|packet| chain.push(Arc::clone(packet))));
                }
            }
        }
    }

    async fn ask_generation(&mut self, client: &Client) -> Result<()> {
        self.settle_before().await?;
        let (generation, token) = client.next_generation(self.machine.identity()).await?;
        self.machine.on_generation(generation, token.into());
        Ok(())
    }

    async fn open(&mut self, client: &Client) -> Result<Chain, Break> {
        let ours = client.defaults().await.is_ok_and(|defaults| defaults.abilities.has(Abilities::STREAMS));
        let opening = self.machine.opening(ours);
        let options = client.options();
        let patience = Patience {
            connect: options.connect_timeout,
            silence: options.timeout,
            stalled: options.stalled,
            in_flight_max: options.packets_in_flight_max,
        };
        Chain::open(client, &self.machine.members()[0].info.clone().into(), &opening, patience).await
    }

    /// Other blocks are not to be begun on nodes that failed here.
    fn note_faults(&mut self, client: &Client) {
        for (member, fault) in &self.machine.faults()[self.noted_count..] {
            client.session.stock.exclude(&member.info.id.datanode_uuid);
            let (block, node) = (self.machine.identity().block.0, member.addr());
            tracing::info!(path = self.path, block, node, %fault, "a node of the chain failed; going on without it");
        }
        self.noted_count = self.machine.faults().len();
    }

    fn gone(&self) -> Error {
        let faults: Vec<_> = self.machine.faults().iter().map(|(member, fault)| (member.addr(), fault)).collect();
        Error::NoNodeLeft { block: self.machine.identity().block.0, tried: told(&faults) }
    }
}

fn manner(client: &Client, spec: ChecksumSpec) -> Manner {
    let options: &Options = client.options();
    let shape = match options.routing {
        Routing::Chain => Shape::Chain,
        Routing::Tree => Shape::Tree,
        Routing::Star => Shape::Star { leader: options.leader.map(|ip| ip.to_string()) },
    };
    Manner {
        holder: client.session.holder.clone(),
        spec,
        shape,
        packet_len: whole_len_max(spec, options.packet_len),
        recoveries_max: RECOVERIES_MAX,
    }
}
