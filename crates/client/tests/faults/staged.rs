//! Files that get their name when they are whole, and what is left of those that do not.

use crate::support::{Store, bytes};
use client::{Client, Create, ErrorKind, Existing, Staged, is_unfinished};
use futures_util::FutureExt;
use std::time::Duration;
use wire::Abilities;

async fn staged(client: &Client, path: &str, len: usize) -> Staged {
    let mut staged = client.stage(path, &Create::default()).await.unwrap();
    staged.write(&bytes(len)).await.unwrap();
    assert_eq!(staged.position(), len as u64);
    staged
}

fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<_> = store.book.state().files.keys().cloned().collect();
    names.sort_unstable();
    names
}

/// Waits for the task that removes it.
async fn nothing_is_left(store: &Store) {
    for _ in 0..400 {
        if names(store).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(names(store), [""; 0]);
}

#[tokio::test]
async fn a_file_has_its_name_when_it_is_whole() {
    let store = Store::new(2).await;
    for (number, len) in [0, 100, 300_000, 2_500_000].into_iter().enumerate() {
        let path = format!("/d/{number}");
        let staged = staged(&store.client, &path, len).await;
        let unfinished = names(&store).pop().unwrap();
        assert!(unfinished.starts_with("/d/.levada-") && is_unfinished(&unfinished), "{unfinished}");
        assert_eq!(staged.commit(Existing::Stays).await.unwrap(), 16386);
        assert!(store.book.contents(&path) == bytes(len));
        store.book.state().files.clear();
    }
}

/// A store of ours gets it in one call, under the name that it is to have, and never hears of another.
#[tokio::test]
async fn a_small_file_has_one_name() {
    let store = Store::new(2).await;
    store.book.state().abilities = Some(Abilities::SMALL_FILES.bits());
    let staged = staged(&store.client, "/f", 100).await;
    assert_eq!(names(&store), [""; 0]);
    staged.commit(Existing::Replaced).await.unwrap();
    assert!(store.book.contents("/f") == bytes(100));
    let count = |method| store.book.count(method);
    assert_eq!((count("putFile"), count("create"), count("rename2"), count("delete")), (1, 0, 0, 0));
}

#[tokio::test]
async fn a_name_that_is_taken_is_given_to_nobody() {
    let store = Store::new(2).await;
    store.book.add_file("/f", &[b"old"]);
    let refused = staged(&store.client, "/f", 300_000).await.commit(Existing::Stays).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exists);
    assert_eq!((names(&store), store.book.contents("/f")), (vec!["/f".into()], b"old".to_vec()));
    staged(&store.client, "/f", 300_000).await.commit(Existing::Replaced).await.unwrap();
    assert_eq!(names(&store), ["/f"]);
    assert!(store.book.contents("/f") == bytes(300_000));
}

#[tokio::test]
async fn what_is_given_up_is_deleted() {
    let store = Store::new(2).await;
    for len in [10, 2_500_000] {
        staged(&store.client, "/f", len).await.discard().await;
        assert_eq!(names(&store), [""; 0]);
        drop(staged(&store.client, "/f", len).await);
        nothing_is_left(&store).await;
        // At its end, by a deadline.
        let commit = staged(&store.client, "/f", len).await.commit(Existing::Replaced);
        assert!(commit.now_or_never().is_none());
        nothing_is_left(&store).await;
    }
    for path in ["f", "/d/"] {
        assert!(store.client.stage(path, &Create::default()).await.is_err(), "{path}");
    }
}
