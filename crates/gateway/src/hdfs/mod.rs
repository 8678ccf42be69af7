//! HDFS's own clients at an edge, read-only: calls about names, and the bytes of blocks.
//!
//! ```text
//! client ── getBlockLocations ──▶ [`names`] ── opened as by any front ──▶ blocks of the edge's own ([`blocks`])
//!        ── other questions ────▶            ── passed on in his name ───▶ the store
//!        ══ READ_BLOCK ═════════▶ [`data`] ═══ what is kept, or the store
//! ```
//!
//! Promise: a block that is handed out has the bytes that were opened, under the same id as long as the path has them;
//! a reader gets bytes of one content or an error. Its id is a number that only who was let open the file has been
//! told. Nothing is changed by way of an edge.

mod blocks;
mod data;
mod names;

use crate::users::Users;
use blocks::Blocks;
use io::task::Owned;
use io::{ConnectionLimit, TaskGroup};
use names::Names;
use rpc::{Server, ServerOptions};
use std::io::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Where HDFS's clients come to.
#[derive(Clone, Copy, Debug)]
pub struct HdfsConfig {
    /// Calls about names: what `fs.defaultFS` names.
    pub addr: SocketAddr,
    /// Bytes of blocks.
    pub data_addr: SocketAddr,
}

/// Connections over which blocks are read, at a time. With more, the one that was idle for longest is closed. A guess:
/// each holds a packet.
const DATA_CONNECTION_COUNT_MAX: usize = 1024;

/// Of requests and answers about names, all together. A guess.
const HELD_LEN_MAX: usize = 64 << 20;

/// A front that serves until it is stopped.
#[derive(Debug)]
pub(crate) struct Hdfs {
    rpc: Server,
    data_addr: SocketAddr,
    _accept: Owned<()>,
    _learn: Owned<()>,
}

impl Hdfs {
    /// `store`: as people know it, to be named to those who want to write.
    pub(crate) async fn serve(
        config: HdfsConfig,
        users: Users,
        store: String,
        tasks: TaskGroup,
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind(config.data_addr).await?;
        let data_addr = listener.local_addr()?;
        let blocks = Arc::new(Blocks::new());
        let names = Arc::new(Names::new(users, store, Arc::clone(&blocks), data_addr));
        let options = ServerOptions { held_len_max: HELD_LEN_MAX, ..ServerOptions::default() };
        let rpc = Server::bind(config.addr, options, Arc::clone(&names)).await?;
        let limit = ConnectionLimit::new(DATA_CONNECTION_COUNT_MAX);
        let accept = io::task::spawn_owned("edge data", data::accept(listener, blocks, limit, tasks));
        let learn = io::task::spawn_owned("edge defaults", names.learn_defaults());
        Ok(Self { rpc, data_addr, _accept: accept, _learn: learn })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.rpc.local_addr()
    }

    pub(crate) fn data_addr(&self) -> SocketAddr {
        self.data_addr
    }

    pub(crate) async fn stop(self) {
        self.rpc.shutdown().await;
    }
}
