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
use crate::error::Result;
use crate::lease_blocks::{Kind, WantedFor, lease_blocks};
use crate::located::{Located, Node, Token};
use crate::scope::Task;
use crate::stock::{Batch, Lease};
use hdfs::proto::TokenProto;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ChecksumSpec, Generation};
use wire::client::{ADD_LEASED, AddLeasedRequest, AddLeasedResponse, BlockNode, CLIENT_PROTOCOL, PreviousBlock};
use xfer::writer::Identity;

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
    ready: Task<Option<Ready>>,
}

/// Ours for sure until `until`.
#[derive(Debug)]
struct Ready {
    until: Duration,
    next: Next,
}

#[derive(Debug)]
enum Next {
    Named(Box<Located>),
    Joined(Box<Block>),
}

impl Ahead {
    pub(super) fn begin(client: &Client, ask: Ask) -> Self {
        let ready = client.spawn("next block", prepare(client.clone(), ask.clone()));
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
            let sure = client.session.stock.now() < until;
            match next {
                // While it waited it may have lost a node, or another block did and told us.
                Next::Joined(block) if sure && !block.is_broken() && are_well(&client, block.node_ids()) => {
                    return Some(*block);
                }
                Next::Joined(block) => return pass_over(&client, block.id().block.0),
                Next::Named(located) if sure && are_well(&client, located.nodes.iter().map(|node| &*node.id)) => {
                    let join = async move {
                        let block = join(&client, &ask, &located).await?;
                        Some(Ready { until, next: Next::Joined(Box::new(block)) })
                    };
                    self.ready = self.client.spawn("next block", join);
                }
                Next::Named(located) => return pass_over(&client, located.identity.block.0),
            }
        }
    }

    /// The file ended before.
    pub(super) async fn leave(self) {
        if !self.ready.is_finished() {
            return; // what it may bring ends with our lease
        }
        let block = match self.ready.await.ok().flatten().map(|ready| ready.next) {
            Some(Next::Named(located)) => located.identity.block.0,
            Some(Next::Joined(block)) => block.id().block.0,
            None => return,
        };
        self.client.session.stock.give_back(block);
    }
}

fn are_well<'a>(client: &Client, mut node_ids: impl Iterator<Item = &'a str>) -> bool {
    let avoided = client.session.stock.excluded();
    node_ids.all(|id| !avoided.iter().any(|avoided| avoided == id))
}

fn pass_over(client: &Client, block: u64) -> Option<Block> {
    client.session.stock.give_back(block);
    None
}

async fn prepare(client: Client, ask: Ask) -> Option<Ready> {
    match lease(&client, &ask).await {
        Ok(Some((located, until))) if ask.sure => {
            let next = Next::Joined(Box::new(join(&client, &ask, &located).await?));
            Some(Ready { until, next })
        }
        Ok(leased) => leased.map(|(located, until)| Ready { until, next: Next::Named(Box::new(located)) }),
        Err(error) => {
            tracing::debug!(path = ask.path, %error, "no next block ahead of time");
            None
        }
    }
}

async fn join(client: &Client, ask: &Ask, located: &Located) -> Option<Block> {
    match Block::create(client, &ask.path, located, ask.spec).await {
        Ok(block) => Some(block),
        Err((node, fault)) => {
            if !fault.is_token_refusal() {
                client.session.stock.exclude(&node.id);
            }
            let node = &node.addr;
            tracing::info!(path = ask.path, %node, %fault, "the next block's chain could not be set up ahead of time");
            pass_over(client, located.identity.block.0)
        }
    }
}

/// A block, and until when it is ours. `None`: the server gives blocks for new files only.
async fn lease(client: &Client, ask: &Ask) -> Result<Option<(Located, Duration)>> {
    let stock = &client.session.stock;
    let kind =
        Kind { replication: ask.replication, block_len: ask.block_len, wanted_for: WantedFor::OpenFile(ask.file) };
    let leases = lease_blocks(client, kind, stock.wish_for_one(&ask.excluded)).await?;
    let (mut ours, others): (Vec<Lease>, Vec<Lease>) = leases.into_iter().partition(|lease| lease.file == ask.file);
    let lease = ours.pop();
    others.iter().chain(&ours).for_each(|lease| stock.give_back(lease.block));
    Ok(lease.and_then(|lease| Some((located(&lease)?, lease.batch.until))))
}

fn located(lease: &Lease) -> Option<Located> {
    let Batch { pool, generation, nodes, .. } = &*lease.batch;
    let nodes = nodes.iter().map(node_of).collect::<Option<Arc<[Node]>>>()?;
    let identity =
        Identity { pool: pool.clone(), block: BlockId(lease.block), generation: Generation(*generation), len: 0 };
    let (identifier, password) = (lease.token.clone(), lease.password.clone());
    let token = Token { identifier, password, kind: wire::token::KIND.to_owned(), ..Token::default() };
    Some(Located { offset: 0, len: 0, identity, token, nodes, is_striped: false })
}

fn node_of(node: &BlockNode) -> Option<Node> {
    let (ip, port) = node.addr.rsplit_once(':')?;
    Some(Node {
        id: node.id.clone(),
        ip: ip.trim_matches(['[', ']']).to_owned(),
        xfer_port: port.parse().ok()?,
        addr: node.addr.as_str().into(),
        rack: Some(node.rack.clone()),
        ..Node::default()
    })
}

/// Says that a leased block is the file's, once the one before it is put.
pub(super) async fn register(
    client: Client,
    path: String,
    file: u64,
    (block, token): (Identity, TokenProto),
    before: Closed,
) -> Result<()> {
    let previous = match before {
        Closed::Already(previous) => previous,
        Closed::Soon(closing) => Some(closing.await.flatten()?),
    };
    let request = AddLeasedRequest {
        path,
        holder: client.session.holder.clone(),
        file,
        block: block.block.0,
        generation: block.generation.0,
        previous: previous.map(|previous| PreviousBlock {
            block: previous.block.0,
            generation: previous.generation.0,
            len: previous.len,
        }),
        token: token.identifier,
        password: token.password,
    };
    let AddLeasedResponse {} = client.call_in(CLIENT_PROTOCOL, ADD_LEASED, &request).await?;
    Ok(())
}

/// A block that is put, or about to be, as it ends up.
pub(super) enum Closed {
    Already(Option<Identity>),
    Soon(Closing),
}

pub(super) type Closing = Task<Result<Identity>>;
