//! One READ_BLOCK from one node: which connection it takes, and what becomes of that. What is read, and how it is
//! verified, is [`Receiver`]'s.

use crate::client::Client;
use crate::datanode::Connection;
use crate::located::{Located, Node};
use std::sync::Arc;
use std::time::Duration;
use xfer::fault::Fault;
use xfer::read::{Given, Range, Receiver};

#[derive(Debug)]
pub(super) struct BlockReader {
    pub(super) block: Arc<Located>,
    pub(super) node: Node,
    connection: Connection,
    receiver: Receiver,
}

impl BlockReader {
    /// Asks for this range of the block. `stall`: how long the node may bring nothing.
    pub(super) async fn open(
        client: &Client,
        block: &Arc<Located>,
        node: &Node,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        let store = client.store();
        let begun = store.now();
        let reader = Self::open_connection(client, block, node, range, stall).await?;
        store.hedging().took(store.now().saturating_sub(begun));
        Ok(reader)
    }

    async fn open_connection(
        client: &Client,
        block: &Arc<Located>,
        node: &Node,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        let request = block.read_request(&client.session.holder, range)?;
        let start = |connection| Self::start(connection, &request, block, node, range, stall);
        client.on_connection(block, node, stall, start).await
    }

    async fn start(
        mut connection: Connection,
        request: &[u8],
        block: &Arc<Located>,
        node: &Node,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        connection.allow(stall);
        connection.send(request).await?;
        let mut receiver = connection.receiver(range);
        while receiver.poll_answer()?.is_none() {
            connection.bring(&mut receiver, &mut [][..]).await?;
        }
        Ok(Self { block: Arc::clone(block), node: node.clone(), connection, receiver })
    }

    pub(super) fn file_position(&self) -> u64 {
        self.block.offset + self.receiver.position()
    }

    pub(super) fn file_end(&self) -> u64 {
        self.block.offset + self.receiver.end()
    }

    /// Bytes up to there are read and verified, but not given.
    pub(super) fn skip_to(&mut self, file_position: u64) {
        self.receiver.skip_to(file_position - self.block.offset);
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
                Ok(Given::Nothing) => self.connection.bring(&mut self.receiver, dest).await.err(),
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
            self.connection.put_back(self.receiver.into_front());
            self.connection.allow(client.options().timeout);
            client.store().put_idle(self.connection);
        }
    }

    async fn conclude(&mut self) -> Result<(), Fault> {
        loop {
            match self.receiver.poll_end()? {
                Some(verdict) => return self.connection.send(&verdict).await,
                None => _ = self.connection.bring(&mut self.receiver, &mut [][..]).await?,
            }
        }
    }
}
