//! A file that is open for writing and has no bytes under way: the metadata server's part of a write, call by call.

use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::leases::Lease;
use crate::retry::Pauses;
use xfer::writer::Identity;

/// What a benchmark of the metadata server creates and completes without a datanode. Programs that write bytes use a
/// [`Writer`](crate::Writer).
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
        let new = NewFile { path: path.into(), create: create.clone(), replication, block_len };
        let made = make(self.clone(), new).await?;
        Ok(OpenFile { client: self.clone(), path: path.into(), file: made.file, _lease: made.lease })
    }
}

impl OpenFile {
    /// `addBlock` for the first block of the file; nobody writes it. Answers the block's id.
    pub async fn add_block(&self) -> Result<u64> {
        let block = self.client.add_block(&self.path, self.file, None, &[], Vec::new()).await?;
        Ok(block.identity.block.0)
    }

    /// `complete`. The file must have no block that nobody wrote.
    pub async fn complete(self) -> Result<()> {
        self.client.run(complete(&self.client, &self.path, self.file, None)).await
    }
}

/// A file as it shall be.
#[derive(Clone, Debug)]
pub(super) struct NewFile {
    pub(super) path: String,
    pub(super) create: Create,
    pub(super) replication: u16,
    pub(super) block_len: u64,
}

/// A file that the server has made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) file: u64,
    pub(super) lease: Lease,
}

pub(super) async fn make(client: Client, new: NewFile) -> Result<Made> {
    let NewFile { path, create, replication, block_len } = new;
    // Held first: were the renewals late, the lease could be lost between.
    let lease = client.hold_lease();
    let file = client.create_file(&path, &create, replication, block_len).await?;
    Ok(Made { file, lease })
}

/// Ends a file whose last block is `last`, as soon as that one has a replica that is put.
pub(super) async fn complete(client: &Client, path: &str, file: u64, last: Option<&Identity>) -> Result<()> {
    let mut pauses = Pauses::until_ready();
    while !client.complete_file(path, file, last).await? {
        tokio::time::sleep(pauses.next().ok_or(Error::NotComplete)?).await;
    }
    Ok(())
}
