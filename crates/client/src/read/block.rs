//! One READ_BLOCK from one node: which connection it takes, and what becomes of that. What is read, and how it is
//! verified, is [`Receiver`]'s.

use crate::client::Client;
use crate::datanode::Link;
use hdfs::proto;
use std::time::Duration;
use xfer::fault::Fault;
use xfer::read::{self, Given, Receiver};

/// What to read of one block. Offsets are those of the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Where the block begins in the file.
    pub(super) block_offset: u64,
    pub(super) from: u64,
    pub(super) end: u64,
}

#[derive(Debug)]
pub(super) struct BlockReader {
    pub(super) located: proto::LocatedBlockProto,
    pub(super) node: proto::DatanodeInfoProto,
    block_offset: u64,
    link: Link,
    receiver: Receiver,
}

impl BlockReader {
    /// `stall`: how long the node may bring nothing.
    pub(super) async fn open(
        client: &Client,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        let pace = &client.inner.pace;
        let begun = pace.now();
        let reader = Self::open_link(client, located, node, range, stall).await?;
        pace.took(pace.now().saturating_sub(begun));
        Ok(reader)
    }

    async fn open_link(
        client: &Client,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        // An idle connection may have been closed by the other side just now; that is no fault of the replica.
        if let Some(link) = client.inner.sockets.take(&node.id.xfer_addr()) {
            match Self::start(client, link, located, node, range, stall).await {
                Err(Fault::Broken(_)) => {}
                done => return done,
            }
        }
        let connecting = tokio::time::timeout(stall, Link::connect(node, client.options())).await;
        let link = connecting.map_err(|_| Fault::Silent)??;
        Self::start(client, link, located, node, range, stall).await
    }

    async fn start(
        client: &Client,
        mut link: Link,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        link.allow(stall);
        let asked = read::Range { from: range.from, end: range.end };
        let (block, token) = (located.b.clone(), located.block_token.clone());
        link.send(&read::request(block, token, client.inner.holder.clone(), asked)).await?;
        let mut receiver = link.receiver(asked);
        while receiver.poll_answer()?.is_none() {
            link.bring(&mut receiver, &mut []).await?;
        }
        let (located, node, block_offset) = (located.clone(), node.clone(), range.block_offset);
        Ok(Self { located, node, block_offset, link, receiver })
    }

    pub(super) fn file_position(&self) -> u64 {
        self.block_offset + self.receiver.position()
    }

    pub(super) fn file_end(&self) -> u64 {
        self.block_offset + self.receiver.end()
    }

    /// Bytes up to there are read and verified, but not given.
    pub(super) fn skip_to(&mut self, file_position: u64) {
        self.receiver.skip_to(file_position - self.block_offset);
    }

    /// Fills as much of `dest` as the range has. The count holds also beside a fault: those bytes were verified.
    pub(super) async fn read(&mut self, dest: &mut [u8]) -> (usize, Option<Fault>) {
        let mut done = 0;
        while done < dest.len() {
            let dest = &mut dest[done..];
            let fault = match self.receiver.poll(dest) {
                Ok(Given::Bytes(len)) => {
                    done += len;
                    continue;
                }
                Ok(Given::Nothing) => self.link.bring(&mut self.receiver, dest).await.err(),
                Ok(Given::All) => break,
                Err(fault) => Some(fault),
            };
            if fault.is_some() {
                return (done, fault);
            }
        }
        (done, None)
    }

    /// All was read: takes the end, says that it was good, and leaves the connection for the next. A fault here costs
    /// the connection and nothing else.
    pub(super) async fn finish(mut self, client: &Client) {
        if self.conclude().await.is_ok() {
            self.link.received(self.receiver);
            self.link.allow(client.options().timeout);
            client.inner.sockets.put(self.link);
        }
    }

    async fn conclude(&mut self) -> Result<(), Fault> {
        loop {
            match self.receiver.poll_end()? {
                Some(verdict) => return self.link.send(&verdict).await,
                None => self.link.bring(&mut self.receiver, &mut []).await?,
            }
        }
    }
}
