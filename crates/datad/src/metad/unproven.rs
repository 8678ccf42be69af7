//! A node and a metadata server of which one does not take the other for what it says: what the log has of it.
//!
//! Promise: each is said at once, with what an administrator does about it, and then rarely: nothing else changes it.

use io::LogLimit;
use rpc::CallError;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;
use types::NodeId;

/// Between two times that the same is said. A guess: who looks into the log of a node that is missing looks at its last
/// hour.
pub(super) const SAID_EACH: Duration = Duration::from_secs(3600);

/// Of all servers: each says it.
static REVOKED: LogLimit = LogLimit::new(SAID_EACH);

/// Whether a connection failed as its other end is not what it should be: its certificate is of an authority that is
/// not believed here, or names another server, or it has none.
pub(super) fn is_unbelieved(error: &Error) -> bool {
    // The handshake ends so; a server that is not there is refused, unreachable or silent.
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

fn invitation(node: NodeId) -> String {
    format!(
        "make a token with `levada admin datanode invite --datanode {node}`, and start this datanode with `--join \
         TOKEN`"
    )
}

/// What to do where a metadata server is not believed. `dir`: of this node's certificate.
fn advice(node: NodeId, dir: &Path) -> String {
    let (file, invitation) = (dir.join("ca.crt"), invitation(node));
    format!("if the authority was replaced, append its new ca.crt to {}, or {invitation}", file.display())
}

pub(super) fn log_unbelieved(node: NodeId, dir: &Path, metad: &str, error: &Error, passed_over: u64) {
    let (reason, advice) = (rpc::log_text(error), advice(node, dir));
    tracing::warn!(metad, reason, advice, passed_over, "no metadata server of this store answers by TLS there");
}

/// What to do where this node's certificate counts no more. `dir`: of it.
fn advice_revoked(node: NodeId, dir: &Path) -> String {
    let (dir, invitation) = (dir.display(), invitation(node));
    // As `metad::revocation` says of certificates that it does not sign itself.
    format!(
        "{invitation}; `levada up` makes another certificate at a start if {dir} is deleted before: it counts from 61 \
         minutes after the revocation on, or at once if the datanode's data is deleted, too, and so a new one comes"
    )
}

pub(super) fn log_revoked(node: NodeId, dir: &Path, metad: &str, reason: &str) {
    let Some(passed_over) = REVOKED.due() else { return };
    let (reason, advice) = (rpc::log_text(reason), advice_revoked(node, dir));
    tracing::error!(metad, reason, advice, passed_over, "this datanode's certificate was revoked");
}

/// Of all servers: each says it.
static UNEQUIPPED: LogLimit = LogLimit::new(SAID_EACH);

/// Whether a metadata server asks for a certificate, as the servers of this store have. Only who has none is told so in
/// these words; a store of Kerberos without certificates refuses in others.
pub(super) fn is_certificate_wanted(error: &CallError) -> bool {
    matches!(error, CallError::Remote { class, message, .. }
             if class == hdfs::exception::ACCESS_CONTROL && message.contains("show a certificate"))
}

/// What to do where this node has no certificate, and needs one.
fn advice_unequipped(node: NodeId) -> String {
    format!("set node_certificates in this datanode's file to a directory of its own; then {}", invitation(node))
}

pub(super) fn log_unequipped(node: NodeId, metad: &str, error: &CallError) {
    let Some(passed_over) = UNEQUIPPED.due() else { return };
    let (reason, advice) = (rpc::log_text(error), advice_unequipped(node));
    tracing::error!(
        metad,
        reason,
        advice,
        passed_over,
        "servers of this store show certificates, and this one has none"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metad::broken::Broken;
    use security::node_name::{Expected, NodeName};
    use std::sync::Arc;
    use tls::{Authority, Credentials};

    #[test]
    fn who_has_no_certificate_is_told_how_to_get_one() {
        let refused = |message: &str| CallError::Remote {
            class: hdfs::exception::ACCESS_CONTROL.into(),
            message: message.into(),
            detail: None,
        };
        let wanted = "\"root\" is none of this store's servers: it has to show a certificate of this store for that";
        assert!(is_certificate_wanted(&refused(wanted)));
        assert!(!is_certificate_wanted(&refused("\"root\" is none of this store's servers")));
        let advice = advice_unequipped(NODE);
        assert!(advice.contains("node_certificates") && advice.contains(&format!("--datanode {NODE}")), "{advice}");
    }

    const NODE: NodeId = NodeId([7; 16]);

    #[test]
    fn a_revocation_is_known_by_its_class() {
        let class = wire::node::NODE_REVOKED.into();
        let refused = CallError::Remote { class, message: "it was revoked".into(), detail: None };
        assert!(matches!(Broken::from(refused), Broken::Revoked(reason) if reason == "it was revoked"));
    }

    #[test]
    fn what_to_do_names_the_node_and_the_file() {
        let advice = advice(NODE, Path::new("/var/lib/levada/certificates"));
        assert!(advice.contains("/var/lib/levada/certificates/ca.crt"), "{advice}");
        assert!(advice.contains(&format!("invite --datanode {NODE}")) && advice.contains("--join"), "{advice}");
        let advice = advice_revoked(NODE, Path::new("/store/certificates/data1"));
        let parts = ["--join", "`levada up`", "/store/certificates/data1 is deleted", "61 minutes"];
        assert!(parts.iter().all(|part| advice.contains(part)), "{advice}");
    }

    #[derive(Debug)]
    struct Nobody;

    impl rpc::Service for Nobody {
        async fn call(&self, call: rpc::Call) -> Result<bytes::Bytes, hdfs::Exception> {
            Err(call.no_such_protocol())
        }
    }

    /// Its authority was replaced; or nobody is there.
    #[tokio::test]
    async fn a_server_of_another_authority_is_told_from_none() {
        let dir = tempfile::tempdir().unwrap();
        let now = io::Clock::now(&io::SystemClock::new());
        let credentials = |ca: &str, name: NodeName| {
            let to = dir.path().join(format!("of {ca}"));
            Authority::open_or_make(&dir.path().join(ca), now).unwrap().equip(&to, name, &[], now).unwrap();
            Arc::new(Credentials::open(&to).unwrap())
        };
        let theirs = rpc::ServerOptions {
            credentials: Some(credentials("new", NodeName::Member(1))),
            ..rpc::ServerOptions::default()
        };
        let server = rpc::Server::bind("127.0.0.1:0", theirs, Arc::new(Nobody)).await.unwrap();
        let own = credentials("old", NodeName::Datanode(NODE));
        let ask = async |addr: String| {
            let options = rpc::ClientOptions::default().with_node(Some(&own), Expected::AnyMember);
            let client = rpc::Client::with_options(addr, "x".into(), wire::node::NODE_PROTOCOL, options);
            let request = wire::node::RegisterRequest::default();
            match client.call::<_, wire::node::RegisterResponse>(wire::node::REGISTER, &request).await.unwrap_err() {
                CallError::Connect(error) => error,
                other => panic!("{other:?}"),
            }
        };
        assert!(is_unbelieved(&ask(server.local_addr().to_string()).await));
        let gone = server.local_addr().to_string();
        server.shutdown().await;
        assert!(!is_unbelieved(&ask(gone).await));
    }
}
