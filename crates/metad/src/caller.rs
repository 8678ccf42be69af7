//! Who calls: the user of the connection, its groups, and whether it may do everything.

use crate::refusal;
use hdfs::Exception;
use hdfs::exception::AUTHORIZATION;
use namespace::{Caller, RetryKey};
use rpc::Call;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// HDFS asks again after five minutes as well (`hadoop.security.groups.cache.secs`).
const GROUPS_KEPT: Duration = Duration::from_secs(300);
/// Users remembered. Beyond that all are asked again, which costs a look into the user database each.
const USER_COUNT_MAX: usize = 10_000;
/// A user's name, and a host's: longer ones are no names.
const NAME_LEN_MAX: usize = 256;

/// One call's circumstances.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) caller: Caller,
    /// `None` if the client gave no id that could be recognised again.
    pub(crate) retry: Option<RetryKey>,
    pub(crate) peer: IpAddr,
    /// `None`: its answer is not one of the RPC server.
    pub(crate) untaken: Option<rpc::Untaken>,
}

impl Session {
    /// `operation`: HDFS's name of it.
    pub(crate) fn must_be_superuser(&self, operation: &str) -> Result<(), Exception> {
        if self.caller.superuser {
            return Ok(());
        }
        Err(refusal::denied(format!(
            "Access denied for user {}. Superuser privilege is required for operation {operation}",
            self.caller.user
        )))
    }

    /// Where the client runs, as datanodes' addresses are written.
    pub(crate) fn host(&self) -> String {
        self.peer.to_canonical().to_string()
    }
}

/// Looks users up, and remembers their groups for a while.
#[derive(Debug)]
pub(crate) struct Users {
    owner: String,
    supergroup: String,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    groups: Arc<[String]>,
    asked: Duration,
}

impl Users {
    /// `owner` runs the server, and may do everything.
    pub(crate) fn new(owner: String, supergroup: String) -> Self {
        Self { owner, supergroup, known: Mutex::default() }
    }

    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    pub(crate) fn supergroup(&self) -> &str {
        &self.supergroup
    }

    pub(crate) async fn session(&self, call: &Call, now: Duration) -> Result<Session, Exception> {
        let user = call.user.effective.as_str();
        check_name(user)?;
        if let Some(real) = call.user.real.as_deref()
            && real != user
            && !self.caller(real, now).await.superuser
        {
            return Err(Exception::new(AUTHORIZATION, format!("User: {real} is not allowed to impersonate {user}")));
        }
        let client: Option<[u8; 16]> = call.client_id.as_ref().try_into().ok();
        let retry = client.filter(|_| call.call_id >= 0).map(|client| RetryKey { client, call: call.call_id });
        Ok(Session {
            caller: self.caller(user, now).await,
            retry,
            peer: call.peer.ip(),
            untaken: Some(call.untaken.clone()),
        })
    }

    /// Of somebody who names himself in a request over HTTP.
    pub(crate) async fn session_of(&self, user: &str, peer: IpAddr, now: Duration) -> Result<Session, Exception> {
        check_name(user)?;
        Ok(Session { caller: self.caller(user, now).await, retry: None, peer, untaken: None })
    }

    async fn caller(&self, user: &str, now: Duration) -> Caller {
        let groups = self.groups(user, now).await;
        let superuser = user == self.owner || groups.contains(&self.supergroup);
        Caller { user: user.into(), groups: groups.to_vec(), superuser }
    }

    /// Asks the user database about everybody again.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    pub(crate) async fn groups(&self, user: &str, now: Duration) -> Arc<[String]> {
        let known = self.lock().get(user).filter(|known| now.saturating_sub(known.asked) < GROUPS_KEPT).cloned();
        if let Some(known) = known {
            return known.groups;
        }
        let name = user.to_owned();
        let groups: Arc<[String]> = io::task::blocking(move || io::user::groups_of(&name)).await.into();
        let mut users = self.lock();
        if users.len() >= USER_COUNT_MAX {
            users.clear();
        }
        users.insert(user.into(), Known { groups: Arc::clone(&groups), asked: now });
        groups
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_name(user: &str) -> Result<(), Exception> {
    if user.is_empty() || user.len() > NAME_LEN_MAX || user.chars().any(char::is_control) {
        return Err(refusal::denied("a call needs a user with a name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    async fn check(effective: &str, real: Option<&str>) -> Result<Session, Exception> {
        let users = Users::new("owner".into(), "supergroup".into());
        let call = Call {
            protocol: String::new(),
            method: String::new(),
            version: 1,
            body: Bytes::new(),
            user: rpc::Identity { effective: effective.into(), real: real.map(str::to_owned) },
            client_id: Bytes::from_static(&[7; 16]),
            call_id: 3,
            retry_count: 0,
            peer: "[::ffff:10.0.0.1]:1000".parse().unwrap(),
            untaken: rpc::Untaken::default(),
        };
        users.session(&call, Duration::ZERO).await
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
