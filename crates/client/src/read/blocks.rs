//! Where the blocks of one open file are, as far as was asked.

use crate::client::Client;
use crate::error::{Error, Result};
use hdfs::proto;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Blocks {
    /// By offset in the file.
    known: BTreeMap<u64, Block>,
    len: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) offset: u64,
    /// Bytes that may be read.
    pub(super) len: u64,
    pub(super) located: proto::LocatedBlockProto,
}

/// Blocks kept of one answer; those behind are asked for when the reader comes to them. Files of usual blocks have ten
/// in an answer, those that were concatenated from small ones may have any number.
const PAGE_COUNT_MAX: usize = 1000;
/// Longest answer of a datanode about one block: a number, or an exception with its stack trace. A guess, far above
/// both.
const VISIBLE_ANSWER_LEN_MAX: u32 = 64 << 10;
/// Locations are asked for this many bytes at a time: ten blocks of the usual length, as HDFS's client does.
const PREFETCH_LEN: u64 = 10 * types::limits::BLOCK_LEN_DEFAULT;

impl Blocks {
    pub(super) async fn open(client: &Client, path: &str) -> Result<Self> {
        let located = client.located(path, 0, PREFETCH_LEN).await?;
        if located.blocks.iter().any(|block| block.block_indices.is_some()) {
            return Err(Error::Unsupported("reading an erasure coded file"));
        }
        let mut blocks = Self { known: BTreeMap::new(), len: located.file_length };
        let last = located.last_block.clone().filter(|_| located.under_construction && !located.is_last_block_complete);
        blocks.add(located.blocks);
        if let Some(last) = last {
            // The file is being written: the metadata server does not know how far, the datanodes do.
            let len = visible_len(client, &last).await?;
            blocks.len = last.offset.saturating_add(len);
            blocks.known.insert(last.offset, Block { offset: last.offset, len, located: last });
        }
        Ok(blocks)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn at(&self, offset: u64) -> Option<Block> {
        let (_, block) = self.known.range(..=offset).next_back()?;
        (offset - block.offset < block.len).then(|| block.clone())
    }

    pub(super) async fn fetch(&mut self, client: &Client, path: &str, offset: u64, len_max: u64) -> Result<()> {
        let located = client.located(path, offset, PREFETCH_LEN.min(len_max)).await?;
        self.add(located.blocks);
        Ok(())
    }

    /// Asks anew for the block at `offset`; what is known of its readable length stays.
    pub(super) async fn refetch(&mut self, client: &Client, path: &str, offset: u64) -> Result<()> {
        let located = client.located(path, offset, 1).await?;
        let fresh = located.blocks.into_iter().chain(located.last_block).find(|block| block.offset == offset);
        match (fresh, self.known.get_mut(&offset)) {
            (Some(fresh), Some(known)) if fresh.b.block_id == known.located.b.block_id => known.located = fresh,
            // The file was replaced under its name; bytes of two files must not be mixed.
            _ => return Err(Error::NotFound),
        }
        Ok(())
    }

    fn add(&mut self, located: Vec<proto::LocatedBlockProto>) {
        for located in located.into_iter().take(PAGE_COUNT_MAX) {
            let (offset, len) = (located.offset, located.b.num_bytes.unwrap_or(0));
            // What lies beyond the length is still being written, and is known by its own way.
            if offset < self.len {
                self.known.entry(offset).or_insert(Block { offset, len: len.min(self.len - offset), located });
            }
        }
    }
}

/// How many bytes of a block that is being written may be read: whichever of its nodes answers first says so.
async fn visible_len(client: &Client, block: &proto::LocatedBlockProto) -> Result<u64> {
    let mut failed = None;
    let mut missing = 0;
    for node in &block.locs {
        let addr = node.id.ipc_addr();
        let (user, protocol) = (client.user().to_owned(), hdfs::protocol::CLIENT_DATANODE);
        let options = rpc::ClientOptions { frame_len_max: VISIBLE_ANSWER_LEN_MAX, ..rpc::ClientOptions::default() };
        let datanode = rpc::Client::with_options(addr.clone(), user, protocol, options);
        let request = proto::GetReplicaVisibleLengthRequestProto { block: block.b.clone() };
        let answer: Result<proto::GetReplicaVisibleLengthResponseProto, _> =
            datanode.call("getReplicaVisibleLength", &request).await;
        match answer.map_err(|error| Error::of_call(&addr, error)) {
            Ok(answer) => return Ok(answer.length),
            Err(error) if error.is_class(hdfs::exception::REPLICA_NOT_FOUND) => missing += 1,
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        // No node has it, or none is named: the block was asked for, and nothing was written yet.
        None => Ok(if missing == block.locs.len() { 0 } else { block.b.num_bytes.unwrap_or(0) }),
        Some(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Url;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    fn located(offset: u64, len: u64) -> proto::LocatedBlockProto {
        let b = proto::ExtendedBlockProto { num_bytes: Some(len), ..Default::default() };
        proto::LocatedBlockProto { offset, b, ..Default::default() }
    }

    /// Of a file of very many blocks a page is kept; the reader asks for the next one when it comes there.
    #[test]
    fn a_long_answer_is_kept_as_far_as_a_page_goes() {
        let count = PAGE_COUNT_MAX as u64;
        let mut blocks = Blocks { known: BTreeMap::new(), len: 3 * count };
        let from = |first: u64| (first..3 * count).map(|offset| located(offset, 1)).collect::<Vec<_>>();
        blocks.add(from(0));
        assert_eq!(blocks.known.len(), PAGE_COUNT_MAX);
        assert!(blocks.at(count - 1).is_some() && blocks.at(count).is_none());
        blocks.add(from(count));
        assert_eq!(blocks.at(count).map(|block| block.offset), Some(count));
    }

    /// A datanode begins an answer of a hundred megabytes. Nobody waits for the rest of it, nor makes room for it.
    #[tokio::test]
    async fn a_datanode_answers_shortly() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut block = located(0, 5);
        let id = proto::DatanodeIdProto { ip_addr: "127.0.0.1".into(), ipc_port: port.into(), ..Default::default() };
        block.locs = vec![proto::DatanodeInfoProto { id, ..Default::default() }];
        let client = Client::connect(&Url::parse("hdfs://127.0.0.1:1/").unwrap(), "me");
        let answer = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(&(100u32 << 20).to_be_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        };
        let asked = timeout(Duration::from_secs(10), visible_len(&client, &block));
        let asked = tokio::select! { asked = asked => asked, () = answer => unreachable!() };
        assert!(asked.expect("it is refused at once").is_err());
    }
}
