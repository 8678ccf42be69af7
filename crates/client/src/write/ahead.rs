//! The next block of a file, made ready while the one before it is still written.
//!
//! ```text
//! block n      ═══ stream ═══════════════════▶ end ─▶ put
//!                     │ lease of ids, chain           │
//! block n + 1         └──────────────────────▶ ═══ stream ════════════════▶
//!                                                     └─ addLeased: it is the file's
//! ```
//!
//! So in mid-stream nothing is waited for. The server hears of the new block when the one before is put; until then the
//! bytes of the new one are promised to nobody: whoever flushes or ends it waits for that.

use super::block::Block;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::small::sure_until;
use hdfs::proto;
use std::time::Duration;
use types::ChecksumSpec;
use wire::client::{
    ADD_LEASED, AddLeasedRequest, AddLeasedResponse, BlockNode, CLIENT_PROTOCOL, LEASE_BLOCKS, LeaseBlocksRequest,
    LeaseBlocksResponse, PreviousBlock,
};

/// What the next block is to be.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) path: String,
    pub(super) file: u64,
    pub(super) replication: u16,
    pub(super) block_len: u64,
    pub(super) spec: ChecksumSpec,
    /// Ids of nodes that are not to be given, beside those that failed lately.
    pub(super) excluded: Vec<String>,
    /// There certainly will be a next block. If not, its nodes are only named, so that nothing is left lying on them.
    pub(super) sure: bool,
}

/// A block that is being made ready.
#[derive(Debug)]
pub(super) struct Ahead {
    client: Client,
    ask: Ask,
    ready: io::task::Owned<Option<Ready>>,
}

/// Ours for sure until `until`.
#[derive(Debug)]
struct Ready {
    until: Duration,
    next: Next,
}

#[derive(Debug)]
enum Next {
    Named(Box<proto::LocatedBlockProto>),
    Joined(Box<Block>),
}

impl Ahead {
    pub(super) fn begin(client: &Client, ask: Ask) -> Self {
        let ready = io::task::spawn_owned("next block", prepare(client.clone(), ask.clone()));
        Self { client: client.clone(), ask, ready }
    }

    /// The block, its chain standing. `None`: there is none, so one must be asked for in the ordinary way. To be called
    /// until it returns, and then no more: whoever drops its future has lost nothing.
    pub(super) async fn take(&mut self) -> Option<Block> {
        loop {
            let Ready { until, next } = (&mut self.ready).await.ok().flatten()?;
            let (client, ask) = (self.client.clone(), self.ask.clone());
            // A slow writer may come for it so late that a new leader knows nothing of the lease and believes nobody
            // any more.
            let sure = client.inner.small.now() < until;
            match next {
                // While it waited it may have lost a node, or another block did and told us.
                Next::Joined(block) if sure && !block.is_broken() && are_well(&client, block.nodes()) => {
                    return Some(*block);
                }
                Next::Joined(block) => return pass_over(&client, block.id().block_id),
                Next::Named(located) if sure && are_well(&client, located.locs.iter()) => {
                    let join = async move {
                        let block = join(&client, &ask, *located).await?;
                        Some(Ready { until, next: Next::Joined(Box::new(block)) })
                    };
                    self.ready = io::task::spawn_owned("next block", join);
                }
                Next::Named(located) => return pass_over(&client, located.b.block_id),
            }
        }
    }

    /// The file ended before.
    pub(super) async fn leave(self) {
        if !self.ready.is_finished() {
            return; // what it may bring ends with our lease
        }
        let block = match self.ready.await.ok().flatten().map(|ready| ready.next) {
            Some(Next::Named(located)) => located.b.block_id,
            Some(Next::Joined(block)) => block.id().block_id,
            None => return,
        };
        self.client.inner.small.give_back(block);
    }
}

fn are_well<'a>(client: &Client, mut nodes: impl Iterator<Item = &'a proto::DatanodeInfoProto>) -> bool {
    let avoided = client.inner.small.avoided();
    nodes.all(|node| !avoided.contains(&node.id.datanode_uuid))
}

fn pass_over(client: &Client, block: u64) -> Option<Block> {
    client.inner.small.give_back(block);
    None
}

async fn prepare(client: Client, ask: Ask) -> Option<Ready> {
    match lease(&client, &ask).await {
        Ok(Some((located, until))) if ask.sure => {
            let next = Next::Joined(Box::new(join(&client, &ask, located).await?));
            Some(Ready { until, next })
        }
        Ok(leased) => leased.map(|(located, until)| Ready { until, next: Next::Named(Box::new(located)) }),
        Err(error) => {
            tracing::debug!(path = ask.path, %error, "no next block ahead of time");
            None
        }
    }
}

async fn join(client: &Client, ask: &Ask, located: proto::LocatedBlockProto) -> Option<Block> {
    let id = located.b.block_id;
    match Block::create(client, &ask.path, located, ask.spec).await {
        Ok(block) => Some(block),
        Err((node, fault)) => {
            client.inner.small.avoid(&node);
            let node = node.id.xfer_addr();
            tracing::info!(path = ask.path, node, %fault, "the next block's chain could not be set up ahead of time");
            client.inner.small.give_back(id);
            None
        }
    }
}

/// A block, and until when it is ours. `None`: the server gives blocks for new files only.
async fn lease(client: &Client, ask: &Ask) -> Result<Option<(proto::LocatedBlockProto, Duration)>> {
    let asked = client.inner.small.now();
    let request = LeaseBlocksRequest {
        holder: client.inner.holder.clone(),
        replication: ask.replication.into(),
        block_len: ask.block_len,
        count: 1,
        excluded: ask.excluded.iter().cloned().chain(client.inner.small.avoided()).collect(),
        returned: client.inner.small.take_returned(),
        file: ask.file,
    };
    let answer: LeaseBlocksResponse = client.call_in(CLIENT_PROTOCOL, LEASE_BLOCKS, &request).await?;
    let Some(leased) = answer.blocks.first().filter(|leased| leased.file == ask.file) else {
        answer.blocks.iter().for_each(|leased| client.inner.small.give_back(leased.block));
        return Ok(None);
    };
    let until = sure_until(asked, answer.limit_ms);
    let locs: Option<Vec<_>> = answer.nodes.into_iter().map(info).collect();
    let located = locs.filter(|locs| !locs.is_empty()).map(|locs| proto::LocatedBlockProto {
        b: proto::ExtendedBlockProto {
            pool_id: answer.pool,
            block_id: leased.block,
            generation_stamp: answer.generation,
            num_bytes: Some(0),
        },
        locs,
        block_token: proto::TokenProto { identifier: leased.token.clone(), ..Default::default() },
        ..Default::default()
    });
    Ok(located.map(|located| (located, until)))
}

fn info(node: BlockNode) -> Option<proto::DatanodeInfoProto> {
    let (ip, port) = node.addr.rsplit_once(':')?;
    let id = proto::DatanodeIdProto {
        ip_addr: ip.trim_matches(['[', ']']).to_owned(),
        xfer_port: port.parse().ok()?,
        datanode_uuid: node.id,
        ..Default::default()
    };
    Some(proto::DatanodeInfoProto { id, location: Some(node.rack), ..Default::default() })
}

/// Says that a leased block is the file's, once the one before it is put.
pub(super) async fn register(
    client: Client,
    path: String,
    file: u64,
    block: proto::ExtendedBlockProto,
    before: Closed,
) -> Result<()> {
    let previous = match before {
        Closed::Already(previous) => previous,
        Closed::Soon(closing) => Some(ended(closing.await)?),
    };
    let request = AddLeasedRequest {
        path,
        holder: client.inner.holder.clone(),
        file,
        block: block.block_id,
        generation: block.generation_stamp,
        previous: previous.map(|previous| PreviousBlock {
            block: previous.block_id,
            generation: previous.generation_stamp,
            len: previous.num_bytes.unwrap_or(0),
        }),
    };
    let AddLeasedResponse {} = client.call_in(CLIENT_PROTOCOL, ADD_LEASED, &request).await?;
    Ok(())
}

/// A block that is put, or about to be, as it ends up.
pub(super) enum Closed {
    Already(Option<proto::ExtendedBlockProto>),
    Soon(Closing),
}

pub(super) type Closing = io::task::Owned<Result<proto::ExtendedBlockProto>>;

/// What a task of a writer brought.
pub(super) fn ended<T>(joined: std::result::Result<Result<T>, io::task::Ended>) -> Result<T> {
    joined.unwrap_or_else(|error| Err(Error::LeaseLost(format!("writing broke off: {error}"))))
}
