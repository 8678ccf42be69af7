//! Asking for the next block of a file, and setting up its chain.
//!
//! A task of its own: the server takes a repeated request for a repeated one only until the block's nodes have begun
//! it, so what was begun is brought to its end, whether the writer still waits for it or comes back later.

use super::block::Block;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::located::{Located, Node};
use crate::retry::{Pauses, told};
use crate::scope::Task;
use std::sync::Arc;
use std::time::Duration;
use types::ChecksumSpec;
use xfer::fault::Fault;
use xfer::writer::Identity;

/// What a writer knows when it needs a block.
#[derive(Clone, Debug)]
pub(super) struct NewBlock {
    pub(super) path: String,
    pub(super) file: u64,
    pub(super) spec: ChecksumSpec,
    /// The block before, with its final length.
    pub(super) previous: Option<Identity>,
    /// Nodes that could not be reached; not to be given again.
    pub(super) excluded: Vec<Node>,
}

/// A block, and the nodes that could not be reached by then.
pub(super) type Adding = Task<Result<(Block, Vec<Node>)>>;

/// How long a node that took no connection, or no block, may need until it does again, as one that starts anew or has
/// its hands full. Waited for once, where the server has no other node.
const WELL_AGAIN: Duration = Duration::from_secs(1);

/// A block with a chain that stands. Nodes that cannot be reached are told to the server, which gives others; where it
/// has none, they are asked once more.
pub(super) async fn add_block(client: Client, mut new: NewBlock) -> Result<(Block, Vec<Node>)> {
    let mut faults = Vec::new();
    let mut is_forgiven = false;
    let mut block = 0;
    for _ in 0..=client.options().block_retries {
        let located = match ask(&client, &new).await {
            Ok(located) => located,
            Err(refusal) if has_no_node(&refusal) && !new.excluded.is_empty() && !is_forgiven => {
                is_forgiven = true;
                tokio::time::sleep(WELL_AGAIN).await;
                new.excluded.clear();
                ask(&client, &new).await.map_err(|refusal| refused(refusal, &faults))?
            }
            Err(refusal) => return Err(refused(refusal, &faults)),
        };
        block = located.identity.block.0;
        match Block::create(&client, &new.path, &located, new.spec).await {
            Ok(block) => return Ok((block, new.excluded)),
            Err((node, fault)) => {
                let addr = node.addr.clone();
                let path = &new.path;
                tracing::info!(path, node = %addr, %fault, "a block's chain could not be set up; asking for another");
                // Another block brings another token, which the same node may take.
                if !fault.is_token_refusal() {
                    client.session.stock.exclude(&node.id);
                    new.excluded.push(node);
                }
                faults.push((addr, fault));
            }
        }
        client.abandon_block(&new.path, new.file, &located.identity).await?;
    }
    Err(Error::NoNodeLeft { block, tried: told(&faults) })
}

/// HDFS has no class of its own for this.
fn has_no_node(refusal: &Error) -> bool {
    refusal.is_class(hdfs::exception::IO)
}

/// Why nodes were excluded is known here alone.
fn refused(refusal: Error, faults: &[(Arc<str>, Fault)]) -> Error {
    match has_no_node(&refusal) && !faults.is_empty() {
        true => Error::NoOtherNode { refusal: Box::new(refusal), tried: told(faults) },
        false => refusal,
    }
}

async fn ask(client: &Client, new: &NewBlock) -> Result<Located> {
    let mut avoided = client.session.stock.excluded();
    let mut pauses = Pauses::until_ready();
    loop {
        let previous = new.previous.as_ref();
        match client.add_block(&new.path, new.file, previous, &new.excluded, avoided.clone()).await {
            // The block before has no whole replica reported yet.
            Err(error) if error.is_class(hdfs::exception::NOT_REPLICATED_YET) => {}
            // A node that failed another block of ours may be well again, and better than none.
            Err(_) if !avoided.is_empty() => {
                avoided.clear();
                continue;
            }
            answer => return answer,
        }
        tokio::time::sleep(pauses.next().ok_or(Error::NotComplete)?).await;
    }
}
