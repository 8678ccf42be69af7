//! One block being written: its chain, and what is done when the chain breaks.
//!
//! Recovery, as HDFS has it: drop the node that failed; ask for a new generation; join the rest under it, cut to what
//! all had acknowledged; tell the server; send again what was not acknowledged. Nobody is asked for a replacement: one
//! node that is left holds every acknowledged byte, and the store heals the block when it is finished.
//!
//! A recovery whose future was dropped, or that failed, has ended nothing: the block stays broken, and whoever sends or
//! drains next begins the recovery anew, under a still higher generation.

use super::ahead::ended;
use super::chain::{Break, Chain, Rest};
use super::packer::{Packet, whole_len_max};
use crate::client::Client;
use crate::datanode::{Fault, addr_of, tried};
use crate::error::{Error, Result};
use crate::options::{Options, RECOVERIES_MAX, Routing};
use hdfs::proto;
use proto::op_write_block_proto::BlockConstructionStage as Stage;
use std::sync::Arc;
use types::ChecksumSpec;
use wire::Abilities;

#[derive(Debug)]
pub(super) struct Block {
    path: String,
    id: proto::ExtendedBlockProto,
    token: proto::TokenProto,
    nodes: Vec<Member>,
    spec: ChecksumSpec,
    state: State,
    next_seqno: i64,
    /// The block up to here was sent at least once.
    sent_len: u64,
    /// The server has written down that the block exists.
    pub(super) known_to_server: bool,
    faults: Vec<(String, Fault)>,
    /// Of a block that was on lease: the one before it is being put, and this one made the file's.
    before: Option<io::task::Owned<Result<()>>>,
    /// How often the packet `stuck.0` was the first that did not get through.
    stuck: (i64, u32),
}

#[derive(Debug)]
enum State {
    Streaming(Chain),
    /// There is no chain now: this is to go down another one.
    Broken(Rest),
    /// All nodes have put the block in a recovery, which leaves no chain.
    Finished,
}

#[derive(Clone, Debug)]
struct Member {
    info: proto::DatanodeInfoProto,
    storage_type: i32,
    storage: String,
}

impl Block {
    /// Sets up the chain of a new block; `Err` names the node that failed.
    pub(super) async fn create(
        client: &Client,
        path: &str,
        located: proto::LocatedBlockProto,
        spec: ChecksumSpec,
    ) -> Result<Self, (proto::DatanodeInfoProto, Fault)> {
        let disk = proto::StorageTypeProto::Disk as i32;
        let types = located.storage_types.iter().copied().chain(std::iter::repeat(disk));
        let storages = located.storage_i_ds.iter().cloned().chain(std::iter::repeat(String::new()));
        let nodes = located.locs.into_iter().zip(types.zip(storages));
        let nodes = nodes.map(|(info, (storage_type, storage))| Member { info, storage_type, storage }).collect();
        let mut block = Self {
            path: path.into(),
            id: located.b,
            token: located.block_token,
            nodes,
            spec,
            state: State::Broken(Rest::default()),
            next_seqno: 0,
            sent_len: 0,
            known_to_server: false,
            faults: Vec::new(),
            before: None,
            stuck: (-1, 0),
        };
        match block.set_up(client, Stage::PipelineSetupCreate, None, 0).await {
            Ok(chain) => block.state = State::Streaming(chain),
            Err(mut broken) => {
                let (node, fault) = broken.nodes.pop().unwrap_or((0, Fault::Silent));
                let node = node.min(block.nodes.len().saturating_sub(1));
                return Err((block.nodes.swap_remove(node).info, fault));
            }
        }
        Ok(block)
    }

    pub(super) fn id(&self) -> &proto::ExtendedBlockProto {
        &self.id
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &proto::DatanodeInfoProto> {
        self.nodes.iter().map(|member| &member.info)
    }

    /// It lost a node, or the connection to the first.
    pub(super) fn is_broken(&self) -> bool {
        match &self.state {
            State::Streaming(chain) => chain.is_broken(),
            State::Broken(_) => true,
            State::Finished => false,
        }
    }

    /// The server is told of this block by `before`.
    pub(super) fn set_before(&mut self, before: io::task::Owned<Result<()>>) {
        self.before = Some(before);
    }

    /// Returns when the block before is put and the server knows of this one.
    pub(super) async fn settle_before(&mut self) -> Result<()> {
        let Some(before) = &mut self.before else { return Ok(()) };
        let done = ended(before.await);
        self.before = None;
        self.known_to_server |= done.is_ok();
        done
    }

    pub(super) fn next_seqno(&mut self) -> i64 {
        let seqno = self.next_seqno;
        self.next_seqno += 1;
        seqno
    }

    /// Returns when another packet may be pushed; a chain that breaks is recovered.
    pub(super) async fn room(&mut self, client: &Client) -> Result<()> {
        // Ends: every recovery takes a node away, or counts towards the limit.
        loop {
            match &self.state {
                State::Streaming(chain) if chain.room().await.is_ok() => return Ok(()),
                State::Streaming(_) | State::Broken(_) => self.recover(client).await?,
                State::Finished => return Err(self.gone()),
            }
        }
    }

    /// Takes a packet, for which there must be room. It is sent by whoever writes or drains next.
    pub(super) fn push(&mut self, packet: Arc<Packet>) {
        self.sent_len = self.sent_len.max(packet.end_offset());
        let State::Streaming(chain) = &self.state else { panic!("a packet for which nobody saw that there is room") };
        chain.push(packet);
    }

    /// Sends what was pushed; a chain that breaks is recovered. Gives back packets that were acknowledged.
    pub(super) async fn write(&mut self, client: &Client) -> Result<Vec<Arc<Packet>>> {
        loop {
            match &self.state {
                State::Streaming(chain) => match chain.write().await {
                    Ok(spent) => return Ok(spent),
                    Err(()) => self.recover(client).await?,
                },
                State::Broken(_) => self.recover(client).await?,
                State::Finished => return Ok(Vec::new()),
            }
        }
    }

    /// Returns when all nodes have everything that was pushed.
    pub(super) async fn drain(&mut self, client: &Client) -> Result<()> {
        loop {
            match &self.state {
                State::Streaming(chain) if chain.drain().await.is_ok() => return Ok(()),
                State::Streaming(_) | State::Broken(_) => self.recover(client).await?,
                State::Finished => return Ok(()),
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

    /// Puts another chain in the place of the one that broke. The block changes from one state to the next without
    /// waiting, so that this future can be dropped wherever it waits.
    async fn recover(&mut self, client: &Client) -> Result<()> {
        self.give_up_chain();
        if self.stuck.1 > RECOVERIES_MAX {
            return Err(self.gone());
        }
        // Ends: each round takes a node away.
        while let State::Broken(rest) = &mut self.state {
            let broken = rest.broken.take();
            // The last first, so that the places of the others stay.
            for (node, fault) in broken.into_iter().flat_map(|broken| broken.nodes).rev() {
                self.drop_node(client, node, fault);
            }
            if self.nodes.is_empty() {
                return Err(self.gone());
            }
            let rejoined = self.rejoin(client).await?;
            let State::Broken(rest) = &mut self.state else { break };
            match rejoined {
                Ok(Some(chain)) => {
                    // A fault now is found by whoever sends or drains next, with the packets in the window.
                    rest.unacked.drain(..).for_each(|packet| chain.push(packet));
                    self.state = State::Streaming(chain);
                }
                Ok(None) => self.state = State::Finished,
                Err(again) => rest.broken = Some(again),
            }
        }
        Ok(())
    }

    fn give_up_chain(&mut self) {
        if !matches!(self.state, State::Streaming(_)) {
            return; // a recovery was begun already
        }
        let streaming = std::mem::replace(&mut self.state, State::Broken(Rest::default()));
        let State::Streaming(chain) = streaming else { unreachable!("looked at just now") };
        let rest = chain.into_rest();
        let first = rest.unacked.front().map_or(-1, |packet| packet.header.seqno);
        self.stuck = if self.stuck.0 == first { (first, self.stuck.1 + 1) } else { (first, 1) };
        self.state = State::Broken(rest);
    }

    /// The rest of the chain under a new generation. `None` for a chain: all was sent, the nodes have finalized the
    /// block.
    async fn rejoin(&mut self, client: &Client) -> Result<Result<Option<Chain>, Break>> {
        let State::Broken(rest) = &self.state else { return Err(self.gone()) };
        let (only_end_missing, acked_len) = (rest.lacks_only_the_end(), rest.acked_len);
        self.settle_before().await?;
        let request = proto::UpdateBlockForPipelineRequestProto {
            block: self.id.clone(),
            client_name: client.inner.holder.clone(),
        };
        let answer: proto::UpdateBlockForPipelineResponseProto =
            client.call("updateBlockForPipeline", &request).await?;
        let generation = answer.block.b.generation_stamp;
        self.token = answer.block.block_token;
        let stage = if only_end_missing { Stage::PipelineCloseRecovery } else { Stage::PipelineSetupStreamingRecovery };
        let chain = match self.set_up(client, stage, Some(generation), acked_len).await {
            Ok(chain) => chain,
            Err(broken) => return Ok(Err(broken)),
        };
        let fresh =
            proto::ExtendedBlockProto { generation_stamp: generation, num_bytes: Some(acked_len), ..self.id.clone() };
        let request = proto::UpdatePipelineRequestProto {
            client_name: client.inner.holder.clone(),
            old_block: proto::ExtendedBlockProto { num_bytes: Some(acked_len), ..self.id.clone() },
            new_block: fresh.clone(),
            new_nodes: self.nodes.iter().map(|member| member.info.id.clone()).collect(),
            storage_i_ds: self.nodes.iter().map(|member| member.storage.clone()).collect(),
        };
        let _: proto::UpdatePipelineResponseProto = client.call("updatePipeline", &request).await?;
        self.id = fresh;
        Ok(Ok((!only_end_missing).then_some(chain)))
    }

    /// `generation`: the new one, in recovery.
    async fn set_up(
        &mut self,
        client: &Client,
        stage: Stage,
        generation: Option<u64>,
        acked_len: u64,
    ) -> Result<Chain, Break> {
        let ours = client.defaults().await.is_ok_and(|defaults| defaults.abilities.has(Abilities::STREAMS));
        let table = if ours { self.route(client.options()) } else { wire::Routing::chain(self.nodes.len()) };
        let packet_len = whole_len_max(self.spec, client.options().packet_len);
        let stream = ours.then(|| proto::StreamProto {
            parents: table.encode(),
            abilities: Some(Abilities::OF_STREAM.bits()),
            packet_len: Some(packet_len),
        });
        let Some((head, targets)) = self.nodes.split_first() else {
            return Err(Break::of(0, Fault::Protocol("no nodes".into())));
        };
        let request = proto::OpWriteBlockProto {
            header: proto::ClientOperationHeaderProto {
                base_header: proto::BaseHeaderProto {
                    block: self.id.clone(),
                    token: Some(self.token.clone()),
                    trace_info: None,
                },
                client_name: client.inner.holder.clone(),
            },
            targets: targets.iter().map(|member| member.info.clone()).collect(),
            stage: stage.into(),
            pipeline_size: self.nodes.len() as u32,
            min_bytes_rcvd: acked_len,
            max_bytes_rcvd: self.sent_len,
            latest_generation_stamp: generation.unwrap_or(0),
            requested_checksum: self.spec.into(),
            storage_type: Some(head.storage_type),
            storage_id: Some(head.storage.clone()),
            target_storage_types: targets.iter().map(|member| member.storage_type).collect(),
            target_storage_ids: targets.iter().map(|member| member.storage.clone()).collect(),
            stream,
            ..Default::default()
        };
        let nodes: Vec<_> = self.nodes.iter().map(|member| member.info.clone()).collect();
        // A block that is only begun can be begun elsewhere; one that has bytes needs a node that has them.
        let spare = stage == Stage::PipelineSetupCreate || nodes.len() > 1;
        Chain::open(client.options(), &nodes, &request, acked_len, spare).await
    }

    /// Puts the nodes into the order of the routing table that is wanted. The nearest stays the first, unless there is
    /// a leader.
    fn route(&mut self, options: &Options) -> wire::Routing {
        match options.routing {
            Routing::Chain => wire::Routing::chain(self.nodes.len()),
            Routing::Star => {
                let leader = options.leader.map(|ip| ip.to_string());
                let is_leader = |member: &Member| leader.as_ref() == Some(&member.info.id.ip_addr);
                if let Some(place) = self.nodes.iter().position(is_leader) {
                    self.nodes[..=place].rotate_right(1);
                }
                wire::Routing::star(self.nodes.len())
            }
            Routing::Tree => {
                let racks: Vec<&str> = self.nodes.iter().map(|member| member.info.location()).collect();
                let (order, table) = wire::Routing::tree(&racks);
                self.nodes = order.into_iter().map(|place| self.nodes[place].clone()).collect();
                table
            }
        }
    }

    fn drop_node(&mut self, client: &Client, node: usize, fault: Fault) {
        if self.nodes.is_empty() {
            return;
        }
        let member = self.nodes.remove(node.min(self.nodes.len() - 1));
        client.inner.small.avoid(&member.info);
        let addr = addr_of(&member.info);
        tracing::info!(path = self.path, block = self.id.block_id, node = addr, %fault, "a node of the chain failed; going on without it");
        self.faults.push((addr, fault));
    }

    fn gone(&self) -> Error {
        Error::NoNodeLeft { block: self.id.block_id, tried: tried(&self.faults) }
    }
}
