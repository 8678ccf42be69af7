//! The server's own name and key in Kerberos: by them it believes its callers, and proves itself to other members.

use crate::config::Config;
use crate::refusal;
use crate::start_error::StartError;
use gss::{AcceptorSettings, Initiator, Tickets};
use rpc::{Kerberos, Login};
use security::sasl::digest::Qop;
use security::sasl::rpc::Acceptor;
use std::fmt;
use std::sync::Arc;

/// Who believes callers, and as whom this server calls others.
type Ends = (Option<Arc<dyn Acceptor>>, Option<Arc<Login>>);

/// None where the settings ask for none.
pub(crate) fn of(config: &Config) -> Result<Ends, StartError> {
    let wrong = |error: &dyn fmt::Display| StartError::Config(format!("security: {error}"));
    let security = &config.security;
    let own = security.own_name(refusal::host()).map_err(StartError::Config)?.filter(|_| security.is_kerberos());
    let (Some(principal), Some(keytab)) = (own, security.keytab.clone()) else { return Ok((None, None)) };
    let settings = AcceptorSettings { principal: principal.clone(), keytab: keytab.clone(), replay_cache: None };
    let acceptor = gss::Acceptor::open(&settings).map_err(|error| wrong(&error))?;
    let (realm, service) = (principal.realm.clone(), principal.service.clone());
    let initiator = Initiator::new(Tickets::Keytab { principal, keytab }, realm).map_err(|error| wrong(&error))?;
    let kerberos = Kerberos { initiator: Arc::new(initiator), services: vec![service], host: None };
    // The log has the keys of tokens: the best protection that the other member offers.
    let qops = Qop::ALL.to_vec();
    let login = Login { tokens: Vec::new(), kerberos: Some(kerberos), qops, simple: false, acting_as: None };
    Ok((Some(Arc::new(acceptor)), Some(Arc::new(login))))
}
