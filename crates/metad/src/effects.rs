//! What the leader is handed when an entry of the log was applied; [`lead::Leader`] decides.
//!
//! Promise: it happens with the entry, so also when the call that proposed it was dropped, panicked, or was told that
//! its outcome is in doubt. Calls have nothing to do after their change.

use crate::core::Core;
use crate::machine::Follower;
use blocks::BlocksError;
use lead::Wakes;
use namespace::Effects;

impl Follower for Core {
    fn on_blocks(&self, command: &blocks::Command, answer: &Result<blocks::Reply, BlocksError>) {
        self.leader().on_applied(command, answer);
    }

    fn on_effects(&self, effects: &Effects) {
        let now = self.monotonic();
        let Wakes { reaper, doomed_rows, repair } = self.leader().on_effects(effects, now);
        if doomed_rows {
            self.must_feed();
        } else if reaper {
            self.reap.notify_one();
        }
        if repair {
            self.repair_wake.notify_one();
        }
    }

    fn on_effects_lost(&self) {
        self.must_feed();
        self.repair_wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealing::tests::{LEN, add_block, create, with_node};
    use namespace::{BlockRef, Complete, Delete, Op};
    use std::task::Poll;
    use std::time::Duration;
    use types::FsPath;

    /// Proposes a change, and goes away before there is an answer.
    async fn propose_and_go(core: &Core, op: impl Into<Op>) {
        let mut proposed = std::pin::pin!(core.change_unasked(op));
        let once = std::future::poll_fn(|context| Poll::Ready(proposed.as_mut().poll(context).is_pending()));
        assert!(once.await, "an entry takes a sync of the log");
    }

    async fn eventually(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..500 {
            if is_so() {
                return;
            }
            io::stage::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}");
    }

    fn complete(path: &FsPath, last: BlockRef) -> Complete {
        Complete { path: path.clone(), client: "writer".into(), file: None, last: Some(last), seen: false }
    }

    /// Its caller hung up, or panicked: the leader looks after what it changed all the same.
    #[tokio::test]
    async fn a_change_that_nobody_waits_for_has_its_effects() {
        let (_dir, metad, core) = with_node().await;
        let path = FsPath::parse("/f").unwrap();
        create(&core, &path).await;
        let (last, home) = add_block(&core, &path).await;
        propose_and_go(&core, complete(&path, last)).await;
        let len = || core.with_cluster(|cluster, _| cluster.container(home).unwrap().len_about());
        eventually("its container counts the block", || len() == LEN).await;
        propose_and_go(&core, Delete { path, recursive: false, examined: None }).await;
        // Not by the reaper's own look, which comes every few seconds.
        eventually("the replica is to be deleted", || !core.leader().doomed.is_empty()).await;
        drop(core);
        metad.shutdown().await;
    }

    /// A client that repeats its call, or names another length in it, makes no container longer.
    #[tokio::test]
    async fn a_container_grows_once_by_what_is_recorded() {
        let (_dir, metad, core) = with_node().await;
        let path = FsPath::parse("/f").unwrap();
        create(&core, &path).await;
        let (last, home) = add_block(&core, &path).await;
        let len = || core.with_cluster(|cluster, _| cluster.container(home).unwrap().len_about());
        for claimed in [LEN + 1, LEN, LEN, LEN - 1, u64::MAX] {
            let answer = core.change_unasked(complete(&path, BlockRef { len: claimed, ..last })).await;
            assert_eq!(answer.is_ok(), claimed == LEN, "{claimed}: {answer:?}");
            assert_eq!(len(), if claimed > LEN && len() == 0 { 0 } else { LEN }, "{claimed}");
        }
        drop(core);
        metad.shutdown().await;
    }
}
