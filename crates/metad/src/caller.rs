//! Callers: their groups, whether they are superusers, and for which users they may act.

use crate::connections::Connections;
use crate::environment::GroupLookUp;
use crate::groups::{GroupNames, Groups, NoAnswer, is_name};
use crate::principal::{Authentication, User};
use crate::refusal;
use hdfs::Exception;
use hdfs::exception::{AUTHORIZATION, RETRIABLE};
use namespace::{Caller, RetryKey};
use rpc::{Call, Identity};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Characters of a name that is none which an error repeats.
const NAME_SHOWN_LEN: usize = 32;

/// One call's circumstances.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) user: Arc<User>,
    /// `None` if the client gave no id that could be recognised again.
    pub(crate) retry: Option<RetryKey>,
    pub(crate) peer: IpAddr,
    pub(crate) untaken: rpc::Untaken,
}

impl Deref for Session {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Session {
    /// `operation`: as HDFS names it in its refusal, where it does.
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

    /// Of somebody in no group, at this machine.
    #[cfg(test)]
    pub(crate) fn example(user: &str, superuser: bool) -> Self {
        let caller = Caller { user: user.into(), groups: Vec::new(), groups_known: true, superuser };
        let user = Arc::new(User { caller, real: None, authentication: Authentication::Simple });
        Self { user, retry: None, peer: [127, 0, 0, 1].into(), untaken: rpc::Untaken::default() }
    }

    /// Where the client runs, as datanodes' addresses are written.
    pub(crate) fn host(&self) -> String {
        self.address().to_string()
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.peer.to_canonical()
    }
}

/// Rights by name and group.
#[derive(Debug)]
pub(crate) struct Users {
    owner: String,
    supergroup: String,
    groups: Groups,
}

impl Users {
    /// `owner` runs the server, and may do everything.
    pub(crate) fn new(owner: String, supergroup: String, look_up: Box<GroupLookUp>) -> Self {
        Self { owner, supergroup, groups: Groups::new(look_up) }
    }

    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    pub(crate) fn supergroup(&self) -> &str {
        &self.supergroup
    }

    pub(crate) async fn session(
        &self,
        connections: &Connections,
        call: &Call,
        now: Duration,
    ) -> Result<Session, Exception> {
        let user = match connections.user(call.peer, &call.user, now) {
            Some(user) => user,
            None => {
                let user = Arc::new(self.user(&call.user, call.peer.ip(), now).await?);
                // Of one whose groups are not known the next call asks again.
                if user.caller.groups_known {
                    connections.set_user(call.peer, &call.user, &user, now);
                }
                user
            }
        };
        let client: Option<[u8; 16]> = call.client_id.as_ref().try_into().ok();
        let retry = client.filter(|_| call.call_id >= 0).map(|client| RetryKey { client, call: call.call_id });
        Ok(Session { user, retry, peer: call.peer.ip(), untaken: call.untaken.clone() })
    }

    async fn user(&self, identity: &Identity, from: IpAddr, now: Duration) -> Result<User, Exception> {
        let user = identity.effective.as_str();
        check_name(user)?;
        let real = identity.real.clone().filter(|real| real != user);
        if let Some(real) = real.as_deref() {
            check_name(real)?;
            let by = self.caller(real, from, now).await;
            if !by.superuser {
                let message = format!("User: {real} is not allowed to impersonate {user}");
                let class = if by.groups_known { AUTHORIZATION } else { RETRIABLE };
                return Err(Exception::new(class, message));
            }
        }
        Ok(User { caller: self.caller(user, from, now).await, real, authentication: Authentication::Simple })
    }

    /// The owner's groups are not looked up: the owner may do everything without them. The servers of a group call each
    /// other as the owner, so Raft would wait for a directory server.
    async fn caller(&self, user: &str, from: IpAddr, now: Duration) -> Caller {
        if user == self.owner {
            return Caller { user: user.into(), groups: Vec::new(), groups_known: true, superuser: true };
        }
        let groups = self.groups.of(user, from, now).await;
        let groups_known = groups.is_ok();
        let groups = groups.map(|groups| groups.to_vec()).unwrap_or_default();
        let superuser = groups.contains(&self.supergroup);
        Caller { user: user.into(), groups, groups_known, superuser }
    }

    /// Asks the user database about everybody again.
    pub(crate) fn forget(&self) {
        self.groups.forget();
    }

    /// Of any user, for a query from the address `from`.
    pub(crate) async fn groups(&self, user: &str, from: IpAddr, now: Duration) -> Result<GroupNames, Exception> {
        check_name(user)?;
        self.groups.of(user, from, now).await.map_err(|error| Exception::io(format!("groups of {user}: {error}")))
    }
}

/// A caller whose groups cannot be looked up may be a superuser: then another call may succeed.
fn not_superuser(caller: &Caller, message: String) -> Exception {
    if caller.groups_known {
        return refusal::denied(message);
    }
    Exception::new(RETRIABLE, format!("{message} (groups of {}: {NoAnswer})", caller.user))
}

fn check_name(user: &str) -> Result<(), Exception> {
    if is_name(user) {
        return Ok(());
    }
    // It may be megabytes long, and made of anything.
    let shown: String = user.chars().take(NAME_SHOWN_LEN).flat_map(char::escape_default).collect();
    Err(refusal::denied(format!(
        "{shown:?} is not a name of a user: give one of 1 to 255 bytes, without : and control characters"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn users(look_up: impl Fn(&str) -> std::io::Result<Vec<String>> + Send + Sync + 'static) -> Users {
        Users::new("owner".into(), "supergroup".into(), Box::new(look_up))
    }

    async fn check(effective: &str, real: Option<&str>) -> Result<Session, Exception> {
        session(&users(|_| Ok(Vec::new())), effective, real).await
    }

    async fn session(users: &Users, effective: &str, real: Option<&str>) -> Result<Session, Exception> {
        users.session(&Connections::default(), &call(effective, real), Duration::ZERO).await
    }

    fn call(effective: &str, real: Option<&str>) -> Call {
        Call {
            protocol: String::new(),
            method: String::new(),
            version: 1,
            body: Bytes::new(),
            user: rpc::Identity::simple(effective, real.map(str::to_owned)).into(),
            client_id: Bytes::from_static(&[7; 16]),
            call_id: 3,
            retry_count: 0,
            peer: "[::ffff:10.0.0.1]:1000".parse().unwrap(),
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
        let at = async |call: &Call, now| users.session(&connections, call, now).await.unwrap().user;
        let first = at(&call, second).await;
        assert_eq!((&first.caller.groups[..], first.authentication.name()), (&["staff".to_owned()][..], "SIMPLE"));
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
        let refused = session.must_be_superuser(Some("fsck")).unwrap_err();
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
