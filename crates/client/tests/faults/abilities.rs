//! What servers state that they can do, and what the client asks of them.

use crate::support::Group;
use client::Create;
use wire::Abilities;

/// One that no program knows yet.
const UNKNOWN: u64 = 1 << 63;

async fn write_empty(group: &Group, path: &str) {
    group.client.create(path, &Create::default()).await.unwrap().close().await.unwrap();
}

/// How often a server was asked for its abilities, to put a file whole, and to create one.
fn asked(group: &Group, server: usize) -> [usize; 3] {
    ["getServerDefaults", "putFile", "create"].map(|method| group.books[server].count(method))
}

#[tokio::test]
async fn a_server_without_abilities_is_written_to_as_hdfs_is() {
    for abilities in [None, Some(UNKNOWN)] {
        let group = Group::with_abilities(&[abilities]).await;
        write_empty(&group, "/a").await;
        write_empty(&group, "/b").await;
        assert_eq!(asked(&group, 0), [1, 0, 2], "{abilities:?}");
    }
}

/// A server of the version before takes over: it is not asked again and again for what it cannot do.
#[tokio::test]
async fn abilities_are_kept_for_each_server() {
    let group = Group::with_abilities(&[Some(UNKNOWN | Abilities::SMALL_FILES.bits()), None]).await;
    write_empty(&group, "/a").await;
    write_empty(&group, "/b").await;
    assert_eq!(asked(&group, 0), [1, 2, 0]);

    group.books[0].state().stands_by = true;
    group.books[1].state().stands_by = false;
    // The failover is found out by the call itself, whose file is streamed then.
    write_empty(&group, "/c").await;
    assert_eq!(asked(&group, 1), [0, 1, 1]);
    write_empty(&group, "/d").await;
    write_empty(&group, "/e").await;
    assert_eq!(asked(&group, 1), [1, 1, 3]);

    group.books[0].state().stands_by = false;
    group.books[1].state().stands_by = true;
    write_empty(&group, "/f").await; // the call to create finds the first server again
    write_empty(&group, "/g").await;
    assert_eq!(asked(&group, 0)[..2], [1, 4]);
}
