//! Whether this member leads, as it is told.

use crate::driver::Applier;
use crate::machine::Machine;
use crate::types::Types;
use ::io::time;
use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::RaftError as OpenraftError;
use std::time::Duration;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All that was ever answered is applied here. Another one may have been elected since: see [`Raft::confirm`].
    Leading {
        term: u64,
    },
    Standby {
        leader: Option<u64>,
    },
}

/// Between two tries of a new leader to write its first entry.
const BLANK_PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn first<M: Machine>(raft: &openraft::Raft<Types, Applier<M>>) -> Standing {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    // A member that is alone has applied everything by now.
    let is_alone = metrics.state == ServerState::Leader && raft.voter_ids().count() == 1;
    if is_alone { Standing::Leading { term: metrics.current_term } } else { Standing::Standby { leader: None } }
}

/// Tells of every change. Ends with openraft.
pub(crate) async fn follow<M: Machine>(raft: openraft::Raft<Types, Applier<M>>, told: watch::Sender<Standing>) {
    let mut metrics = raft.server_metrics();
    loop {
        let (state, leader, term) = {
            let metrics = metrics.borrow_and_update();
            (metrics.state, metrics.current_leader, metrics.vote.leader_id.term)
        };
        let is_known = *told.borrow() == Standing::Leading { term };
        if state == ServerState::Leader && !is_known {
            // An entry of our own term: once it is applied, so is everything that was answered before.
            let (written, changed) = tokio::select! {
                biased;
                written = raft.write_blank() => match written {
                    Err(OpenraftError::Fatal(_)) => return,
                    written => (written.is_ok(), Ok(())),
                },
                changed = metrics.changed() => (false, changed),
            };
            if changed.is_err() {
                return;
            }
            if written {
                set(&told, Standing::Leading { term });
            } else {
                // A leader that no majority has answered yet is refused.
                time::sleep(BLANK_PAUSE).await;
            }
            continue; // there may be news meanwhile
        } else if state != ServerState::Leader {
            set(&told, Standing::Standby { leader });
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

fn set(told: &watch::Sender<Standing>, standing: Standing) {
    told.send_if_modified(|known| std::mem::replace(known, standing) != standing);
}
