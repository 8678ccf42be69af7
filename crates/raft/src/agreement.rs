//! Whether all members have the same rows. Raft makes them apply the same entries; that they make the same of them is a
//! promise of the program, which a fault of it, of a compiler or of a machine's memory can break.
//!
//! ```text
//! leader    picks an entry that it applied a round ago     digest? ──▶ each other member
//!           what most voters have is right                 differs ──▶ each member that has something else
//! member    that differs writes the file `diverged`, stops, and is refused at every start
//! ```
//!
//! Promise: a member whose rows differ from those of most voters serves nothing from the next round on. Where no
//! majority has the same, nobody knows who is right: nothing is decided by rows that may be wrong until one has. See
//! `doubt`.

use crate::disk::Disk;
use crate::doubt::Doubt;
use crate::driver::{Applier, Driver};
use crate::machine::Machine;
use crate::mark;
use crate::message::{Answer, Ask};
use crate::network::Network;
use crate::stop::Stop;
use crate::timing::Timing;
use crate::transport::{Lane, Peer};
use crate::types::{Node, Types};
use ::io::time;
use ::types::RowsDigest;
use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that keeps a member that differs from starting again.
const MARK: &str = "diverged";

/// What the answers of one round mean.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All who answered have the same, and they are a majority.
    Agree,
    /// All who answered have the same, and they are too few to say anything of the others.
    Few,
    /// Most voters have `right`; these members do not.
    Differ { right: RowsDigest, who: Vec<u64> },
    /// Members differ, and no digest has a majority.
    Torn,
}

/// `voters`: one set, or two while the group changes; a majority is one in each.
fn decide(voters: &[BTreeSet<u64>], answers: &BTreeMap<u64, RowsDigest>) -> Verdict {
    let has_majority = |digest: &&RowsDigest| {
        voters.iter().all(|set| set.iter().filter(|id| answers.get(id) == Some(*digest)).count() > set.len() / 2)
    };
    match answers.values().find(has_majority) {
        Some(right) => {
            let who: Vec<_> = answers.iter().filter(|(_, digest)| *digest != right).map(|(id, _)| *id).collect();
            if who.is_empty() { Verdict::Agree } else { Verdict::Differ { right: *right, who } }
        }
        None if answers.values().zip(answers.values().skip(1)).all(|(one, next)| one == next) => Verdict::Few,
        None => Verdict::Torn,
    }
}

/// The lowest level that all know; `None` if one of the others did not say.
fn common(ours: u8, others: &[Option<u8>]) -> Option<u8> {
    others.iter().copied().chain([Some(ours)]).min().flatten()
}

/// Keeps a member out whose rows are not those of its group.
#[derive(Debug)]
pub(crate) struct Outcast {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) stop: Stop,
}

impl Outcast {
    /// Why this member may not start, if it may not.
    pub(crate) fn reason(disk: &dyn Disk) -> io::Result<Option<String>> {
        mark::read(disk, MARK)
    }

    fn cast(&self, index: u64, ours: RowsDigest, right: RowsDigest) {
        let reason = format!(
            "after entry {index} the rows of this member have the digest {:016x}, those of most members {:016x}",
            ours.0, right.0
        );
        if let Err(error) = mark::write(&*self.disk, MARK, &reason) {
            tracing::error!(%error, "the mark of a member that differs was not written; the next start may try again");
        }
        self.stop.until_it_rejoins(format!("{reason}. {ADVICE}"));
    }
}

/// What to do with a member that differs.
pub(crate) const ADVICE: &str = "Keep a copy of its directory for whoever looks for the cause, remove the member from \
                                 the group, empty its directory, and add it under a new id";

/// Compares members' digests, as leader and as member.
pub(crate) struct Agreement<M: Machine> {
    pub(crate) node_id: u64,
    pub(crate) raft: openraft::Raft<Types, Applier<M>>,
    pub(crate) driver: Driver<M>,
    pub(crate) network: Network,
    pub(crate) timing: Timing,
    pub(crate) outcast: Outcast,
    pub(crate) doubt: Doubt,
    /// The last entry after which all members that answered, and a majority, had the same rows.
    pub(crate) agreed: Mutex<Option<u64>>,
    /// The lowest level that all members know, by the last comparison of this leader.
    pub(crate) common_level: Mutex<Option<u8>>,
}

impl<M: Machine> Agreement<M> {
    /// The digest after an entry, if this member has it.
    pub(crate) fn digest(&self, index: u64) -> Option<RowsDigest> {
        self.driver.digest(index)
    }

    /// Most voters have another digest than this member: it ends.
    pub(crate) async fn on_differs(self: &Arc<Self>, index: u64, right: RowsDigest) {
        let Some(ours) = self.driver.digest(index).filter(|ours| *ours != right) else { return };
        let agreement = Arc::clone(self);
        ::io::task::blocking(move || agreement.outcast.cast(index, ours, right)).await;
        self.end().await;
    }

    /// So that no heartbeat of this member keeps another one from leading.
    async fn end(&self) {
        let _it_may_have_ended = self.raft.shutdown().await;
    }

    pub(crate) fn agreed(&self) -> Option<u64> {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn common_level(&self) -> Option<u8> {
        *self.common_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_common_level(&self, level: Option<u8>) {
        *self.common_level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// As the leader found it, or as this one does.
    pub(crate) async fn set_doubt(&self, index: u64, is_in_doubt: bool) {
        if is_in_doubt == self.doubt.is_set() {
            return;
        }
        let doubt = self.doubt.clone();
        ::io::task::blocking(move || if is_in_doubt { doubt.begin(index) } else { doubt.end() }).await;
    }

    /// Goes on as long as the member runs; works while it leads.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut picked = None;
        // Whether members were found to differ without a majority, in this time as leader.
        let mut found = None;
        loop {
            time::sleep(self.timing.comparison()).await;
            // Others have applied by now what this one had applied a round ago, unless they lag.
            let index = std::mem::replace(&mut picked, self.driver.position().applied.map(|id| id.index));
            let (true, Some(index)) = (self.raft.metrics().borrow_watched().state == ServerState::Leader, index) else {
                found = None;
                self.set_common_level(None);
                continue;
            };
            let Some(ours) = self.driver.digest(index) else { continue };
            let verdict = self.round(index, ours, found).await;
            if verdict == Verdict::Agree {
                *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
            }
            let is_in_doubt = match verdict {
                Verdict::Agree | Verdict::Differ { .. } => false,
                Verdict::Torn => true,
                Verdict::Few => continue,
            };
            found = Some(is_in_doubt);
            self.set_doubt(index, is_in_doubt).await;
        }
    }

    /// Asks all others, and tells those who differ.
    async fn round(self: &Arc<Self>, index: u64, ours: RowsDigest, doubt: Option<bool>) -> Verdict {
        let (voters, others) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let membership = metrics.membership_config.membership();
            let others = membership.nodes().filter(|(id, _)| **id != self.node_id);
            let peer = |(id, node): (&u64, &Node)| (Peer { id: *id, addr: node.addr.clone() }, node.incarnation);
            let others: Vec<_> = others.map(peer).collect();
            (membership.get_joint_config().clone(), others)
        };
        let wait_max = self.timing.comparison();
        let asked = others.iter().map(|(peer, incarnation)| async move {
            match self.network.ask(peer, *incarnation, Lane::Beat, Ask::Digest { index, doubt }, wait_max).await {
                Ok(Answer::Digest { digest, level }) => (digest.map(|digest| (peer.id, RowsDigest(digest))), level),
                _ => (None, None),
            }
        });
        let (digests, levels): (Vec<_>, Vec<_>) = futures_util::future::join_all(asked).await.into_iter().unzip();
        let answers: BTreeMap<_, _> = digests.into_iter().flatten().chain([(self.node_id, ours)]).collect();
        self.set_common_level(common(self.driver.level_max(), &levels));
        let verdict = decide(&voters, &answers);
        if let Verdict::Differ { right, who } = &verdict {
            tracing::error!(
                entry = index, members = ?who,
                "members whose rows differ from those of most voters are stopped"
            );
            let differs = Ask::Differs { index, digest: right.0 };
            for (peer, incarnation) in others.iter().filter(|(peer, _)| who.contains(&peer.id)) {
                let told = self.network.ask(peer, *incarnation, Lane::Beat, differs.clone(), wait_max).await;
                if let Err(error) = told {
                    // It is told again in the next round, as it differs from then on.
                    tracing::warn!(member = peer.id, %error, "a member that differs did not answer");
                }
            }
            if who.contains(&self.node_id) {
                self.on_differs(index, *right).await;
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(voters: &[&[u64]], answers: &[(u64, u64)]) -> Verdict {
        let voters: Vec<BTreeSet<u64>> = voters.iter().map(|set| set.iter().copied().collect()).collect();
        decide(&voters, &answers.iter().map(|(id, digest)| (*id, RowsDigest(*digest))).collect())
    }

    #[test]
    fn most_voters_are_right() {
        let differ = |who: &[u64]| Verdict::Differ { right: RowsDigest(7), who: who.to_vec() };
        assert_eq!(verdict(&[&[1, 2, 3]], &[(1, 7), (2, 7), (3, 7)]), Verdict::Agree);
        assert_eq!(verdict(&[&[1, 2, 3]], &[(1, 7), (2, 8), (3, 7)]), differ(&[2]));
        // The third does not answer.
        assert_eq!(verdict(&[&[1, 2, 3]], &[(1, 7), (2, 7)]), Verdict::Agree);
        assert_eq!(verdict(&[&[1, 2, 3]], &[(1, 7), (2, 8)]), Verdict::Torn);
        // The leader alone.
        assert_eq!(verdict(&[&[1, 2, 3]], &[(1, 7)]), Verdict::Few);
        assert_eq!(verdict(&[&[1, 2, 3], &[1, 4, 5]], &[(1, 7), (2, 7)]), Verdict::Few);
        assert_eq!(verdict(&[&[1]], &[(1, 7)]), Verdict::Agree);
        assert_eq!(verdict(&[&[1, 2]], &[(1, 7), (2, 8)]), Verdict::Torn);
        // Learners are compared and do not count.
        assert_eq!(verdict(&[&[1]], &[(1, 7), (2, 8), (3, 8)]), differ(&[2, 3]));
        // While the group changes, a majority of both sets is needed.
        assert_eq!(verdict(&[&[1, 2, 3], &[1, 4, 5]], &[(1, 7), (2, 7), (3, 7), (4, 8), (5, 8)]), Verdict::Torn);
        assert_eq!(verdict(&[&[1, 2, 3], &[1, 2, 4]], &[(1, 7), (2, 7), (3, 7), (4, 8)]), differ(&[4]));
    }

    /// One that is away may be of an older program when it comes back.
    #[test]
    fn all_members_must_know_a_level() {
        assert_eq!(common(2, &[]), Some(2));
        assert_eq!(common(2, &[Some(3), Some(1)]), Some(1));
        assert_eq!(common(2, &[Some(3), None]), None);
    }
}
