//! What sessions share, and what the requests of one share.

use super::outbox::Outbox;
use super::room::{Holder, Room};
use crate::counts::RootCounts;
use crate::reading::Reading;
use crate::users::Users;
use client::Error as StoreError;
use io::ConnectionPermit;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::sync::OnceCell;

/// What all sessions share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) users: Users,
    /// Room for answers, in bytes.
    pub(super) answers: Arc<Room>,
    /// Room for open files.
    pub(super) files: Room,
    pub(super) counts: RootCounts,
}

/// What the requests of a session share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Outbox,
    pub(super) connection: Arc<ConnectionPermit>,
    /// The session in the room for open files.
    pub(super) files: Arc<Holder>,
    /// Of this machine, as the client reached it.
    pub(super) addr: SocketAddr,
    /// Who he says he is, from the first request on that the store answers; empty: he does not.
    pub(super) user: OnceLock<String>,
    pub(super) reading: OnceCell<Reading>,
}

impl Common {
    /// The store, in the name of whoever asks. Where it believes no names, that is the one for whom the gateway reads.
    pub(super) async fn reading(&self) -> Result<&Reading, StoreError> {
        let users = &self.shared.users;
        let reading = async || match self.user.get().map(String::as_str) {
            None | Some("") => Ok(users.own()),
            Some(user) => Ok(users.named(user).await?.unwrap_or_else(|| users.own())),
        };
        self.reading.get_or_try_init(reading).await
    }
}
