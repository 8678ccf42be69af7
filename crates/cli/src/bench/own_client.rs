//! Clients that share nothing with others, so that each measures itself.

use crate::shell::Target;
use client::{Client, Options};

/// A client of one's own: connections that nobody else uses.
pub(super) fn own_client(dir: &Target, options: Options) -> Client {
    let real_user = dir.client.store().options().real_user.clone();
    Client::with_options(dir.client.url(), dir.client.user(), Options { real_user, ..options })
}
