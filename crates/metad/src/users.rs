//! Users: their short names and groups, whether they are superusers, and for which others they may act.

use crate::environment::GroupLookUp;
use crate::groups::{GroupNames, Groups, is_name};
use crate::principal::User;
use crate::refusal;
use crate::rights::{Right, Rights};
use crate::security_config::SecurityConfig;
use hdfs::Exception;
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION, RETRIABLE};
use namespace::Caller;
use rpc::{Identity, Proof};
use security::auth_to_local::AuthToLocal;
use security::kerberos_name::KerberosName;
use security::method::Method;
use security::node_name::{Certified, NodeName};
use security::proxy::{self, ProxyUsers};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Characters of a name that is none which an error repeats.
const NAME_SHOWN_LEN: usize = 32;

/// Rights by name and group.
#[derive(Debug)]
pub(crate) struct Users {
    owner: String,
    supergroup: String,
    groups: Groups,
    rights: Rights,
    /// The store's servers prove who they are by certificates, and by nothing else.
    has_certificates: bool,
    /// How whole names become short ones. `None`: names are taken as they come, and nobody proves anything.
    names: Option<AuthToLocal>,
    /// Replaced when the names of hosts in it were looked up.
    proxies: RwLock<Arc<ProxyUsers>>,
}

impl Users {
    /// `owner` runs the server, and may do everything; where callers prove who they are, so may the user that the
    /// server is there itself, in place of `owner`. `host`: of this machine.
    pub(crate) fn new(
        owner: String,
        supergroup: String,
        look_up: Box<GroupLookUp>,
        config: &SecurityConfig,
        host: &str,
    ) -> Result<Self, String> {
        let names = if config.is_kerberos() { Some(config.names()?) } else { None };
        let owner = match (&names, config.own_name(host)?) {
            (Some(names), Some(own)) => {
                names.short_name(&own).map_err(|error| format!("security.principal: {error}"))?
            }
            _ => owner,
        };
        let known = config.groups()?;
        let look_up: Box<GroupLookUp> = match known.is_empty() {
            true => look_up,
            false => Box::new(move |user| known.get(user).map_or_else(|| look_up(user), |groups| Ok(groups.clone()))),
        };
        let proxies = RwLock::new(Arc::new(config.proxies()?));
        let has_certificates = config.node_certificates.is_some();
        let (groups, rights) = (Groups::new(look_up), config.rights()?);
        Ok(Self { owner, supergroup, groups, rights, has_certificates, names, proxies })
    }

    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether the store's servers prove who they are by certificates, and by nothing else.
    pub(crate) fn has_certificates(&self) -> bool {
        self.has_certificates
    }

    /// Whether nobody gets in by a name alone.
    pub(crate) fn asks_for_proof(&self) -> bool {
        self.names.is_some()
    }

    /// Whether who calls as one of the store's servers has to prove that.
    pub(crate) fn asks_servers_for_proof(&self) -> bool {
        self.has_certificates || self.asks_for_proof()
    }

    /// As [`Session::must_be_a_member`], before a call has come. A ticket is looked at with each call.
    pub(crate) fn must_be_a_member(&self, identity: &Identity) -> Result<(), Exception> {
        if !self.has_certificates || identity.proof.member().is_some() {
            return Ok(());
        }
        let refused = none_of_the_store(&identity.effective, true);
        Err(Exception::unauthorized(refused.class, refused.message))
    }

    pub(crate) fn supergroup(&self) -> &str {
        &self.supergroup
    }

    pub(crate) async fn user(&self, identity: &Identity, from: IpAddr, now: Duration) -> Result<User, Exception> {
        if let Proof::Node(node) = identity.proof {
            return Ok(self.server(node));
        }
        // As of a query over HTTP: nobody proves anything there.
        if self.names.is_some() && identity.proof == Proof::Nothing {
            let message = "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]";
            return Err(Exception::new(ACCESS_CONTROL, message));
        }
        let user = self.short_name(&identity.effective)?;
        let (mut name, mut real) = (&identity.effective, None);
        if let Some(whole) = &identity.real {
            let by = self.short_name(whole)?;
            if by == user {
                name = whole; // who has a ticket may call itself by the short name
            } else {
                // The real user of a token was permitted to act when it was issued.
                if identity.proof.method() != Method::Token {
                    self.authorize(whole, &by, &user, from, now).await?;
                }
                real = Some(whole.clone());
            }
        }
        let caller = self.caller(&user, from, now).await;
        let right = self.rights.of(&caller);
        Ok(User { caller, right, name: name.clone(), real, proof: identity.proof.clone() })
    }

    /// One of the store's servers. Metadata servers have all names and all keys anyway; a datanode owns nothing.
    fn server(&self, node: Certified) -> User {
        let (user, superuser) = match node.name {
            NodeName::Member(_) => (self.owner.clone(), true),
            NodeName::Datanode(_) => (node.name.to_string(), false),
        };
        let caller = Caller { user, groups: Vec::new(), groups_known: true, superuser };
        let right = superuser.then_some(Right::Change);
        User { caller, right, name: node.name.to_string(), real: None, proof: Proof::Node(node) }
    }

    /// The name that permissions know.
    pub(crate) fn short_name(&self, name: &str) -> Result<String, Exception> {
        let short = match &self.names {
            None => name.to_owned(),
            Some(names) => {
                let illegal = |error: &dyn std::fmt::Display| {
                    let name = types::excerpt(name);
                    Exception::new(ACCESS_CONTROL, format!("Illegal principal name {name}: {error}"))
                };
                let whole = KerberosName::parse(name).map_err(|error| illegal(&error))?;
                names.short_name(&whole).map_err(|error| illegal(&error))?
            }
        };
        check_name(&short)?;
        Ok(short)
    }

    /// Whether `by`, whose whole name is `real`, may act as `user`. Who is named in the settings may as far as these
    /// say; and where nobody proves anything, so may superusers: everybody could be one.
    async fn authorize(&self, real: &str, by: &str, user: &str, from: IpAddr, now: Duration) -> Result<(), Exception> {
        assert!(by != user, "nobody needs a permission to be who he is");
        let proxies = self.proxies();
        if proxies.has(by) {
            let groups = self.groups.of(user, from, now).await;
            let class = if groups.is_ok() { AUTHORIZATION } else { RETRIABLE };
            let groups = groups.map(|groups| groups.to_vec()).unwrap_or_default();
            let request = proxy::Request { real, real_short_name: by, user, address: from.to_canonical() };
            let refused = |refusal: proxy::Refusal| Exception::new(class, refusal.to_string());
            return proxies.authorize(request, || &groups).map_err(refused);
        }
        let refused = |class| Exception::new(class, format!("User: {real} is not allowed to impersonate {user}"));
        if self.names.is_some() {
            return Err(refused(AUTHORIZATION));
        }
        match self.caller(by, from, now).await {
            Caller { superuser: true, .. } => Ok(()),
            Caller { groups_known: true, .. } => Err(refused(AUTHORIZATION)),
            Caller { groups_known: false, .. } => Err(refused(RETRIABLE)),
        }
    }

    fn proxies(&self) -> Arc<ProxyUsers> {
        Arc::clone(&self.proxies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Names of hosts in the settings of who may act for others.
    pub(crate) fn has_host_names(&self) -> bool {
        self.proxies().names().next().is_some()
    }

    /// Looks up the names of hosts from which somebody may act for others. One that cannot be looked up stays as it
    /// is.
    pub(crate) async fn resolve_hosts(&self) {
        let mut proxies = ProxyUsers::clone(&self.proxies());
        let names: Vec<String> = proxies.names().map(str::to_owned).collect();
        for name in names {
            match tokio::net::lookup_host((name.as_str(), 0)).await {
                Ok(found) => {
                    let addresses: Vec<IpAddr> = found.map(|addr| addr.ip()).collect();
                    proxies.set_addresses(&name, &addresses);
                }
                Err(error) => tracing::warn!(host = name, %error, "a host of security.proxy_users cannot be looked up"),
            }
        }
        *self.proxies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(proxies);
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

pub(crate) fn none_of_the_store(name: &str, has_certificates: bool) -> Exception {
    let wanted = if has_certificates { ": it has to show a certificate of this store for that" } else { "" };
    Exception::new(ACCESS_CONTROL, format!("{} is none of this store's servers{wanted}", types::excerpt(name)))
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
