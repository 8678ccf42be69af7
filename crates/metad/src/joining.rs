//! Certificates for datanodes, from the store's authority: the first one by an invitation, and later ones in place of
//! those they have. The rules of invitations are `security::joining`'s.
//!
//! Promise: an id that somebody has is given to nobody but who shows its certificate, or an invitation for it: an
//! invitation for a new datanode is answered with an id that is drawn. A certificate that is signed after a revocation
//! counts, one that was signed before does not, whatever the clocks say; see [`crate::revocation`].

use crate::command;
use crate::core::Core;
use crate::named_datanode;
use crate::refusal;
use crate::revocation::{counts, revocation};
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::RETRIABLE;
use io::{Clock, LogLimit, SystemClock};
use rpc::{Call, Proof};
use security::joining::{self, Command, JoinError, JoinToken, Taken};
use security::node_name::{Certified, NodeName};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tls::{Authority, Credentials, Host, Signed};
use types::{Millis, NodeId};
use wire::admin::joining as admin;
use wire::joining::{JoinRequest, RenewRequest, SignedResponse};

/// A machine that is set up by hand waits for days; what counts for longer is forgotten by people.
const INVITATION_LIFETIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Addresses that a certificate names for HTTPS: the newest ones. A guess: more than a machine has.
const HOST_COUNT_MAX: usize = 16;
/// Numbers that are drawn for one invitation.
const NUMBER_COUNT_MAX: usize = 3;

static TURNED_AWAY: LogLimit = LogLimit::new(Duration::from_secs(1));

/// A newcomer's first certificate.
pub(crate) async fn join(
    core: &Arc<Core>,
    peer: SocketAddr,
    request: JoinRequest,
    subject: &OnceLock<String>,
) -> Result<SignedResponse, Exception> {
    let JoinRequest { number, secret, public_key, node } = request;
    // Nothing is done for who has no token but to look for its row, once it is sure who leads.
    let secret: [u8; 16] = secret[..].try_into().map_err(|_| turned_away(JoinError::Unknown, peer))?;
    let own = match &*node {
        "" => None,
        node => Some(NodeId::parse(node).ok_or_else(|| refusal::illegal("the id of the newcomer's disks is no UUID"))?),
    };
    let now = core.now();
    let usable = core.rows_here(|rows| joining::usable(rows, number, &secret, now))?;
    let invitation = usable.map_err(|error| turned_away(error, peer))?;
    let authority = authority(core).await?;
    let node = match (invitation.taken, invitation.node) {
        // Who else joined by it is for nobody who only has the token.
        (Some(taken), _) if own.is_some_and(|own| own != taken.node) => {
            return Err(turned_away(JoinError::Taken { node: taken.node }, peer));
        }
        (Some(taken), _) => taken.node,
        (None, Some(meant)) => meant,
        // Its disks may be of a datanode of which the store does not know yet: somebody says whether this is the one.
        (None, None) => match own {
            Some(own) => {
                return Err(refusal::denied(format!(
                    "the token is for a new datanode, and the disks are of {own}: ask for a token that is for it, by \
                     its id"
                )));
            }
            None => NodeId(io::random::uuid()),
        },
    };
    must_be_of(node, own)?;
    must_have_level(core).await?;
    let take = Command::Take { number, hash: JoinToken::hash(&secret), now, by: Taken::new(node, &public_key) };
    core.change_joining(take).await.map_err(refusal::raft)?.map_err(refused)?;
    let _set_once = subject.set(invited(number, Some(node)));
    certify(core, authority, peer, (number, &public_key), own).await
}

/// As the audit log names an invitation, so that one line leads to the other.
fn invited(number: u32, node: Option<NodeId>) -> String {
    let node = node.map_or_else(|| "new".to_owned(), |node| node.to_string());
    format!("{number:08x} {node}")
}

/// The first certificate of who has taken an invitation by this key.
async fn certify(
    core: &Core,
    authority: Authority,
    peer: SocketAddr,
    (number, public_key): (u32, &[u8]),
    own: Option<NodeId>,
) -> Result<SignedResponse, Exception> {
    let (taken, revoked) = core.rows_here(|rows| {
        let taken = joining::invitation(rows, number)?.and_then(|row| row.taken);
        let revoked = taken.as_ref().map(|taken| joining::revoked_before(rows, taken.node)).transpose()?;
        Ok((taken, revoked.flatten()))
    })?;
    // A revocation may have come behind that, which takes the invitation away.
    let node = match taken {
        Some(taken) if taken == Taken::new(taken.node, public_key) => taken.node,
        _ => return Err(turned_away(JoinError::Unknown, peer)),
    };
    must_be_of(node, own)?;
    let now = core.now();
    let issued_at = revoked.map_or(now, |before| before.max(now));
    let signed = sign(core, authority, vec![host(peer)], (node, public_key.to_vec()), issued_at).await?;
    tracing::info!(%node, number = format!("{number:08x}"), %peer, "a datanode has joined by an invitation");
    Ok(signed)
}

/// `own`: the datanode whose disks the newcomer has.
fn must_be_of(node: NodeId, own: Option<NodeId>) -> Result<(), Exception> {
    match own.filter(|own| *own != node) {
        Some(own) => Err(refusal::denied(format!(
            "the token is for datanode {node}, and the disks are of {own}: ask for a token for that one"
        ))),
        None => Ok(()),
    }
}

/// Another certificate for a datanode that has one.
pub(crate) async fn renew(core: &Arc<Core>, call: &Call, request: RenewRequest) -> Result<SignedResponse, Exception> {
    let Proof::Node(Certified { name: NodeName::Datanode(node), issued_at: shown }) = call.user.proof else {
        return Err(refusal::denied("a certificate is renewed for the datanode that shows it"));
    };
    let authority = authority(core).await?;
    // It may have been revoked since the call passed the door.
    if !counts(shown, core.rows_here(|rows| joining::revoked_before(rows, node))?) {
        return Err(refusal::revoked(node));
    }
    let issued_at = shown.max(core.now());
    // An operator may have given it names, which the caller's address is none of.
    let mut hosts = vec![host(call.peer)];
    for named in authority.hosts_of(NodeName::Datanode(node), &request.certificate, core.now()) {
        if hosts.len() < HOST_COUNT_MAX && !hosts.contains(&named) {
            hosts.push(named);
        }
    }
    let signed = sign(core, authority, hosts, (node, request.public_key.to_vec()), issued_at).await?;
    tracing::info!(%node, "the certificate of a datanode is renewed");
    Ok(signed)
}

pub(crate) async fn invite(
    core: &Arc<Core>,
    session: &Session,
    request: admin::InviteRequest,
    subject: &OnceLock<String>,
) -> Result<admin::InviteResponse, Exception> {
    session.must_be_private("a join token", core.config.id)?;
    let authority = authority(core).await?;
    must_be_signed_by(core, &authority).await?;
    let lifetime = Duration::from_millis(request.lifetime_ms);
    if lifetime.is_zero() || lifetime > INVITATION_LIFETIME_MAX {
        let days = INVITATION_LIFETIME_MAX.as_secs() / (24 * 3600);
        return Err(refusal::illegal(format!("an invitation counts for up to {days} days")));
    }
    let node = match &*request.datanode {
        "" => None,
        name => Some(meant(core, name)?),
    };
    must_have_level(core).await?;
    let mut taken = JoinError::TooMany;
    for _ in 0..NUMBER_COUNT_MAX {
        let (mut secret, mut number) = ([0; 16], [0; 4]);
        io::random::fill(&mut secret);
        io::random::fill(&mut number);
        let (number, now) = (u32::from_be_bytes(number), core.now());
        let expires = Millis(now.0 + request.lifetime_ms);
        assert!(expires > now, "an invitation that has expired already");
        let (hash, made_by) = (JoinToken::hash(&secret), session.name.clone());
        let invitation = joining::Invitation { hash, expires, node, made_by, taken: None };
        match core.change_joining(Command::Invite { number, now, invitation }).await.map_err(refusal::raft)? {
            Ok(()) => {
                let _set_once = subject.set(invited(number, node));
                let token = JoinToken { authority: authority.fingerprint(), number, secret };
                return Ok(admin::InviteResponse { number, token: token.text(), expires_ms: expires.0 });
            }
            Err(error @ JoinError::NumberTaken { .. }) => taken = error,
            Err(error) => return Err(refused(error)),
        }
    }
    Err(refused(taken))
}

pub(crate) fn list(
    core: &Core,
    _request: admin::ListInvitationsRequest,
) -> Result<admin::ListInvitationsResponse, Exception> {
    let now = core.now();
    let all = core.rows_here(joining::invitations)?.into_iter().filter(|(_, invitation)| invitation.expires > now);
    let invitations = all.map(|(number, invitation)| admin::Invitation {
        number,
        expires_ms: invitation.expires.0,
        made_by: invitation.made_by,
        datanode: invitation.node.map_or_else(String::new, |node| node.to_string()),
        taken_by: invitation.taken.map_or_else(String::new, |taken| taken.node.to_string()),
    });
    Ok(admin::ListInvitationsResponse { invitations: invitations.collect() })
}

pub(crate) async fn withdraw(
    core: &Core,
    request: admin::WithdrawRequest,
) -> Result<admin::WithdrawResponse, Exception> {
    must_have_level(core).await?;
    let withdraw = Command::Withdraw { number: request.number };
    match core.change_joining(withdraw).await.map_err(refusal::raft)? {
        Ok(()) => Ok(admin::WithdrawResponse {}),
        Err(JoinError::Unknown) => {
            Err(refusal::illegal(format!("there is no invitation {:08x}; see them listed", request.number)))
        }
        Err(error) => Err(refused(error)),
    }
}

pub(crate) async fn revoke(
    core: &Arc<Core>,
    request: admin::RevokeRequest,
) -> Result<admin::RevokeResponse, Exception> {
    if core.config.security.node_certificates.is_none() {
        return Err(refusal::illegal("the servers of this store have no certificates"));
    }
    let node = meant(core, &request.datanode)?;
    must_have_level(core).await?;
    let before = revocation(core.now());
    core.change_joining(Command::Revoke { node, before }).await.map_err(refusal::raft)?.map_err(refused)?;
    // What it has said goes with what it would say: others take its place without a wait.
    core.with_cluster(|cluster, _| cluster.on_revoked(node));
    core.repair_wake.notify_one();
    tracing::info!(%node, "the certificates of a datanode are revoked");
    Ok(admin::RevokeResponse { id: node.to_string() })
}

/// Strangers can cause it as often as they like: the audit log has no line of it.
fn turned_away(error: JoinError, peer: SocketAddr) -> Exception {
    if let Some(passed_over) = TURNED_AWAY.due() {
        tracing::warn!(%peer, %error, passed_over, "a join token is refused");
    }
    refused(error)
}

/// One that joined and never registered is no datanode yet, and is meant by its whole id.
fn meant(core: &Core, name: &str) -> Result<NodeId, Exception> {
    NodeId::parse(name).map_or_else(|| named_datanode::find(core, name), Ok)
}

async fn authority(core: &Core) -> Result<Authority, Exception> {
    let dir = core.config.security.authority.clone();
    let dir = dir.ok_or_else(|| {
        refusal::illegal(format!(
            "metadata server {} leads, and has no authority to sign certificates: set security.authority there",
            core.config.id
        ))
    })?;
    let own = core.config.security.node_certificates.clone();
    let open = move || match own {
        Some(own) => Authority::open(&dir)?.beside(&own),
        None => Authority::open(&dir),
    };
    io::task::blocking(open).await.map_err(unusable)
}

/// A newcomer knows the store by the authority that its token names, and looks for the leader by it.
async fn must_be_signed_by(core: &Core, authority: &Authority) -> Result<(), Exception> {
    let Some(dir) = core.config.security.node_certificates.clone() else { return Ok(()) };
    let own = io::task::blocking(move || Credentials::open(&dir)).await.map_err(unusable)?;
    if own.is_signed_by(authority, SystemClock::new().now()) {
        return Ok(());
    }
    Err(refusal::illegal(format!(
        "metadata server {} leads by a certificate that security.authority there has not signed, so whoever joined by \
         a token of that authority would not believe it: give it one of that authority first",
        core.config.id
    )))
}

/// The address of who asks for a certificate: any other one, which nobody signed for it yet, could be somebody else's.
fn host(peer: SocketAddr) -> Host {
    peer.ip().to_canonical().into()
}

/// The certificate says that it was made at `issued_at`, and names `hosts`, for HTTPS.
async fn sign(
    core: &Core,
    authority: Authority,
    hosts: Vec<Host>,
    (node, key): (NodeId, Vec<u8>),
    issued_at: Millis,
) -> Result<SignedResponse, Exception> {
    let now = core.now();
    let sign = move || authority.sign(NodeName::Datanode(node), &key, &hosts, now, issued_at);
    let Signed { certificate, authorities } = io::task::blocking(sign).await.map_err(|error| match error {
        tls::TlsError::PublicKey => refusal::illegal(error.to_string()),
        error => unusable(error),
    })?;
    Ok(SignedResponse { certificate, authorities })
}

async fn must_have_level(core: &Core) -> Result<(), Exception> {
    match core.raise_level(command::JOINING).await.map_err(refusal::raft)? {
        true => Ok(()),
        false => {
            Err(Exception::new(RETRIABLE, "a server of the group is of an older version, which knows no invitations"))
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unusable(error: tls::TlsError) -> Exception {
    tracing::error!(%error, "the authority cannot be used");
    Exception::io("the metadata server cannot use its authority; its messages (stderr) say why")
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: JoinError) -> Exception {
    match error {
        JoinError::Unknown
        | JoinError::Expired
        | JoinError::Taken { .. }
        | JoinError::OtherNode { .. }
        | JoinError::Known { .. } => refusal::denied(error.to_string()),
        JoinError::NumberTaken { .. } | JoinError::TooMany => refusal::illegal(error.to_string()),
        JoinError::Fault { .. } => Exception::io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_config;
    use rpc::Identity;
    use std::path::Path;

    const NODE: NodeId = NodeId([7; 16]);

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 40_000);

    fn public_key(dir: &Path, number: u32, secret: [u8; 16]) -> Vec<u8> {
        let token = JoinToken { authority: [0; 32], number, secret };
        tls::Newcomer::joining(dir, &token).unwrap().public_key().to_vec()
    }

    /// A server with an authority, in this directory, which leads and has heard one datanode.
    async fn with_authority(dir: &Path) -> (tempfile::TempDir, crate::Metad, Arc<Core>) {
        let [authority, member] = ["ca", "member"].map(|name| dir.join(name));
        let now = SystemClock::new().now();
        let signer = Authority::open_or_make(&authority, now).unwrap();
        signer.equip(&member, NodeName::Member(1), &[], now).unwrap();
        let set = |config: &mut crate::Config| {
            (config.security.authority, config.security.node_certificates) = (Some(authority), Some(member));
        };
        with_config(set).await
    }

    /// While one authority takes the place of another.
    #[tokio::test]
    async fn nobody_is_invited_who_would_not_believe_the_leader() {
        let dir = tempfile::tempdir().unwrap();
        let (_dir, metad, core) = with_authority(dir.path()).await;
        let invited = async || {
            let session = Session::example("root", true);
            let request = admin::InviteRequest { datanode: String::new(), lifetime_ms: 1000 };
            let subject = OnceLock::new();
            let answer = invite(&core, &session, request, &subject).await;
            answer.map(|answer| assert_eq!(subject.get(), Some(&format!("{:08x} new", answer.number))))
        };
        invited().await.unwrap();
        let now = SystemClock::new().now();
        let former = Authority::open_or_make(&dir.path().join("former"), now).unwrap();
        former.equip(&dir.path().join("member"), NodeName::Member(1), &[], now).unwrap();
        let refused = invited().await.unwrap_err();
        assert!(refused.message.contains("security.authority there has not signed"), "{}", refused.message);
        drop(core);
        metad.shutdown().await;
    }

    /// What it has is copied elsewhere without a wait, and it gets no part in what is written.
    #[tokio::test]
    async fn a_revoked_datanode_is_lost_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (_dir, metad, core) = with_authority(dir.path()).await;
        let live_count = || core.with_cluster(|cluster, _| cluster.live_count(core.monotonic()));
        assert_eq!(live_count(), 1);
        let datanode = NodeId([1; 16]).to_string();
        revoke(&core, admin::RevokeRequest { datanode }).await.unwrap();
        assert_eq!(live_count(), 0);
        drop(core);
        metad.shutdown().await;
    }

    /// The revocation is applied while the call that passed the door waits for the authority's files.
    #[tokio::test]
    async fn a_renewal_that_a_revocation_overtakes_gets_no_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let public_key = public_key(&dir.path().join("node"), 1, [0; 16]);
        let (_dir, metad, core) = with_authority(dir.path()).await;
        let renewed = async |issued_at| {
            let proof = Proof::Node(Certified { name: NodeName::Datanode(NODE), issued_at });
            let call = Call {
                protocol: String::new(),
                method: String::new(),
                version: 1,
                body: bytes::Bytes::new(),
                user: Identity { proof, ..Identity::simple("node", None) }.into(),
                client_id: bytes::Bytes::new(),
                call_id: 0,
                retry_count: 0,
                peer: PEER,
                is_private: true,
                untaken: rpc::Untaken::default(),
            };
            renew(&core, &call, RenewRequest { public_key: public_key.clone().into(), ..RenewRequest::default() }).await
        };
        must_have_level(&core).await.unwrap();
        let issued_at = core.now();
        renewed(issued_at).await.unwrap();
        let before = Millis(issued_at.0 + 1000);
        core.change_joining(Command::Revoke { node: NODE, before }).await.unwrap().unwrap();
        let refused = renewed(issued_at).await.unwrap_err();
        assert!(refused.message.contains("was revoked"), "{}", refused.message);
        renewed(before).await.unwrap();
        drop(core);
        metad.shutdown().await;
    }

    /// What is applied between the taking of an invitation and the signature may be one batch of the log with both.
    #[tokio::test]
    async fn a_join_that_a_revocation_overtakes_gets_no_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let secret = [5; 16];
        let public_key = public_key(&dir.path().join("node"), 1, secret);
        let (_dir, metad, core) = with_authority(dir.path()).await;
        must_have_level(&core).await.unwrap();
        let now = core.now();
        let invitation = joining::Invitation {
            hash: JoinToken::hash(&secret),
            expires: Millis(now.0 + 60_000),
            node: Some(NODE),
            made_by: "admin".into(),
            taken: None,
        };
        core.change_joining(Command::Invite { number: 1, now, invitation }).await.unwrap().unwrap();
        let request = JoinRequest {
            number: 1,
            secret: secret.to_vec().into(),
            public_key: public_key.clone().into(),
            node: String::new(),
        };
        let subject = OnceLock::new();
        join(&core, PEER, request, &subject).await.unwrap();
        assert_eq!(subject.get(), Some(&format!("00000001 {NODE}")));
        let certified = async || {
            let authority = authority(&core).await.unwrap();
            certify(&core, authority, PEER, (1, &public_key), None).await
        };
        certified().await.unwrap();
        let before = revocation(core.now());
        core.change_joining(Command::Revoke { node: NODE, before }).await.unwrap().unwrap();
        let refused = certified().await.unwrap_err();
        assert!(refused.message.contains("not known"), "{}", refused.message);
        drop(core);
        metad.shutdown().await;
    }
}
