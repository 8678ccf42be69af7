//! What the connections of a server share.

use crate::budget::{Budget, Usage};
use crate::exchange::Steps;
use crate::expected::ExpectedLens;
use crate::lane::Lane;
use crate::options::ServerOptions;
use crate::tls_opening::Handshakes;
use ::io::{ConnectionLimit, LogLimit};
use std::sync::Arc;

/// How the server stands to its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// No further request is read; those under way are answered.
    Draining,
    Cutting,
}

/// What all connections of a server share.
pub(crate) struct Host<S> {
    pub(crate) service: Arc<S>,
    pub(crate) options: ServerOptions,
    pub(crate) usual: Lane,
    /// For requests of the urgent protocol.
    pub(crate) urgent: Lane,
    /// For answers: those that are expected, and those that are not taken yet.
    pub(crate) answers: Arc<Budget>,
    pub(crate) expected: ExpectedLens,
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    /// Connections that are refused.
    pub(crate) refusals: LogLimit,
    /// Steps of SASL that may wait.
    pub(crate) steps: Steps,
    /// Callers who did not prove who they are.
    pub(crate) strangers: LogLimit,
    /// Of TLS.
    pub(crate) handshakes: Handshakes,
}

impl<S> Host<S> {
    /// Bytes by what holds them, and the number of connections.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let connections =
            Usage { of: "connections", now: self.connection_limit.count(), max: self.options.connections_max };
        let usual = self.usual.usage(["requests", "long_requests", "decoded_requests"]);
        let urgent = self.urgent.usage(["urgent_requests", "urgent_long_requests", "urgent_decoded_requests"]);
        [connections, self.answers.usage("answers")].into_iter().chain(usual).chain(urgent).collect()
    }
}
