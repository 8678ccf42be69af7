//! A file that is open for writing and has no bytes under way: the metadata server's part of a write, call by call.

use super::{Create, PAUSE_COUNT, PAUSE_FIRST, Pending, make};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::lease::Lease;
use hdfs::proto;

/// What a benchmark of the metadata server creates and completes without a datanode. Programs that write bytes use a
/// [`Writer`](super::Writer).
#[derive(Debug)]
pub struct OpenFile {
    client: Client,
    path: String,
    file: u64,
    _lease: Lease,
}

impl Client {
    /// `create` alone, as stock clients send it, also to a store that takes small files in one call.
    pub async fn create_open(&self, path: &str, create: &Create) -> Result<OpenFile> {
        let defaults = self.defaults().await?;
        let block_len = create.block_len.unwrap_or(defaults.block_len);
        let replication = create.replication.unwrap_or(defaults.replication);
        let made = make(self.clone(), path.into(), block_len, Pending { create: create.clone(), replication }).await?;
        Ok(OpenFile { client: self.clone(), path: path.into(), file: made.file, _lease: made.lease })
    }
}

impl OpenFile {
    /// `addBlock` for the first block of the file; nobody writes it. Answers the block's id.
    pub async fn add_block(&self) -> Result<u64> {
        let request = proto::AddBlockRequestProto {
            src: self.path.clone(),
            client_name: self.client.inner.holder.clone(),
            file_id: Some(self.file),
            ..Default::default()
        };
        let answer: proto::AddBlockResponseProto = self.client.call("addBlock", &request).await?;
        if answer.block.locs.is_empty() {
            return Err(self.client.not_understood("a new block without nodes"));
        }
        Ok(answer.block.b.block_id)
    }

    /// `complete`. The file must have no block that nobody wrote.
    pub async fn complete(self) -> Result<()> {
        complete(&self.client, &self.path, self.file, None).await
    }
}

/// Ends a file whose last block is `last`, as soon as that one has a replica that is put.
pub(super) async fn complete(
    client: &Client,
    path: &str,
    file: u64,
    last: Option<proto::ExtendedBlockProto>,
) -> Result<()> {
    let request = proto::CompleteRequestProto {
        src: path.into(),
        client_name: client.inner.holder.clone(),
        last,
        file_id: Some(file),
    };
    let mut pause = PAUSE_FIRST;
    for _ in 0..PAUSE_COUNT {
        let answer: proto::CompleteResponseProto = client.call("complete", &request).await?;
        if answer.result {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(Error::NotComplete)
}
