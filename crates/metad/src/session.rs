//! One call's circumstances: who calls, from where, by which proof, and what that lets him do.

use crate::connections::Connections;
use crate::groups::NoAnswer;
use crate::principal::User;
use crate::refusal;
use crate::rights::Right;
use crate::users::{Users, none_of_the_store};
use hdfs::Exception;
use hdfs::exception::RETRIABLE;
use namespace::{Caller, RetryKey};
use rpc::{Call, Proof};
use security::method::Method;
use security::node_name::{Certified, NodeName};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) user: Arc<User>,
    /// `None` if the client gave no id that could be recognised again.
    pub(crate) retry: Option<RetryKey>,
    pub(crate) peer: IpAddr,
    /// See [`Call::is_private`].
    pub(crate) is_private: bool,
    pub(crate) untaken: rpc::Untaken,
}

impl Deref for Session {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Session {
    pub(crate) async fn of(
        users: &Users,
        connections: &Connections,
        call: &Call,
        now: Duration,
    ) -> Result<Self, Exception> {
        let user = match connections.user(call.peer, &call.user, now) {
            Some(user) => user,
            None => {
                let user = Arc::new(users.user(&call.user, call.peer.ip(), now).await?);
                // Of one whose groups are not known the next call asks again.
                if user.caller.groups_known {
                    connections.set_user(call.peer, &call.user, &user, now);
                }
                user
            }
        };
        let client: Option<[u8; 16]> = call.client_id.as_ref().try_into().ok();
        let client =
            client.map(|client| if users.asks_for_proof() { own_id(client, &user.caller.user) } else { client });
        let retry = client.filter(|_| call.call_id >= 0).map(|client| RetryKey { client, call: call.call_id });
        let (peer, is_private) = (call.peer.ip(), call.is_private);
        Ok(Self { user, retry, peer, is_private, untaken: call.untaken.clone() })
    }

    /// Under which name the leases of one of the user's clients are kept: of files, and of blocks.
    pub(crate) fn lease_holder(&self, client: &str) -> String {
        namespace::holder_name(&self.caller.user, client)
    }

    /// For what is no file's. `operation`: as HDFS names it in its refusal, where it does.
    pub(crate) fn must_have(&self, right: Right, operation: Option<&str>) -> Result<(), Exception> {
        if self.right >= Some(right) { Ok(()) } else { self.must_be_superuser(operation) }
    }

    /// As [`Session::must_have`]; no right by the settings is enough.
    pub(crate) fn must_be_superuser(&self, operation: Option<&str>) -> Result<(), Exception> {
        if self.caller.superuser {
            return Ok(());
        }
        let user = &self.caller.user;
        let purpose = operation.map(|operation| format!(" for operation {operation}")).unwrap_or_default();
        Err(not_superuser(
            &self.caller,
            format!("Access denied for user {user}. Superuser privilege is required{purpose}"),
        ))
    }

    /// That the caller is another metadata server. What is taken from it is believed. See
    /// [`Session::must_be_the_store`].
    pub(crate) fn must_be_a_member(&self, users: &Users) -> Result<(), Exception> {
        self.must_be_the_store(users, self.proof.member().is_some())
    }

    /// That the caller is a datanode; which one, its messages are compared with. What is answered has the keys of block
    /// tokens.
    pub(crate) fn must_be_a_datanode(&self, users: &Users) -> Result<(), Exception> {
        self.must_be_the_store(users, matches!(self.proof, Proof::Node(Certified { name: NodeName::Datanode(_), .. })))
    }

    /// Where servers have certificates, by its own. Otherwise it has the ticket of the user that this server is:
    /// neither a token nor acting for that user proves that, and other superusers are people. Where nobody proves
    /// anything, everybody is.
    fn must_be_the_store(&self, users: &Users, by_certificate: bool) -> Result<(), Exception> {
        let by_ticket = || {
            let proves = self.proof.method() == Method::Kerberos && self.real.is_none();
            !users.asks_for_proof() || (proves && self.caller.user == users.owner())
        };
        if by_certificate || (!users.has_certificates() && by_ticket()) {
            return Ok(());
        }
        Err(none_of_the_store(&self.name, users.has_certificates()))
    }

    /// That nobody else hears the answer, as it has `secret` in it. `own`: this server's id.
    pub(crate) fn must_be_private(&self, secret: &str, own: u64) -> Result<(), Exception> {
        if self.is_private {
            return Ok(());
        }
        Err(refusal::denied(format!(
            "the answer has {secret} in it, and others could hear it on its way: ask on the machine of metadata server \
             {own}, which leads, or over a connection with privacy (security.rpc_protection)"
        )))
    }

    /// Of somebody in no group, at this machine.
    #[cfg(test)]
    pub(crate) fn example(user: &str, superuser: bool) -> Self {
        let caller = Caller { user: user.into(), groups: Vec::new(), groups_known: true, superuser };
        let (name, proof) = (user.to_owned(), Proof::Nothing);
        let right = superuser.then_some(Right::Change);
        let user = Arc::new(User { caller, right, name, real: None, proof });
        Self { user, retry: None, peer: [127, 0, 0, 1].into(), is_private: true, untaken: rpc::Untaken::default() }
    }

    /// An administrator as the superuser, for a change that is no file's and that the namespace makes.
    pub(crate) fn as_administrator(&self) -> Self {
        let mut user = User::clone(&self.user);
        user.caller.superuser |= user.right >= Some(Right::Change);
        Self { user: Arc::new(user), ..self.clone() }
    }

    /// Where the client runs, as datanodes' addresses are written.
    pub(crate) fn host(&self) -> String {
        self.address().to_string()
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.peer.to_canonical()
    }
}

/// A caller whose groups cannot be looked up may be a superuser: then another call may succeed.
fn not_superuser(caller: &Caller, message: String) -> Exception {
    if caller.groups_known {
        return refusal::denied(message);
    }
    Exception::new(RETRIABLE, format!("{message} (groups of {}: {NoAnswer})", caller.user))
}

/// A client's id as that of this user's: it travels in the open, and whoever repeats a call of somebody else must not
/// get the answer.
fn own_id(client: [u8; 16], user: &str) -> [u8; 16] {
    let hash = Sha256::new().chain_update(client).chain_update(user).finalize();
    hash[..16].try_into().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security_config::{AuthenticationSetting, ProxyUser, SecurityConfig};
    use bytes::Bytes;
    use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION};
    use rpc::Identity;
    use std::collections::BTreeMap;

    fn users(look_up: impl Fn(&str) -> std::io::Result<Vec<String>> + Send + Sync + 'static) -> Users {
        let config = SecurityConfig::default();
        Users::new("owner".into(), "supergroup".into(), Box::new(look_up), &config, "meta1").unwrap()
    }

    /// Whose callers prove who they are.
    fn secure_users() -> Users {
        let oozie =
            ProxyUser { users: Some("ada".into()), groups: Some("staff".into()), hosts: Some("10.0.0.0/8".into()) };
        let config = SecurityConfig {
            authentication: AuthenticationSetting::Kerberos,
            principal: Some("nn/_HOST@EXAMPLE.COM".into()),
            proxy_users: BTreeMap::from([("oozie".to_owned(), oozie)]),
            static_groups: "bob=staff;admin=supergroup".into(),
            ..SecurityConfig::default()
        };
        let nobody = |_: &str| Ok(Vec::new());
        Users::new("root".into(), "supergroup".into(), Box::new(nobody), &config, "meta1").unwrap()
    }

    fn proven(name: &str, effective: &str, from: &str) -> Call {
        let real = (name != effective).then(|| name.to_owned());
        let (effective, proof) = (effective.to_owned(), Proof::Kerberos { name: name.to_owned() });
        let user = Identity { effective, real, proof }.into();
        Call { user, peer: from.parse().unwrap(), ..call("", None) }
    }

    async fn secure_session(users: &Users, call: &Call) -> Result<Session, (&'static str, String)> {
        let session = Session::of(users, &Connections::default(), call, Duration::ZERO).await;
        session.map_err(|refused| (refused.class, refused.message))
    }

    const HERE: &str = "10.0.0.1:1000";

    /// Rights go by the short name, and what says who calls by the whole one.
    #[tokio::test]
    async fn a_ticket_names_the_caller() {
        let users = secure_users();
        let session = secure_session(&users, &proven("ada@EXAMPLE.COM", "ada@EXAMPLE.COM", HERE)).await.unwrap();
        assert_eq!((&*session.caller.user, &*session.name), ("ada", "ada@EXAMPLE.COM"));
        assert_eq!((session.real.as_deref(), session.proof.method()), (None, Method::Kerberos));
        assert!(!session.caller.superuser);
        let short = secure_session(&users, &proven("ada@EXAMPLE.COM", "ada", HERE)).await.unwrap();
        assert_eq!((&*short.name, short.real.as_deref()), ("ada@EXAMPLE.COM", None), "no proxy of itself");
        for name in ["nn/meta1@EXAMPLE.COM", "nn/meta2@EXAMPLE.COM", "admin@EXAMPLE.COM"] {
            assert!(secure_session(&users, &proven(name, name, HERE)).await.unwrap().caller.superuser, "{name}");
        }
        let root = secure_session(&users, &proven("root@EXAMPLE.COM", "root@EXAMPLE.COM", HERE)).await.unwrap();
        assert!(!root.caller.superuser, "who runs the server here is nobody there");
        let (class, message) =
            secure_session(&users, &proven("ada@OTHER.COM", "ada@OTHER.COM", HERE)).await.unwrap_err();
        assert_eq!(class, ACCESS_CONTROL);
        assert_eq!(message, "Illegal principal name \"ada@OTHER.COM\": No rules applied to ada@OTHER.COM");
        let (class, message) = secure_session(&users, &call("admin", None)).await.unwrap_err();
        assert_eq!(
            (class, &*message),
            (ACCESS_CONTROL, "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]")
        );
    }

    /// A client's id travels in the open: who repeats a call of somebody else must not get the answer.
    #[tokio::test]
    async fn the_calls_of_two_users_are_never_the_same() {
        let users = secure_users();
        let key = async |name: &str| secure_session(&users, &proven(name, name, HERE)).await.unwrap().retry.unwrap();
        let ada = key("ada@EXAMPLE.COM").await;
        assert_eq!(ada, key("ada@EXAMPLE.COM").await);
        assert_ne!(ada, key("admin@EXAMPLE.COM").await);
    }

    #[tokio::test]
    async fn who_acts_for_others_is_in_the_settings() {
        let users = secure_users();
        let (oozie, other) = ("oozie/gate@EXAMPLE.COM", "192.168.0.1:1000");
        for user in ["ada", "bob", "ada@EXAMPLE.COM"] {
            let session = secure_session(&users, &proven(oozie, user, HERE)).await.unwrap();
            assert_eq!(session.real.as_deref(), Some(oozie), "{user}");
        }
        let refused = async |real: &str, user: &str, from: &str| {
            let (class, message) = secure_session(&users, &proven(real, user, from)).await.unwrap_err();
            assert_eq!(class, AUTHORIZATION);
            message
        };
        let impersonate = format!("User: {oozie} is not allowed to impersonate");
        assert_eq!(refused(oozie, "eve", HERE).await, format!("{impersonate} eve"), "neither named nor in a group");
        let host = refused(oozie, "ada", other).await;
        assert_eq!(host, format!("Unauthorized connection for super-user: {oozie} from IP /192.168.0.1"));
        let message = refused("hue@EXAMPLE.COM", "ada", HERE).await;
        assert_eq!(message, "User: hue@EXAMPLE.COM is not allowed to impersonate ada");
        let message = refused("admin@EXAMPLE.COM", "ada", HERE).await;
        assert_eq!(message, "User: admin@EXAMPLE.COM is not allowed to impersonate ada", "no superuser by itself");
    }

    async fn check(effective: &str, real: Option<&str>) -> Result<Session, Exception> {
        session(&users(|_| Ok(Vec::new())), effective, real).await
    }

    async fn session(users: &Users, effective: &str, real: Option<&str>) -> Result<Session, Exception> {
        Session::of(users, &Connections::default(), &call(effective, real), Duration::ZERO).await
    }

    fn call(effective: &str, real: Option<&str>) -> Call {
        Call {
            protocol: String::new(),
            method: String::new(),
            version: 1,
            body: Bytes::new(),
            user: Identity::simple(effective, real.map(str::to_owned)).into(),
            client_id: Bytes::from_static(&[7; 16]),
            call_id: 3,
            retry_count: 0,
            peer: "[::ffff:10.0.0.1]:1000".parse().unwrap(),
            is_private: true,
            untaken: rpc::Untaken::default(),
        }
    }

    /// Until its connection ends, groups are to be read again, or it is a while ago; and nobody gets that of another.
    #[tokio::test]
    async fn a_connection_keeps_its_user() {
        let users = users(|_| Ok(vec!["staff".into()]));
        let (call, second) = (call("alice", None), Duration::from_secs(1));
        let connections = Connections::default();
        connections.opened(call.peer);
        let at = async |call: &Call, now| Session::of(&users, &connections, call, now).await.unwrap().user;
        let first = at(&call, second).await;
        assert_eq!(first.caller.groups, ["staff"]);
        assert_eq!(first.proof, Proof::Nothing);
        assert!(Arc::ptr_eq(&first, &at(&call, second * 2).await));
        let other = Call { user: Identity::simple("bob", None).into(), ..call.clone() };
        assert_eq!(at(&other, second * 2).await.caller.user, "bob");
        let again = at(&call, second * 2).await;
        assert!(!Arc::ptr_eq(&again, &at(&call, second * 12).await));
        let again = at(&call, second * 13).await;
        connections.forget_users();
        let forgotten = at(&call, second * 13).await;
        assert!(!Arc::ptr_eq(&again, &forgotten));
        connections.closed(call.peer);
        assert!(!Arc::ptr_eq(&forgotten, &at(&call, second * 13).await));
    }

    /// Servers of a group, and datanodes, call as the owner: with each message of Raft.
    #[tokio::test]
    async fn the_owner_is_known_without_the_user_database() {
        let users = users(|name| panic!("{name} was looked up"));
        for real in [None, Some("owner")] {
            let session = io::time::timeout(Duration::ZERO, session(&users, "owner", real)).await;
            assert!(session.expect("it waits for nothing").unwrap().caller.superuser);
        }
    }

    /// Groups that are not known grant nothing and deny nothing for good: the refusal says why, and clients try again.
    #[tokio::test]
    async fn who_cannot_be_looked_up_is_asked_to_try_again() {
        let users = users(|_| Err(std::io::Error::other("the directory server is down")));
        let session = session(&users, "admin", None).await.unwrap();
        assert!(session.caller.groups.is_empty() && !session.caller.groups_known);
        let refused = session.must_have(Right::Look, Some("fsck")).unwrap_err();
        assert_eq!(refused.class, RETRIABLE);
        let refused = refused.message;
        let begin =
            "Access denied for user admin. Superuser privilege is required for operation fsck (groups of admin: ";
        assert!(refused.starts_with(begin), "{refused}");
        let refused = self::session(&users, "bob", Some("admin")).await.unwrap_err();
        assert_eq!(refused.class, RETRIABLE, "{}", refused.message);
        let unknown = namespace::NsError::GroupsUnknown(Box::new(namespace::error::denial::Denial::NewOwner {
            user: "bob".into(),
        }));
        assert_eq!(refusal::namespace(unknown).class, RETRIABLE);
    }

    /// By a call, on behalf of somebody, and by `hdfs groups`: what is no name is refused before anything is done with
    /// it.
    #[tokio::test]
    async fn what_is_no_name_is_not_looked_up() {
        let users = users(|name| panic!("{} bytes were looked up", name.len()));
        for strange in ["n".repeat(1 << 20), "a\nb".into(), "a:b".into(), String::new()] {
            let errors = [
                session(&users, &strange, None).await.unwrap_err(),
                session(&users, "owner", Some(&strange)).await.unwrap_err(),
                users.groups(&strange, [127, 0, 0, 1].into(), Duration::ZERO).await.unwrap_err(),
            ];
            assert!(errors.iter().all(|error| error.message.len() < 300), "an error does not repeat it: {errors:?}");
        }
    }

    #[tokio::test]
    async fn only_the_superuser_acts_for_others() {
        let session = check("somebody", None).await.unwrap();
        assert!(!session.caller.superuser);
        assert_eq!(session.host(), "10.0.0.1");
        assert_eq!(session.retry, Some(RetryKey { client: [7; 16], call: 3 }));
        assert!(check("owner", None).await.unwrap().caller.superuser);
        assert!(!check("somebody", Some("owner")).await.unwrap().caller.superuser);
        assert!(check("somebody", Some("somebody")).await.is_ok());
        let refused = check("owner", Some("somebody")).await.unwrap_err();
        assert_eq!(refused.class, AUTHORIZATION);
        assert_eq!(refused.message, "User: somebody is not allowed to impersonate owner");
        let impostor = check("supergroup", None).await.unwrap();
        assert!(!impostor.caller.superuser, "a name is no membership: {:?}", impostor.caller.groups);
        assert!(check("", None).await.is_err());
        assert!(check("a\nb", None).await.is_err());
    }
}
