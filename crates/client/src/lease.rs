//! Keeps the leases of open files alive: one call renews all that one client holds.

use crate::client::{Client, Inner};
use hdfs::proto;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many files are open for writing, and the task that renews while any is.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open_count: usize,
    renewing: Option<io::task::Owned<()>>,
}

/// One open file. The last one to go stops the renewals.
#[derive(Debug)]
pub(crate) struct Lease {
    client: Client,
}

impl Lease {
    pub(crate) fn hold(client: &Client) -> Self {
        let mut state = client.inner.leases.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_count += 1;
        if state.renewing.is_none() {
            // Weak: a client that nobody uses any more need not renew.
            state.renewing = Some(io::task::spawn_owned("lease renewal", renew(Arc::downgrade(&client.inner))));
        }
        drop(state);
        Self { client: client.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.client.inner.leases.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_count -= 1;
        if state.open_count == 0 {
            state.renewing = None;
        }
    }
}

async fn renew(inner: Weak<Inner>) {
    loop {
        let Some(every) = inner.upgrade().map(|inner| inner.options.renew_every) else { return };
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        let client = Client { inner };
        let request =
            proto::RenewLeaseRequestProto { client_name: client.inner.holder.clone(), namespaces: Vec::new() };
        let answer: Result<proto::RenewLeaseResponseProto, _> = client.call("renewLease", &request).await;
        if let Err(error) = answer {
            // The lease outlives one lost renewal; the writer finds out at its next call if it does not.
            tracing::warn!(%error, "the leases of open files could not be renewed; trying again");
        }
    }
}
