//! What this process can prove to a metadata server: delegation tokens in the file that `HADOOP_TOKEN_FILE_LOCATION`
//! names, as YARN and Spark give it to jobs, and `hdfs fetchdt` makes it; and the ticket that `kinit` got.

use crate::nameservice::refuses_simple;
use crate::ticket::Ticket;
use rpc::{Kerberos, Login, LoginToken};
use security::delegation::token_file::{self, StoredToken};
use security::sasl::digest::Qop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VARIABLE: &str = "HADOOP_TOKEN_FILE_LOCATION";
/// Before the name of a group of servers, in a token's service.
const GROUP: &str = "ha-hdfs:";

/// As whom metadata servers run, as a rule, in HDFS's documentation and elsewhere.
const SERVICES: [&str; 2] = ["nn", "hdfs"];

/// Finds out what there is. `None`: nothing, and nobody demands it; calls are made in a name that nobody proves. Waits
/// for the disk.
pub(crate) fn of_environment() -> Option<Arc<Login>> {
    let kerberos = Ticket::of_environment().map(|ticket| {
        let services = SERVICES.map(str::to_owned).into();
        Kerberos { initiator: ticket.initiator, services, host: None }
    });
    let simple = !refuses_simple();
    match (tokens(), kerberos) {
        (None, None) if simple => None,
        (tokens, kerberos) => Some(Arc::new(login(tokens.unwrap_or_default(), kerberos, simple))),
    }
}

/// The same in a user's name: who has the ticket of another one may have to be permitted to act for that user.
pub(crate) fn as_user(login: &Option<Arc<Login>>, user: &str) -> Option<Arc<Login>> {
    let login = login.as_ref()?;
    if login.kerberos.is_none() || login.acting_as.is_some() || Ticket::user().is_none_or(|own| own == user) {
        return Some(Arc::clone(login));
    }
    Some(Arc::new(Login { acting_as: Some(user.to_owned()), ..Login::clone(login) }))
}

/// Unless Hadoop's configuration demands more, a job goes on without its token where nothing is asked for; and a ticket
/// may be for something else.
fn login(tokens: Vec<LoginToken>, kerberos: Option<Kerberos>, simple: bool) -> Login {
    Login { tokens, kerberos, qops: Qop::ALL.to_vec(), simple, acting_as: None }
}

fn tokens() -> Option<Vec<LoginToken>> {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)?;
    match of_file(&file) {
        Ok(tokens) => Some(tokens).filter(|tokens| !tokens.is_empty()),
        Err(error) => {
            tracing::warn!(file = %file.display(), error, "no delegation tokens can be read from this file");
            None
        }
    }
}

fn of_file(file: &Path) -> Result<Vec<LoginToken>, String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let tokens = token_file::read(&bytes).map_err(|error| error.to_string())?;
    Ok(tokens.into_iter().filter(|token| token.kind == security::delegation::KIND).map(login_token).collect())
}

fn login_token(token: StoredToken) -> LoginToken {
    let StoredToken { identifier, password, service, .. } = token;
    // Which servers a name stands for, only who wrote the file knew.
    let addrs = if service.is_empty() || service.starts_with(GROUP) { Vec::new() } else { vec![service] };
    LoginToken { identifier, password, addrs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(kind: &str, service: &str) -> StoredToken {
        let (identifier, password) = (vec![1, 2].into(), vec![3; 32].into());
        StoredToken { identifier, password, kind: kind.into(), service: service.into() }
    }

    #[test]
    fn a_file_has_the_tokens_of_hdfs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let kind = security::delegation::KIND;
        let tokens = [token("kms-dt", "10.0.0.9:9600"), token(kind, "10.0.0.1:8020"), token(kind, "ha-hdfs:store")];
        std::fs::write(&file, token_file::write(&tokens)).unwrap();
        let found = of_file(&file).unwrap();
        let addrs: Vec<_> = found.iter().map(|token| token.addrs.clone()).collect();
        assert_eq!(addrs, [vec!["10.0.0.1:8020".to_owned()], vec![]]);
        std::fs::write(&file, token_file::write(&tokens[..1])).unwrap();
        assert!(of_file(&file).unwrap().is_empty());
        std::fs::write(&file, b"nonsense").unwrap();
        assert!(of_file(&file).is_err() && of_file(&dir.path().join("none")).is_err());
    }
}
