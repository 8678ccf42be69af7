//! The calls themselves. Each checks its answer: what is counted was done.

use super::call::ENTRY_COUNT;
use crate::shell::{Failure, Target};
use client::{Client, Create, OpenFile};

/// Goes to the datanodes in one request.
const OPENED_LEN: usize = 4096;

pub(super) async fn mkdir(client: Client, target: Target) -> Result<(), Failure> {
    client.mkdirs(&target.path, 0o755, false).await.map_err(|error| target.failure(&error))
}

/// `create` alone.
pub(super) async fn create_open(client: Client, target: Target) -> Result<OpenFile, Failure> {
    client.create_open(&target.path, &options()).await.map_err(|error| target.failure(&error))
}

/// `create` and `complete`.
pub(super) async fn create(client: Client, target: Target) -> Result<(), Failure> {
    let file = create_open(client, target.clone()).await?;
    file.complete().await.map_err(|error| target.failure(&error))
}

pub(super) async fn stat(client: Client, target: Target) -> Result<(), Failure> {
    let status = client.existing(&target.path).await.map_err(|error| target.failure(&error))?;
    expect(&target, status.len == 0, "its length is not that of an empty file")
}

/// A file that [`open`] can open.
pub(super) async fn write(client: Client, target: Target) -> Result<(), Failure> {
    let write = async {
        let mut writer = client.create(&target.path, &options()).await?;
        writer.write(&[0; OPENED_LEN]).await?;
        writer.close().await
    };
    write.await.map_err(|error| target.failure(&error))
}

pub(super) async fn open(client: Client, target: Target) -> Result<(), Failure> {
    let blocks = client.locations(&target.path).await.map_err(|error| target.failure(&error))?;
    expect(&target, blocks.len() == 1, "it does not have its one block")
}

pub(super) async fn add_block(file: &OpenFile, target: Target) -> Result<(), Failure> {
    file.add_block().await.map(|_| ()).map_err(|error| target.failure(&error))
}

pub(super) async fn rename(client: Client, target: Target, to: Target) -> Result<(), Failure> {
    client.rename(&target.path, &to.path, false).await.map_err(|error| target.failure(&error))
}

pub(super) async fn delete(client: Client, target: Target) -> Result<(), Failure> {
    let deleted = client.delete(&target.path, false).await.map_err(|error| target.failure(&error))?;
    expect(&target, deleted, "it is not there to delete")
}

pub(super) async fn list(client: Client, target: Target) -> Result<(), Failure> {
    let list = async { client.list(&target.path).await?.collect().await };
    let entries = list.await.map_err(|error| target.failure(&error))?;
    expect(&target, entries.len() as u64 == ENTRY_COUNT, "its listing is not whole")
}

/// Not the parents: after an interrupt a late creation must not bring the directory back.
fn options() -> Create {
    Create { parents: false, ..Create::default() }
}

fn expect(target: &Target, holds: bool, fault: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::new(target, fault).advise("this is a fault of the store; report it")) }
}
