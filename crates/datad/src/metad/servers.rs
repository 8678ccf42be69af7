//! The metadata servers that this node has a session with: those that its configuration names, and those that joined
//! the group since.
//!
//! Promise: every member of the group hears this node, whether its configuration knows the member or not, so that any
//! of them can lead from its first moment on. Who left is called no more, unless the configuration names it.

use super::leader::Leader;
use datanode::Known;
use io::task::Owned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// At the start each server says who it is; until then it looks as if those that the others name were more.
const SETTLE: Duration = Duration::from_secs(2);
/// Keeps a session with each for ever. `start` begins one, of a number and with an address.
pub(crate) async fn run(
    configured: Vec<String>,
    leader: Arc<Leader>,
    mut known: watch::Receiver<Known>,
    start: impl Fn(usize, String) -> Owned<()>,
) {
    let _sessions: Vec<_> = configured.iter().cloned().enumerate().map(|(number, addr)| start(number, addr)).collect();
    let mut next = configured.len();
    let mut joined: BTreeMap<u64, (String, usize, Owned<()>)> = BTreeMap::new();
    loop {
        let wanted = known.borrow_and_update().others(&configured);
        let gone = joined.extract_if(.., |id, (addr, ..)| wanted.get(id) != Some(addr));
        for (id, (addr, number, session)) in gone {
            tracing::info!(id, addr, "the session with a metadata server ends: it left, or is reached otherwise");
            drop(session);
            leader.ended(number);
        }
        for (id, addr) in wanted {
            joined.entry(id).or_insert_with(|| {
                tracing::info!(id, addr, "a session with a metadata server that the configuration does not name");
                next += 1;
                (addr.clone(), next - 1, start(next - 1, addr))
            });
        }
        if known.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(SETTLE).await;
    }
}
