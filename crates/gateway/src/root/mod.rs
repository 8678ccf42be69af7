//! Files over XRootD (`root://`), for ROOT, xrdcp, xrdfs and uproot as they are. Read-only.
//!
//! ```text
//! socket ─▶ [`session`] ─▶ xroot::Session ─▶ events ─┬─▶ an answer that the protocol knows ───┐
//!                                                    └─▶ [`requests`], [`reads`]: the store ──┴─▶ [`outbox`] ─▶ socket
//!                                                        in any order, some at a time
//! ```
//!
//! Promise: all bytes of an answer that came to its end are of one version of a file, that which was opened; else the
//! answer is an error. A connection holds at most as much as `outbox` and `session` name, and all together at most
//! what [`RootLimits`] has. Where that is used up, a session that waits for its client makes room ([`room`]): one that
//! holds much and does nothing holds up nobody else.

mod file;
mod not_done;
mod outbox;
mod reads;
mod refusals;
mod requests;
mod room;
mod session;
mod shared;
mod status;

use crate::counts::RootCounts;
use crate::users::Users;
use io::socket::{SocketOptions, apply};
use io::task::Owned;
use io::{ConnectionLimit, TaskGroup};
use room::Room;
use shared::Shared;
use std::io::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Connections at a time. With more, the one whose client was waited for longest is closed. A guess: clients keep one
/// to a server, for minutes after its use.
pub const CONNECTION_COUNT_MAX: usize = 1024;
/// Before a session is closed for the room of its answers. Whoever reads from far away takes nothing for moments;
/// clients open a new session and ask again. A guess.
const STALL_TIME_MIN: Duration = Duration::from_secs(1);

/// What all sessions together hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootLimits {
    /// Files that are open. Each has the places of its blocks.
    pub file_count: usize,
    /// Bytes of answers that were begun and not taken by clients. Less than one session may have is taken for that.
    pub answers_len: usize,
}

impl Default for RootLimits {
    /// Guesses.
    fn default() -> Self {
        Self { file_count: 16 << 10, answers_len: 1 << 30 }
    }
}

/// A front that serves until it is dropped, or its tasks are ended.
#[derive(Debug)]
pub(crate) struct Root {
    addr: SocketAddr,
    _accept: Owned<()>,
}

impl Root {
    /// Sessions are tasks of `tasks`.
    pub(crate) async fn serve(
        addr: SocketAddr,
        users: Users,
        limit: Arc<ConnectionLimit>,
        limits: RootLimits,
        counts: RootCounts,
        tasks: TaskGroup,
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind(addr).await?;
        apply(&listener, &SocketOptions::default())?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            users,
            answers: Arc::new(Room::new(limits.answers_len.max(outbox::SESSION_LEN_MAX), STALL_TIME_MIN)),
            files: Room::new(limits.file_count, Duration::ZERO),
            counts,
        });
        let accept = io::task::spawn_owned("root", accept(listener, shared, limit, tasks));
        Ok(Self { addr, _accept: accept })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, limit: Arc<ConnectionLimit>, tasks: TaskGroup) {
    loop {
        let (socket, peer) = io::accepted(|| listener.accept()).await;
        match limit.admit() {
            Some(permit) => {
                shared.counts.accepted.inc();
                tasks.spawn_detached("root session", session::run(socket, peer, permit, Arc::clone(&shared)));
            }
            None => tracing::debug!(%peer, "a connection is refused: all others are being answered"),
        }
    }
}
