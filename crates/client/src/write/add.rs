//! Asking for the next block of a file, and setting up its chain.
//!
//! A task of its own: the server takes a repeated request for a repeated one only until the block's nodes have begun
//! it, so what was begun is brought to its end, whether the writer still waits for it or comes back later.

use super::block::Block;
use super::{PAUSE_COUNT, PAUSE_FIRST};
use crate::client::Client;
use crate::error::{Error, Result};
use hdfs::proto;
use types::ChecksumSpec;

/// What a writer knows when it needs a block.
#[derive(Clone, Debug)]
pub(super) struct NewBlock {
    pub(super) path: String,
    pub(super) file: u64,
    pub(super) spec: ChecksumSpec,
    /// The block before, with its final length.
    pub(super) previous: Option<proto::ExtendedBlockProto>,
    /// Nodes that could not be reached; not to be given again.
    pub(super) excluded: Vec<proto::DatanodeInfoProto>,
}

/// A block, and the nodes that could not be reached by then.
pub(super) type Adding = io::task::Owned<Result<(Block, Vec<proto::DatanodeInfoProto>)>>;

/// A block with a chain that stands. Nodes that cannot be reached are told to the server, which gives others.
pub(super) async fn add_block(client: Client, mut new: NewBlock) -> Result<(Block, Vec<proto::DatanodeInfoProto>)> {
    let mut faults = Vec::new();
    for _ in 0..=client.options().block_retries {
        let located = ask(&client, &new).await?;
        let id = located.b.clone();
        match Block::create(&client, &new.path, located, new.spec).await {
            Ok(block) => return Ok((block, new.excluded)),
            Err((node, fault)) => {
                let addr = node.id.xfer_addr();
                tracing::info!(path = new.path, node = addr, %fault, "a block's chain could not be set up; asking for another");
                client.inner.small.avoid(&node);
                new.excluded.push(node);
                faults.push((addr, fault));
            }
        }
        let request = proto::AbandonBlockRequestProto {
            b: id,
            src: new.path.clone(),
            holder: client.inner.holder.clone(),
            file_id: Some(new.file),
        };
        let _: proto::AbandonBlockResponseProto = client.call("abandonBlock", &request).await?;
    }
    Err(Error::NoNodeLeft { block: 0, tried: crate::datanode::tried(&faults) })
}

async fn ask(client: &Client, new: &NewBlock) -> Result<proto::LocatedBlockProto> {
    let mut request = proto::AddBlockRequestProto {
        src: new.path.clone(),
        client_name: client.inner.holder.clone(),
        previous: new.previous.clone(),
        exclude_nodes: new.excluded.clone(),
        file_id: Some(new.file),
        ..Default::default()
    };
    request.exclude_nodes.extend(client.inner.small.avoided().into_iter().map(by_id));
    let mut pause = PAUSE_FIRST;
    for _ in 0..PAUSE_COUNT {
        let answer: Result<proto::AddBlockResponseProto> = client.call("addBlock", &request).await;
        match answer {
            // The block before has no whole replica reported yet.
            Err(error) if error.is_class(hdfs::exception::NOT_REPLICATED_YET) => {}
            // A node that failed another block of ours may be well again, and better than none.
            Err(_) if request.exclude_nodes.len() > new.excluded.len() => {
                request.exclude_nodes.truncate(new.excluded.len());
                continue;
            }
            Err(error) => return Err(error),
            Ok(answer) if answer.block.locs.is_empty() => {
                return Err(client.not_understood("a new block without nodes"));
            }
            Ok(answer) => return Ok(answer.block),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(Error::NotComplete)
}

fn by_id(node: String) -> proto::DatanodeInfoProto {
    let id = proto::DatanodeIdProto { datanode_uuid: node, ..Default::default() };
    proto::DatanodeInfoProto { id, ..Default::default() }
}
