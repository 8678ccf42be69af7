//! Hand-over of an applied entry's effects to the leader; [`lead::Leader`] decides.
//!
//! Promise: it happens with the entry. So it also happens if the proposing call was dropped, panicked, or got an answer
//! that its outcome is in doubt. Calls have nothing to do after their change.

use crate::core::Core;
use crate::machine::Follower;
use crate::repair;
use blocks::BlocksError;
use lead::Wakeups;
use namespace::Effects;
use security::rings::{self, RingError};

impl Follower for Core {
    fn on_blocks(&self, command: &blocks::Command, answer: &Result<blocks::Reply, BlocksError>) {
        let rules = repair::rules(self);
        let wakes = self.leader_unless_broken().map(|mut leader| leader.on_applied(command, answer, rules));
        self.wake(wakes.unwrap_or_default());
    }

    fn on_rings(&self, command: &rings::Command, answer: &Result<(), RingError>) {
        self.leader_unless_broken().into_iter().for_each(|mut leader| leader.keys.on_applied(command, answer));
    }

    fn on_blocks_lost(&self) {
        self.break_off();
    }

    fn on_effects(&self, effects: &Effects) {
        let now = self.monotonic();
        let wakes = self.leader_unless_broken().map(|mut leader| leader.on_effects(effects, now));
        self.wake(wakes.unwrap_or_default());
    }

    fn on_effects_lost(&self) {
        self.leader_unless_broken().into_iter().for_each(|mut leader| leader.doomed.reload());
        self.wake(Wakeups { deletion: true, repair: true });
    }
}

impl Core {
    fn wake(&self, Wakeups { deletion, repair }: Wakeups) {
        if deletion {
            self.deletion_wake.notify_one();
        }
        if repair {
            self.repair_wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::{LEN, add_block, create, with_node};
    use blocks::{JobKind, JobRow, JobTask};
    use namespace::{BlockRef, Complete, Delete, Op};
    use std::task::Poll;
    use std::time::Duration;
    use types::{FsPath, NodeId};

    /// Proposes a change, and goes away before there is an answer.
    async fn propose_and_go(core: &Core, op: impl Into<Op>) {
        poll_once(core.change_unasked(op)).await;
    }

    async fn poll_once(proposed: impl Future) {
        let mut proposed = std::pin::pin!(proposed);
        let once = std::future::poll_fn(|context| Poll::Ready(proposed.as_mut().poll(context).is_pending()));
        assert!(once.await, "an entry takes a sync of the log");
    }

    async fn eventually(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..500 {
            if is_so() {
                return;
            }
            io::time::sleep(Duration::from_millis(10)).await;
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
        // Not by the task's own look, which comes every few seconds.
        eventually("the replica is to be deleted", || !core.leader().doomed.is_empty()).await;
        drop(core);
        metad.shutdown().await;
    }

    /// Also a change of the block side: members who came copy, and work that was asked for begins.
    #[tokio::test]
    async fn a_job_that_nobody_waits_for_begins() {
        let (_dir, metad, core) = with_node().await;
        let task = JobTask::Scrub { number: 7, len_per_s: 1, nodes: vec![NodeId([1; 16])] };
        let kind = JobKind::Scrub;
        let row = JobRow { kind, subject: String::new(), started: core.now(), task, end: None };
        let id = core.leader().jobs.next_id();
        poll_once(core.change_blocks(blocks::Command::BeginJob { id, row })).await;
        eventually("the job is under way", || core.leader().jobs.find(kind, "").is_some()).await;
        assert_eq!(core.leader().jobs.running(), [id]);
        let order = core.leader().on_scrub_report(NodeId([1; 16]), None);
        assert_eq!(order.map(|order| order.number), Some(7));
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
