//! Where a datanode's certificate comes from that nobody carried there: the first one for a join token, later ones for
//! the one before.

use crate::config::Config;
use crate::disk_identity::node_of;
use crate::error::StartError;
use datanode::Known;
use io::{Clock, LogLimit, SystemClock};
use rpc::{CallError, Client, ClientOptions, NodeProof};
use security::joining::JoinToken;
use security::node_name::{Expected, NodeName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::{Credentials, Newcomer, Signed, TlsError};
use tokio::sync::watch;
use types::NodeId;
use wire::joining::{JOIN, JOIN_PROTOCOL, JoinRequest, RENEW_CERTIFICATE, RenewRequest, SignedResponse};
use wire::node::NODE_PROTOCOL;

/// Between two looks at whether a certificate is due. A certificate is good for weeks after that.
const LOOK_EACH: Duration = Duration::from_secs(3600);
/// While no metadata server gives one: the store may only just have come up.
const AGAIN_EACH: Duration = Duration::from_secs(60);

static UNANSWERED: LogLimit = LogLimit::new(LOOK_EACH);

/// Why a datanode did not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("data.node_certificates is missing: name a directory for the certificate")]
    NoDirectory,
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}")]
    Certificate(#[from] TlsError),
    /// Of those that were asked, the one that said most.
    #[error("{addr}: {source}")]
    Call { addr: String, source: CallError },
}

/// The node's certificate, if it has one, and which node that says it is.
pub(crate) async fn open(config: &Config) -> Result<Option<(NodeId, Arc<Credentials>)>, StartError> {
    let Some(dir) = config.node_certificates.clone() else { return Ok(None) };
    let opening = move || match Credentials::is_at(&dir) {
        true => Credentials::open(&dir).map_err(StartError::from),
        false => Err(StartError::NoCertificate { dir }),
    };
    let credentials = io::task::blocking(opening).await?;
    match credentials.name() {
        NodeName::Datanode(id) => Ok(Some((id, Arc::new(credentials)))),
        name => Err(StartError::OthersCertificate { name }),
    }
}

/// A datanode that has a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    pub node: NodeId,
    /// The number of the token by which it joined, if it did.
    pub token: Option<u32>,
}

/// Which datanode the directory's certificate names, if there is one that has not ended.
pub async fn joined(config: &Config) -> Option<Joined> {
    let (node, credentials) = open(config).await.ok().flatten()?;
    let is_valid = credentials.is_valid(SystemClock::new().now());
    is_valid.then(|| Joined { node, token: credentials.joined_by() })
}

/// Gets a certificate for a join token, from the metadata server that leads: the node's first one, or one in place of
/// that which is there. It can be tried again with the same token if the answer was lost: the key is there, and so the
/// server knows who asks.
pub async fn join(config: &Config, token: &JoinToken) -> Result<NodeId, JoinError> {
    let dir = config.node_certificates.clone().ok_or(JoinError::NoDirectory)?;
    let dirs = config.dirs()?;
    let disks = io::task::blocking(move || node_of(&dirs)).await?;
    let of_newcomer = token.clone();
    let newcomer = io::task::blocking(move || Newcomer::joining(&dir, &of_newcomer)).await?;
    let request = JoinRequest {
        number: token.number,
        secret: token.secret.to_vec().into(),
        public_key: newcomer.public_key().to_vec().into(),
        node: disks.map_or_else(String::new, |id| id.to_string()),
    };
    let node = Some(NodeProof::Newcomer { authority: token.authority });
    let options = ClientOptions { node, ..ClientOptions::default() };
    let answer = ask_each(&config.metads(), JOIN_PROTOCOL, JOIN, &options, &request).await;
    let signed = answer.map_err(|(addr, source)| JoinError::Call { addr, source })?;
    let credentials = io::task::blocking(move || newcomer.install(&signed)).await?;
    match credentials.name() {
        NodeName::Datanode(id) => Ok(id),
        name @ NodeName::Member(_) => Err(StartError::OthersCertificate { name }.into()),
    }
}

/// Asks for a new certificate when it is time: those servers that the configuration names, and those that are `known`.
/// Never returns.
pub(crate) async fn keep(
    dir: PathBuf,
    credentials: Arc<Credentials>,
    configured: Vec<String>,
    known: watch::Receiver<Known>,
) {
    loop {
        let others: Vec<String> = known.borrow().others(&configured).into_values().collect();
        let pause = match credentials.is_due(SystemClock::new().now()) {
            true => renew(&dir, &credentials, &[&configured[..], &others].concat()).await,
            false => LOOK_EACH,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Answers when to look again.
async fn renew(dir: &Path, credentials: &Arc<Credentials>, metads: &[String]) -> Duration {
    // Whoever is asked would break off the handshake, as if nobody was there. The log has what to do instead:
    // [`Credentials::follow`] sees to that.
    if credentials.ended(SystemClock::new().now()).is_some() {
        return AGAIN_EACH;
    }
    let dir = dir.to_owned();
    let newcomer = match io::task::blocking(move || Newcomer::again(&dir)).await {
        Ok(newcomer) => newcomer,
        Err(error) => {
            tracing::error!(%error, "the certificate is due, and another one cannot be asked for");
            return LOOK_EACH;
        }
    };
    let (public_key, certificate) = (newcomer.public_key().to_vec().into(), credentials.certificate().into());
    let request = RenewRequest { public_key, certificate };
    let options = ClientOptions::default().with_node(Some(credentials), Expected::AnyMember);
    let signed = match ask_each(metads, NODE_PROTOCOL, RENEW_CERTIFICATE, &options, &request).await {
        Ok(signed) => signed,
        Err((metad, error)) if is_refusal(&error) => {
            let reason = rpc::log_text(&error);
            tracing::warn!(
                metad,
                reason,
                "the certificate is due, and no other one is given: see levada certificate datanode"
            );
            return LOOK_EACH;
        }
        Err((metad, error)) => {
            if let Some(passed_over) = UNANSWERED.due() {
                tracing::warn!(metad, %error, passed_over, "the certificate is due, and no metadata server answers");
            }
            return AGAIN_EACH;
        }
    };
    let installed = io::task::blocking(move || newcomer.install(&signed)).await;
    let reloaded = credentials.clone();
    match installed.and_then(|_| reloaded.reload()) {
        Ok(_) => tracing::info!(node = %credentials.name(), "goes by a new certificate"),
        Err(error) => tracing::error!(%error, "the new certificate cannot be used"),
    }
    LOOK_EACH
}

/// Asks one server after the other, until the one that leads has answered.
async fn ask_each<Q: prost::Message>(
    addrs: &[String],
    protocol: &'static str,
    method: &str,
    options: &ClientOptions,
    request: &Q,
) -> Result<Signed, (String, CallError)> {
    let mut failed: Option<(String, CallError)> = None;
    for addr in addrs {
        let client = Client::with_options(addr.clone(), host::user::current(), protocol, options.clone());
        match client.call::<_, SignedResponse>(method, request).await {
            Ok(SignedResponse { certificate, authorities }) => return Ok(Signed { certificate, authorities }),
            Err(error) if failed.as_ref().is_none_or(|(_, before)| !is_refusal(before)) => {
                failed = Some((addr.clone(), error));
            }
            Err(_) => {}
        }
    }
    Err(failed.expect("there is an address at least"))
}

/// Said by a server that leads.
fn is_refusal(error: &CallError) -> bool {
    matches!(error, CallError::Remote { class, .. } if class != hdfs::exception::STANDBY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tls::Authority;
    use types::Millis;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    /// Who was off for a quarter of a year needs a token as a newcomer does.
    #[tokio::test]
    async fn a_datanode_has_joined_while_its_certificate_lasts() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("certificates");
        let any = "127.0.0.1:0".parse().unwrap();
        let mut config = Config::new(dir.path().join("data"), any, any, "127.0.0.1:1".into());
        config.node_certificates = Some(home.clone());
        assert_eq!(joined(&config).await, None);
        let (now, node) = (SystemClock::new().now(), NodeId([7; 16]));
        let authority = Authority::open_or_make(&dir.path().join("ca"), now).unwrap();
        let token = JoinToken { authority: authority.fingerprint(), number: 5, secret: [0; 16] };
        let newcomer = Newcomer::joining(&home, &token).unwrap();
        let name = NodeName::Datanode(node);
        newcomer.install(&authority.sign(name, newcomer.public_key(), &[], now, now).unwrap()).unwrap();
        assert_eq!(joined(&config).await, Some(Joined { node, token: Some(5) }));
        // Somebody makes another one by hand: the token is used up all the same.
        authority.equip(&home, name, &[], Millis(now.0 - 80 * DAY_MS)).unwrap();
        assert_eq!(joined(&config).await, Some(Joined { node, token: Some(5) }));
        authority.equip(&home, name, &[], Millis(now.0 - 91 * DAY_MS)).unwrap();
        assert_eq!(joined(&config).await, None);
        // It is told to make a token, and asks none of the servers, of which there are none here.
        let credentials = Arc::new(Credentials::open(&home).unwrap());
        assert_eq!(renew(&home, &credentials, &[]).await, AGAIN_EACH);
    }
}
