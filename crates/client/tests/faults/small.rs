//! Small files that are refused on their way.

use crate::support::{Store, bytes};
use client::{Client, Create, ErrorKind, Result};
use wire::Abilities;

async fn put(client: &Client, path: &str) -> Result<()> {
    let mut writer = client.create(path, &Create::default()).await?;
    writer.write(&bytes(100)).await?;
    writer.close().await
}

/// A server that refuses a put, or a request for leases, need not have looked at its blocks: they are given back until
/// somebody has taken them.
#[tokio::test]
async fn what_was_not_put_is_given_back() {
    let store = Store::new(1).await;
    store.book.state().abilities = Some(Abilities::SMALL_FILES.bits());
    store.book.state().refused_puts = 1;
    let refused = put(&store.client, "/refused").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SafeMode);
    // With the other blocks of the first batch.
    for path in ["/a", "/b", "/c"] {
        put(&store.client, path).await.unwrap();
    }
    assert_eq!(store.book.count("leaseBlocks"), 1);

    store.book.state().refused_leases = 1;
    put(&store.client, "/streamed").await.unwrap();
    assert_eq!((store.book.count("leaseBlocks"), store.book.state().returned.len()), (2, 0));
    put(&store.client, "/d").await.unwrap();
    assert_eq!(store.book.state().returned, [1]);
    assert_eq!((store.book.count("putFile"), store.book.count("create")), (5, 1));
}
