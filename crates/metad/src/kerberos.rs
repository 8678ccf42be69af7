//! The server's own names and keys in Kerberos: by them it believes its callers, over RPC and over HTTP, and proves
//! itself to other members.

use crate::config::Config;
use crate::refusal;
use crate::security_config::SecurityConfig;
use crate::start_error::StartError;
use gss::{AcceptorSettings, Initiator, Negotiator, Tickets};
use rpc::{Kerberos, Login};
use security::kerberos_name::KerberosName;
use security::sasl::digest::Qop;
use security::sasl::rpc::Acceptor;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Who believes callers, and as whom this server calls others.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) acceptor: Option<Arc<dyn Acceptor>>,
    pub(crate) login: Option<Arc<Login>>,
    pub(crate) negotiator: Option<Negotiator>,
}

/// None where the settings ask for none.
pub(crate) fn of(config: &Config) -> Result<Ends, StartError> {
    let security = &config.security;
    let Some(key) = key_of(security)? else { return Ok(Ends::default()) };
    warn_of_others(&key.keytab);
    if security.node_certificates.is_none() {
        tracing::warn!(
            "no datanode can join: datanodes have no tickets, and security.node_certificates is missing. Give all \
             servers certificates, as docs/security.md says"
        );
    }
    let acceptor = opened(&key)?;
    let AcceptorSettings { principal, keytab, .. } = key;
    let negotiator = negotiator(config, &principal, &keytab)?;
    let (realm, service) = (principal.realm.clone(), principal.service.clone());
    let initiator = Initiator::new(Tickets::Keytab { principal, keytab }, realm).map_err(|error| wrong(&error))?;
    let kerberos = Kerberos { initiator: Arc::new(initiator), services: vec![service], host: None };
    // The log has the keys of tokens: the best protection that the other member offers.
    let qops = Qop::ALL.to_vec();
    let login =
        Login { tokens: Vec::new(), kerberos: Some(kerberos), qops, simple: false, acting_as: None, lacking: None };
    Ok(Ends { acceptor: Some(Arc::new(acceptor)), login: Some(Arc::new(login)), negotiator })
}

/// Refused if the keytab has no key of this server now, as its start would be. Reads the keytab.
pub fn check_keytab(security: &SecurityConfig) -> Result<(), StartError> {
    key_of(security)?.map_or(Ok(()), |key| opened(&key).map(drop))
}

/// Which key this server has, if the settings ask for Kerberos.
fn key_of(security: &SecurityConfig) -> Result<Option<AcceptorSettings>, StartError> {
    let own = security.own_name(refusal::host()).map_err(StartError::Config)?.filter(|_| security.is_kerberos());
    let key = own.zip(security.keytab.clone());
    Ok(key.map(|(principal, keytab)| AcceptorSettings { principal, keytab, replay_cache: None }))
}

fn opened(key: &AcceptorSettings) -> Result<gss::Acceptor, StartError> {
    gss::Acceptor::open(key).map_err(|error| wrong(&error))
}

fn wrong(error: &dyn fmt::Display) -> StartError {
    StartError::Config(format!("security: {error}"))
}

/// Everybody's, in a file's mode.
const OTHERS: u32 = 0o007;

/// Who reads a keytab is the store, for everybody who trusts the KDC. It is not refused, as Hadoop does not: keytabs
/// are made by the tools of a site, and belong to groups there.
fn warn_of_others(keytab: &Path) {
    if is_open_to_others(keytab) {
        let keytab = keytab.display();
        tracing::warn!(%keytab, "every user of this machine can read or change the keytab: chmod o= it");
    }
}

fn is_open_to_others(keytab: &Path) -> bool {
    // One that is not there is refused when it is used.
    std::fs::metadata(keytab).is_ok_and(|file| file.mode() & OTHERS != 0)
}

/// By the settings for it; without any, by `HTTP/` and the host of this server's own name, if its keytab has that.
fn negotiator(config: &Config, own: &KerberosName, keytab: &Path) -> Result<Option<Negotiator>, StartError> {
    let security = &config.security;
    let named = security.web_name(refusal::host()).map_err(StartError::Config)?;
    let is_named = named.is_some() || security.web_keytab.is_some();
    let principal = named.unwrap_or_else(|| KerberosName { service: "HTTP".into(), ..own.clone() });
    security.web_keytab.iter().for_each(|keytab| warn_of_others(keytab));
    let keytab = security.web_keytab.clone().unwrap_or_else(|| keytab.to_owned());
    let settings = AcceptorSettings { principal: principal.clone(), keytab, replay_cache: None };
    match Negotiator::open(&settings) {
        Ok(negotiator) => {
            tracing::info!(%principal, "HTTP /fsck asks for tickets");
            Ok(Some(negotiator))
        }
        Err(error) if is_named => Err(StartError::Config(format!("security.web_principal: {error}"))),
        Err(error) => {
            tracing::warn!(%principal, %error, "HTTP /fsck is refused: no key for tickets there");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_server_without_a_keytab_is_told_what_it_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path().into(), ([127, 0, 0, 1], 0).into());
        config.security.authentication = crate::AuthenticationSetting::Kerberos;
        config.security.principal = Some("nn/meta1@EXAMPLE.COM".into());
        let refused = crate::start(config).await.unwrap_err().to_string();
        assert_eq!(refused, "security.keytab is missing: name the file with the keys of nn/meta1");
    }

    #[test]
    fn a_keytab_is_for_its_owner_and_perhaps_a_group() {
        let dir = tempfile::tempdir().unwrap();
        let keytab = dir.path().join("nn.keytab");
        assert!(!is_open_to_others(&keytab));
        std::fs::write(&keytab, "keys").unwrap();
        for (mode, is_open) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            std::fs::set_permissions(&keytab, Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(&keytab), is_open, "{mode:o}");
        }
    }
}
