//! Limits of a client, and what it can prove.

use crate::answers::AnswerRoom;
use crate::login::Login;
use crate::options::FRAME_LEN_MAX;
use crate::patience::Patience;
use ::io::TaskGroup;
use ::io::dial::Dialer;
use security::node_name::Expected;
use std::sync::Arc;
use std::time::Duration;
use tls::Credentials;

/// Limits of one client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub connect_time_max: Duration,
    /// How servers are reached.
    pub dialer: Dialer,
    /// For a call from its start to its answer. Hadoop's client: 120 s.
    pub call_time_max: Duration,
    /// Longest answer. Hadoop's `ipc.maximum.response.length`.
    pub frame_len_max: u32,
    /// Calls not yet written; further ones wait.
    pub queue_count_max: usize,
    /// `None`: answers are counted nowhere, for who calls a few servers that he trusts.
    pub answers: Option<AnswerRoom>,
    /// The connection is a task of this group. `None`: it ends with the client, or by itself.
    pub tasks: Option<TaskGroup>,
    /// Who calls in the name of the client's user, where nothing is proven. `None`: that user himself.
    pub real_user: Option<String>,
    /// `None`: this client proves nothing, and only says who it is.
    pub login: Option<Arc<Login>>,
    /// A connection begins with TLS, and each end proves which node it is; then there is no login. `None`: no TLS.
    pub node: Option<NodeProof>,
    /// How long [`crate::Servers`] wait for the only server, while it cannot be reached.
    pub patience: Patience,
}

/// As what this client proves itself, and whom it expects.
#[derive(Clone, Debug)]
pub enum NodeProof {
    Certificate {
        credentials: Arc<Credentials>,
        expected: Expected,
    },
    /// As nothing so far: it expects a metadata server of the store whose authority has this fingerprint.
    Newcomer {
        authority: [u8; 32],
    },
}

impl ClientOptions {
    /// For calls between the nodes of a store: their answers are no longer than requests, and whoever says that he is a
    /// node is asked.
    pub fn of_nodes(answers: AnswerRoom) -> Self {
        Self { frame_len_max: FRAME_LEN_MAX, answers: Some(answers), ..Self::default() }
    }

    /// The same, for who can prove who it is.
    #[must_use]
    pub fn with_login(self, login: Option<Arc<Login>>) -> Self {
        Self { login, ..self }
    }

    /// The same, for a node with certificates, if it has any.
    #[must_use]
    pub fn with_node(self, credentials: Option<&Arc<Credentials>>, expected: Expected) -> Self {
        let node =
            credentials.map(|credentials| NodeProof::Certificate { credentials: Arc::clone(credentials), expected });
        Self { node, ..self }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_time_max: Duration::from_secs(10),
            dialer: Dialer::default(),
            call_time_max: Duration::from_secs(60),
            frame_len_max: types::limits::RPC_FRAME_LEN_MAX,
            queue_count_max: 256,
            answers: None,
            tasks: None,
            real_user: None,
            login: None,
            node: None,
            patience: Patience::default(),
        }
    }
}
