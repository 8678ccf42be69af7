//! A server's key, by which it opens the tickets of its clients.

use crate::boundary::{file, setting};
use crate::c::{Credential, Library, Name, NameKind, Usage};
use crate::error::{Error, Reason, failed};
use crate::trouble::During;
use security::kerberos_name::KerberosName;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct AcceptorSettings {
    /// As [`KerberosName::of_setting`] makes it of `nn/_HOST@REALM`.
    pub principal: KerberosName,
    pub keytab: PathBuf,
    /// Where the library keeps the proofs of the last minutes, to refuse them a second time; `None` is the system's
    /// place, one for all services of a user. There is always one: a client that asks for no mutual authentication, or
    /// for an old cipher, proves itself by what could be replayed.
    pub replay_cache: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) library: &'static Library,
    pub(crate) credential: Credential,
    pub(crate) doing: String,
}

impl Key {
    /// Refused if the keytab has no key of this principal now.
    pub(crate) fn open(settings: &AcceptorSettings) -> Result<Self, Error> {
        let AcceptorSettings { principal, keytab, replay_cache } = settings;
        let library = Library::get()?;
        let opening = format!("open the keytab {} for {principal}", keytab.display());
        let name = Name::import(library, &principal.to_string(), NameKind::Principal)
            .map_err(failed(During::Keytab, &opening))?;
        let mut store = vec![setting(&opening, "keytab", file(keytab))?];
        if let Some(path) = replay_cache {
            let cache = path.to_str().ok_or_else(|| Error::exchange(&opening, Reason::Name))?;
            store.push(setting(&opening, "rcache", format!("file2:{cache}"))?);
        }
        let credential = Credential::acquire(library, Some(&name), Usage::Accept, &store)
            .map_err(failed(During::Keytab, &opening))?;
        let doing = format!("Kerberos login of a client to {principal}");
        Ok(Self { library, credential, doing })
    }
}
