//! Datanodes on this machine: which are, and what is known of their Unix sockets.

use crate::located::Node;
use crate::socket::Socket;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Of all users of a store.
#[derive(Debug, Default)]
pub(crate) struct LocalNodes {
    nodes: Mutex<HashMap<Arc<str>, Arc<LocalNode>>>,
    read_len: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct LocalNode {
    /// Locked while a request is under way: they take microseconds.
    pub(crate) state: tokio::sync::Mutex<State>,
    /// Its address is one of this machine's.
    pub(crate) is_own: bool,
}

pub(crate) enum State {
    Unasked,
    /// Not before this time.
    Without(Duration),
    At {
        path: String,
        /// Nothing is under way on it.
        idle: Option<Socket>,
    },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unasked => "Unasked",
            Self::Without(_) => "Without",
            Self::At { path, .. } => path,
        })
    }
}

impl LocalNodes {
    /// So many bytes came from files that datanodes on this machine have passed.
    pub(crate) fn read_len(&self) -> u64 {
        self.read_len.load(Ordering::Relaxed)
    }

    pub(crate) fn count_read(&self, len: u64) {
        self.read_len.fetch_add(len, Ordering::Relaxed);
    }

    pub(crate) fn node(&self, node: &Node) -> Arc<LocalNode> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let is_own = node.ip.parse::<IpAddr>().is_ok_and(io::socket::is_own);
            Arc::new(LocalNode { state: tokio::sync::Mutex::new(State::Unasked), is_own })
        };
        Arc::clone(nodes.entry(Arc::clone(&node.addr)).or_insert_with(new))
    }

    pub(crate) fn clear(&self) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
