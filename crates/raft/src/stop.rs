//! Why Raft stopped on this node. The first reason is the one that counts; the others follow from it.

use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// Why a member cannot go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub reason: String,
    /// Its data is not its group's: it must be removed, and join under a new id.
    pub must_rejoin: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A cheap handle; all clones know the same.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    fault: Arc<watch::Sender<Option<Fault>>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { fault: Arc::new(watch::Sender::new(None)) }
    }

    pub(crate) fn because(&self, reason: impl fmt::Display) {
        self.set(Fault { reason: reason.to_string(), must_rejoin: false });
    }

    pub(crate) fn until_it_rejoins(&self, reason: impl fmt::Display) {
        self.set(Fault { reason: reason.to_string(), must_rejoin: true });
    }

    fn set(&self, fault: Fault) {
        self.fault.send_if_modified(|known| {
            if known.is_none() {
                tracing::error!(reason = fault.reason, "Raft stops on this node");
                *known = Some(fault);
                return true;
            }
            false
        });
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.fault.borrow().as_ref().map(|fault| fault.reason.clone())
    }

    /// Comes back when there is a reason.
    pub(crate) async fn wait(&self) -> Fault {
        let mut fault = self.fault.subscribe();
        // The sender lives as long as `self`.
        let known = fault.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or_default()
    }
}
