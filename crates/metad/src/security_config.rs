//! The table `security` of the configuration: how callers prove who they are, and what follows from their names.

use crate::rights::{AccessList, Rights};
use security::auth_to_local::{AuthToLocal, Mechanism};
use security::delegation::Rules;
use security::kerberos_name::KerberosName;
use security::keys::Lifetimes;
use security::proxy::ProxyUsers;
use security::sasl::digest::{Protection, Qop};
use security::sasl::rpc::{KerberosOffer, Offers};
use security::sasl::transfer::KeyBits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How callers prove who they are. HDFS: `hadoop.security.authentication`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthenticationSetting {
    /// Not at all: each is who he says he is.
    #[default]
    Simple,
    /// By a ticket, or by a delegation token that was given out for one.
    Kerberos,
}

/// What a short name may be. HDFS: `hadoop.security.auth_to_local.mechanism`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MechanismSetting {
    #[default]
    Hadoop,
    Mit,
}

/// For whom somebody may act, and from where. HDFS: `hadoop.proxyuser.USER.users`, `.groups`, `.hosts`, and the same
/// values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyUser {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
}

/// See the module. All servers of a group have the same, but for the name of each in `principal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    pub authentication: AuthenticationSetting,
    /// How what is said over RPC is protected, the best first: `authentication`, `integrity`, `privacy`. A client
    /// chooses among these. HDFS: `hadoop.rpc.protection`.
    pub rpc_protection: Vec<String>,
    /// What connections of data transfer have to agree on, the best first, in the words of `rpc_protection`. Empty: a
    /// handshake is not asked for. With anything in it `block_tokens` must be on. HDFS: `dfs.data.transfer.protection`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_transfer_protection: Vec<String>,
    /// Data transfer is encrypted, and clients are told so: as if `data_transfer_protection` were `privacy`, and stock
    /// clients need no setting for it. HDFS: `dfs.encrypt.data.transfer`.
    pub encrypt_data_transfer: bool,
    /// Bits of a key of AES, where privacy of data transfer agrees on AES: 128, 192 or 256. HDFS:
    /// `dfs.encrypt.data.transfer.cipher.key.bitlength`.
    pub data_transfer_key_bits: u32,
    /// This server's Kerberos name, as `nn/_HOST@EXAMPLE.COM`: `_HOST` stands for the name of this machine. HDFS:
    /// `dfs.namenode.kerberos.principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// File with its keys. HDFS: `dfs.namenode.keytab.file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keytab: Option<PathBuf>,
    /// The name that tickets over HTTP are for, as `HTTP/_HOST@EXAMPLE.COM`. None: `HTTP`, with host and realm of
    /// `principal`. HDFS: `dfs.web.authentication.kerberos.principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_principal: Option<String>,
    /// File with its keys. None: `keytab`, and if that has none, HTTP refuses what asks for a user. HDFS:
    /// `dfs.web.authentication.kerberos.keytab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_keytab: Option<PathBuf>,
    /// How a Kerberos name becomes a short one, in HDFS's rules. HDFS: `hadoop.security.auth_to_local`.
    pub auth_to_local: String,
    pub auth_to_local_mechanism: MechanismSetting,
    /// The realm that the rule `DEFAULT` asks for. None: that of `principal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// By short names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_users: BTreeMap<String, ProxyUser>,
    /// Groups of users that are not looked up, as `ada=staff,dev;bob=`. HDFS:
    /// `hadoop.user.group.static.mapping.overrides`.
    pub static_groups: String,
    /// Users and groups who administer the store without being superusers, as `ada,bob staff,ops`. HDFS:
    /// `dfs.cluster.administrators`, which only lets them look.
    pub administrators: String,
    /// Who may look at what administrators see, and change nothing.
    pub observers: String,
    /// Directory with the certificate and the key of this server, and whom it believes: see docs/security.md. With it
    /// all servers of the store talk over TLS, and prove to each other who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_certificates: Option<PathBuf>,
    /// Directory of the store's authority, from which this server signs certificates of datanodes that have a join
    /// token, and of those that have a certificate and need a newer one. All servers that may lead have it, or none is
    /// signed while one leads that has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<PathBuf>,
    /// A delegation token that nobody renews counts for so long. HDFS:
    /// `dfs.namenode.delegation.token.renew-interval`, a day.
    pub delegation_token_renew_ms: u64,
    /// No renewal goes beyond. HDFS: `dfs.namenode.delegation.token.max-lifetime`, a week.
    pub delegation_token_lifetime_ms: u64,
    /// So long a key signs delegation tokens. HDFS: `dfs.namenode.delegation.key.update-interval`, a day.
    pub delegation_key_update_ms: u64,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        let (rules, lifetimes) = (Rules::default(), Lifetimes::DELEGATION_TOKENS);
        Self {
            authentication: AuthenticationSetting::Simple,
            rpc_protection: vec!["authentication".into()],
            data_transfer_protection: Vec::new(),
            encrypt_data_transfer: false,
            data_transfer_key_bits: KeyBits::default().count(),
            principal: None,
            keytab: None,
            web_principal: None,
            web_keytab: None,
            auth_to_local: "DEFAULT".into(),
            auth_to_local_mechanism: MechanismSetting::Hadoop,
            realm: None,
            proxy_users: BTreeMap::new(),
            static_groups: String::new(),
            administrators: String::new(),
            observers: String::new(),
            node_certificates: None,
            authority: None,
            delegation_token_renew_ms: rules.renew_interval.as_millis() as u64,
            delegation_token_lifetime_ms: rules.lifetime_max.as_millis() as u64,
            delegation_key_update_ms: lifetimes.roll_interval().as_millis() as u64,
        }
    }
}

/// Groups that are not looked up, by the user.
pub(crate) type StaticGroups = BTreeMap<String, Vec<String>>;

impl SecurityConfig {
    /// Settings that cannot work, described for the user who wrote them.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.qops()?;
        self.transfer_qops()?;
        self.transfer_key_bits()?;
        self.names()?;
        self.proxies()?;
        self.groups()?;
        self.rights()?;
        self.delegation_lifetimes()?;
        if self.authority.is_some() && self.node_certificates.is_none() {
            return Err(
                "security.authority signs certificates for servers, and security.node_certificates is missing".into()
            );
        }
        self.web_name("localhost")?;
        if self.is_kerberos() {
            self.offer("localhost")?;
        }
        Ok(())
    }

    pub(crate) fn is_kerberos(&self) -> bool {
        self.authentication == AuthenticationSetting::Kerberos
    }

    fn qops(&self) -> Result<Vec<Qop>, String> {
        let qops = qops_of("rpc_protection", &self.rpc_protection)?;
        if qops.is_empty() {
            return Err("security.rpc_protection is empty: list authentication, integrity or privacy".into());
        }
        Ok(qops)
    }

    /// What data transfer has to agree on; empty: nothing.
    pub(crate) fn transfer_qops(&self) -> Result<Vec<Qop>, String> {
        let qops = qops_of("data_transfer_protection", &self.data_transfer_protection)?;
        match self.encrypt_data_transfer {
            true if qops.iter().any(|qop| *qop != Qop::Privacy) => {
                Err("security.encrypt_data_transfer is on, and security.data_transfer_protection asks for less: leave \
                     that out, or list privacy alone"
                    .into())
            }
            true => Ok(vec![Qop::Privacy]),
            false => Ok(qops),
        }
    }

    fn transfer_key_bits(&self) -> Result<KeyBits, String> {
        let count = self.data_transfer_key_bits;
        KeyBits::of_count(count)
            .ok_or_else(|| format!("security.data_transfer_key_bits is {count}: AES has keys of 128, 192 and 256 bits"))
    }

    /// What callers can choose from. `host`: of this machine.
    pub(crate) fn offers(&self, host: &str) -> Result<Offers, String> {
        if !self.is_kerberos() {
            return Ok(Offers { simple: true, ..Offers::default() });
        }
        let token = Some(Protection::of(&self.qops()?));
        Ok(Offers { token, kerberos: Some(self.offer(host)?), simple: false })
    }

    fn offer(&self, host: &str) -> Result<KerberosOffer, String> {
        let name = self.own_name(host)?.ok_or("security.principal is missing: name this server, as nn/_HOST@REALM")?;
        let host = name.host.ok_or("security.principal has no host: write nn/_HOST@REALM")?;
        Ok(KerberosOffer { service: name.service, host, qops: self.qops()? })
    }

    /// This server's Kerberos name.
    pub(crate) fn own_name(&self, host: &str) -> Result<Option<KerberosName>, String> {
        name_of("principal", self.principal.as_deref(), host)
    }

    /// The one over HTTP, if it is another one than usual.
    pub(crate) fn web_name(&self, host: &str) -> Result<Option<KerberosName>, String> {
        name_of("web_principal", self.web_principal.as_deref(), host)
    }

    pub(crate) fn names(&self) -> Result<AuthToLocal, String> {
        let mechanism = match self.auth_to_local_mechanism {
            MechanismSetting::Hadoop => Mechanism::Hadoop,
            MechanismSetting::Mit => Mechanism::Mit,
        };
        let of_principal = || self.principal.as_ref().and_then(|name| Some(name.rsplit_once('@')?.1.trim().to_owned()));
        let realm = self.realm.clone().or_else(of_principal).unwrap_or_default();
        let rules = AuthToLocal::parse(&self.auth_to_local, mechanism, &realm);
        rules.map_err(|error| format!("security.auth_to_local: {error}"))
    }

    pub(crate) fn proxies(&self) -> Result<ProxyUsers, String> {
        let settings = self.proxy_users.iter().flat_map(|(user, of)| {
            let named = [("users", &of.users), ("groups", &of.groups), ("hosts", &of.hosts)];
            named.into_iter().filter_map(move |(what, value)| Some((format!("{user}.{what}"), value.as_deref()?)))
        });
        let settings: Vec<(String, &str)> = settings.collect();
        let parsed = ProxyUsers::parse(settings.iter().map(|(key, value)| (key.as_str(), *value)));
        parsed.map_err(|error| format!("security.proxy_users: {error}"))
    }

    pub(crate) fn groups(&self) -> Result<StaticGroups, String> {
        let mut groups = StaticGroups::new();
        for entry in self.static_groups.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (user, of) = entry.split_once('=').unwrap_or((entry, ""));
            let of = of.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = user.trim();
            if user.is_empty() || groups.insert(user.to_owned(), of).is_some() {
                return Err(format!("security.static_groups names no user, or one twice, in {entry:?}"));
            }
        }
        Ok(groups)
    }

    pub(crate) fn rights(&self) -> Result<Rights, String> {
        let list =
            |setting: &str, text: &str| AccessList::parse(text).map_err(|error| format!("security.{setting}: {error}"));
        let administrators = list("administrators", &self.administrators)?;
        Ok(Rights { administrators, observers: list("observers", &self.observers)? })
    }

    pub(crate) fn delegation_rules(&self) -> Rules {
        Rules {
            renew_interval: Duration::from_millis(self.delegation_token_renew_ms),
            lifetime_max: Duration::from_millis(self.delegation_token_lifetime_ms),
        }
    }

    /// Of the keys that sign delegation tokens; `None`: none are given out.
    pub(crate) fn delegation_token_lifetimes(&self) -> Option<Lifetimes> {
        self.delegation_lifetimes().ok().filter(|_| self.is_kerberos())
    }

    pub(crate) fn delegation_lifetimes(&self) -> Result<Lifetimes, String> {
        let (roll, lifetime) = (self.delegation_key_update_ms, self.delegation_token_lifetime_ms);
        if self.delegation_token_renew_ms == 0 {
            return Err("security.delegation_token_renew_ms must be above 0".into());
        }
        Lifetimes::new(Duration::from_millis(roll), Duration::from_millis(lifetime)).ok_or_else(|| {
            format!(
                "security.delegation_token_lifetime_ms ({lifetime}) must be above 0, and at most eight times \
                 delegation_key_update_ms ({roll})"
            )
        })
    }
}

fn name_of(setting: &str, principal: Option<&str>, host: &str) -> Result<Option<KerberosName>, String> {
    let parse =
        |principal| KerberosName::of_setting(principal, host).map_err(|error| format!("security.{setting}: {error}"));
    principal.map(parse).transpose()
}

fn qops_of(setting: &str, words: &[String]) -> Result<Vec<Qop>, String> {
    let one = |word: &String| {
        Qop::parse_setting(word)
            .ok_or_else(|| format!("security.{setting}: {word:?} is none of authentication, integrity and privacy"))
    };
    words.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kerberos() -> SecurityConfig {
        let (authentication, principal) = (AuthenticationSetting::Kerberos, Some("nn/_HOST@EXAMPLE.COM".into()));
        SecurityConfig { authentication, principal, ..SecurityConfig::default() }
    }

    #[test]
    fn what_is_offered_follows_from_the_settings() {
        let open = SecurityConfig::default().offers("meta1").unwrap();
        assert!(open.simple && open.token.is_none() && open.kerberos.is_none());
        let config = SecurityConfig { rpc_protection: vec!["privacy".into(), "integrity".into()], ..kerberos() };
        let offers = config.offers("Meta1.example.com").unwrap();
        let qops = vec![Qop::Privacy, Qop::Integrity];
        assert!(!offers.simple && offers.token == Some(Protection::of(&qops)));
        let kerberos = KerberosOffer { service: "nn".into(), host: "meta1.example.com".into(), qops };
        assert_eq!(offers.kerberos, Some(kerberos));
    }

    #[test]
    fn the_realm_of_the_principal_is_the_default_one() {
        let short = |name| kerberos().names().unwrap().short_name(&KerberosName::parse(name).unwrap());
        assert_eq!(short("ada@EXAMPLE.COM"), Ok("ada".to_owned()));
        assert!(short("ada@ELSEWHERE.COM").is_err());
    }

    #[test]
    fn a_static_map_names_groups() {
        let config = SecurityConfig { static_groups: "ada=staff,dev; bob=;eve".into(), ..SecurityConfig::default() };
        let groups = config.groups().unwrap();
        assert_eq!((groups["ada"].len(), groups["bob"].len(), groups["eve"].len()), (2, 0, 0));
    }

    #[test]
    fn data_that_is_encrypted_is_not_less_than_private() {
        let of = |words: &[&str], encrypt_data_transfer| {
            let data_transfer_protection = words.iter().map(|word| (*word).to_owned()).collect();
            let config =
                SecurityConfig { data_transfer_protection, encrypt_data_transfer, ..SecurityConfig::default() };
            config.check().and_then(|()| config.transfer_qops())
        };
        assert_eq!(of(&[], false), Ok(Vec::new()));
        assert_eq!(of(&["integrity", "authentication"], false), Ok(vec![Qop::Integrity, Qop::Auth]));
        assert_eq!(of(&[], true), Ok(vec![Qop::Privacy]));
        assert!(of(&["integrity"], true).unwrap_err().contains("encrypt_data_transfer"));
        assert!(of(&["secret"], false).unwrap_err().contains("data_transfer_protection"));
    }

    #[test]
    fn what_cannot_work_is_named() {
        let refused = |config: SecurityConfig| config.check().unwrap_err();
        let open = SecurityConfig::default;
        assert!(refused(SecurityConfig { principal: None, ..kerberos() }).contains("security.principal is missing"));
        assert!(refused(SecurityConfig { principal: Some("nn@X".into()), ..kerberos() }).contains("has no host"));
        assert!(refused(SecurityConfig { rpc_protection: vec!["tls".into()], ..open() }).contains("\"tls\""));
        assert!(refused(SecurityConfig { rpc_protection: Vec::new(), ..open() }).contains("is empty"));
        assert!(
            refused(SecurityConfig { data_transfer_key_bits: 64, ..open() }).contains("data_transfer_key_bits is 64")
        );
        assert!(refused(SecurityConfig { auth_to_local: "RULE:[".into(), ..open() }).contains("auth_to_local"));
        assert!(refused(SecurityConfig { static_groups: "=x".into(), ..open() }).contains("static_groups"));
        assert!(refused(SecurityConfig { delegation_key_update_ms: 1, ..open() }).contains("eight times"));
        let hosts = ProxyUser { hosts: Some("10.0.0.0/99".into()), ..ProxyUser::default() };
        let proxy_users = BTreeMap::from([("oozie".to_owned(), hosts)]);
        assert!(refused(SecurityConfig { proxy_users, ..open() }).contains("hadoop.proxyuser.oozie.hosts"));
        assert_eq!(kerberos().check(), Ok(()));
    }
}
