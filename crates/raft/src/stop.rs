//! Why Raft stopped on this node. The first reason is the one that counts; the others follow from it.

use std::sync::Arc;
use tokio::sync::watch;

/// A cheap handle; all clones know the same.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    reason: Arc<watch::Sender<Option<String>>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { reason: Arc::new(watch::Sender::new(None)) }
    }

    pub(crate) fn because(&self, reason: impl std::fmt::Display) {
        self.reason.send_if_modified(|known| {
            if known.is_none() {
                tracing::error!(%reason, "Raft stops on this node");
                *known = Some(reason.to_string());
                return true;
            }
            false
        });
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.borrow().clone()
    }

    /// Comes back when there is a reason.
    pub(crate) async fn wait(&self) -> String {
        let mut reason = self.reason.subscribe();
        // The sender lives as long as `self`.
        let known = reason.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or_default()
    }
}
