//! What this process can prove to a metadata server: delegation tokens in the file that `HADOOP_TOKEN_FILE_LOCATION`
//! names, as YARN and Spark give it to jobs, and `hdfs fetchdt` makes it; and the ticket that `kinit` got.

use crate::nameservice::{refuses_simple, server_principal};
use crate::ticket::Ticket;
use io::LogLimit;
use rpc::{Kerberos, Login, LoginToken};
use security::delegation::Identifier;
use security::delegation::token_file::{self, StoredToken};
use security::kerberos_name::{HOST_PATTERN, KerberosName};
use security::sasl::digest::Qop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const VARIABLE: &str = "HADOOP_TOKEN_FILE_LOCATION";
/// Between two warnings of a file that cannot be read. A guess: longer than a command takes.
const UNREADABLE_EACH: Duration = Duration::from_secs(60);
/// Before the name of a group of servers, in a token's service.
const GROUP: &str = "ha-hdfs:";

/// As whom metadata servers run, as a rule, in HDFS's documentation and elsewhere: tried where Hadoop's configuration
/// has no `dfs.namenode.kerberos.principal`.
const SERVICES: [&str; 2] = ["nn", "hdfs"];

/// Finds out what there is. `None`: nothing, and nobody demands it; calls are made in a name that nobody proves. Waits
/// for the disk.
pub(crate) fn of_environment() -> Option<Arc<Login>> {
    let kerberos = Ticket::of_environment().map(|ticket| {
        let Servers { services, host, realm } = Servers::of(server_principal().as_deref());
        Kerberos { initiator: Arc::new(ticket.initiator.for_realm(realm)), services, host }
    });
    let (simple, lacking) = (!refuses_simple(), Ticket::why_none());
    match (tokens(), kerberos) {
        (None, None) if simple && lacking.is_none() => None,
        (tokens, kerberos) => Some(Arc::new(login(tokens.unwrap_or_default(), kerberos, simple, lacking))),
    }
}

/// By which names of Kerberos metadata servers are taken.
#[derive(Debug, PartialEq, Eq)]
struct Servers {
    services: Vec<String>,
    /// `None`: that of the address.
    host: Option<String>,
    /// `None`: Kerberos' library finds it.
    realm: Option<String>,
}

impl Servers {
    /// Hadoop's clients take a server by the configured name alone, and so does this one.
    fn of(principal: Option<&str>) -> Self {
        let usual = || Self { services: SERVICES.map(str::to_owned).into(), host: None, realm: None };
        let Some(principal) = principal else { return usual() };
        match KerberosName::parse(principal) {
            Ok(KerberosName { service, host, realm }) => {
                Self { services: vec![service], host: host.filter(|host| host != HOST_PATTERN), realm }
            }
            Err(error) => {
                tracing::warn!(%error, "dfs.namenode.kerberos.principal of hdfs-site.xml is passed over");
                usual()
            }
        }
    }
}

/// The short name of whose delegation token there is.
pub(crate) fn token_owner() -> Option<String> {
    tokens()?.iter().find_map(owner_of)
}

/// The same in a user's name: who has the ticket of another one may have to be permitted to act for that user. Who has
/// nothing but the token of another one cannot.
pub(crate) fn as_user(login: &Option<Arc<Login>>, user: &str) -> Option<Arc<Login>> {
    let login = login.as_ref()?;
    Some(acting_as(login, user, Ticket::user().as_deref()).map_or_else(|| Arc::clone(login), Arc::new))
}

/// `None`: it is in that user's name already. `holder`: the ticket's user.
fn acting_as(login: &Login, user: &str, holder: Option<&str>) -> Option<Login> {
    let is_ticket_of_other = login.kerberos.is_some() && holder.is_some_and(|holder| holder != user);
    let acting_as = Some(user.to_owned()).filter(|_| is_ticket_of_other && login.acting_as.is_none());
    let is_of_other = |token: &LoginToken| owner_of(token).is_some_and(|owner| owner != user);
    let other = login.tokens.iter().find(|token| is_of_other(token)).and_then(owner_of);
    if acting_as.is_none() && other.is_none() {
        return None;
    }
    let mut login = Login { acting_as: acting_as.or(login.acting_as.clone()), ..login.clone() };
    login.tokens.retain(|token| !is_of_other(token));
    if let Some(owner) = other {
        let why =
            format!("the delegation token in the file of {VARIABLE} is of {owner}, and nobody acts as {user} by it");
        login.lacking = Some(why);
    }
    Some(login)
}

/// The short name of whose it is, by the rule of Hadoop that needs no settings. `None`: it is no token of HDFS.
fn owner_of(token: &LoginToken) -> Option<String> {
    let owner = Identifier::parse(&token.identifier).ok()?.owner;
    KerberosName::parse(&owner).ok().map(|name| name.service)
}

/// Unless Hadoop's configuration demands more, a job goes on without its token where nothing is asked for; and a ticket
/// may be for something else.
fn login(tokens: Vec<LoginToken>, kerberos: Option<Kerberos>, simple: bool, lacking: Option<String>) -> Login {
    Login { tokens, kerberos, qops: Qop::ALL.to_vec(), simple, acting_as: None, lacking }
}

fn tokens() -> Option<Vec<LoginToken>> {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)?;
    match of_file(&file) {
        Ok(tokens) => Some(tokens).filter(|tokens| !tokens.is_empty()),
        Err(error) => {
            // It is read to learn who acts, and again to log in.
            static UNREADABLE: LogLimit = LogLimit::new(UNREADABLE_EACH);
            UNREADABLE.due()?;
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

    #[test]
    fn servers_are_taken_by_the_configured_name_or_by_the_usual_ones() {
        let of = |principal| {
            let Servers { services, host, realm } = Servers::of(principal);
            (services.join(","), host.unwrap_or_default(), realm.unwrap_or_default())
        };
        let own = |service: &str, host: &str, realm: &str| (service.to_owned(), host.to_owned(), realm.to_owned());
        assert_eq!(of(Some("namenode/_HOST@EXAMPLE.COM")), own("namenode", "", "EXAMPLE.COM"));
        assert_eq!(of(Some("namenode/meta1.example.com")), own("namenode", "meta1.example.com", ""));
        assert_eq!(of(None), own("nn,hdfs", "", ""));
        assert_eq!(of(Some("a/b/c/d")), own("nn,hdfs", "", ""), "it is no name");
    }

    /// In place of a library of Kerberos, which nobody calls here.
    #[derive(Debug)]
    struct Nothing;

    impl security::sasl::rpc::Initiator for Nothing {
        fn begin(
            &self,
            _server: &(String, String),
            _qops: &[Qop],
        ) -> Result<Box<dyn security::sasl::rpc::Initiating>, String> {
            Err("there is no library".into())
        }
    }

    fn of_ada() -> LoginToken {
        let identifier = Identifier {
            owner: "ada@EXAMPLE.COM".into(),
            renewer: "yarn".into(),
            real_user: String::new(),
            issued: types::Millis(1),
            max: types::Millis(2),
            sequence: 3,
            key: security::keys::KeyId(4),
        };
        LoginToken { identifier: identifier.encode().into(), password: vec![3; 32].into(), addrs: Vec::new() }
    }

    #[test]
    fn a_token_serves_its_owner_alone() {
        let with_token = login(vec![of_ada()], None, true, None);
        assert!(acting_as(&with_token, "ada", None).is_none(), "nothing is to be changed");
        let bob = acting_as(&with_token, "bob", None).unwrap();
        assert!(bob.tokens.is_empty() && bob.kerberos.is_none());
        let why = bob.lacking.unwrap();
        assert!(why.contains("is of ada") && why.contains("acts as bob"), "{why}");
    }

    /// A token does not let anybody act for others, and the ticket beside it may.
    #[test]
    fn a_ticket_acts_for_somebody_in_place_of_the_token() {
        let kerberos = Kerberos { initiator: Arc::new(Nothing), services: Vec::new(), host: None };
        let both = login(vec![of_ada()], Some(kerberos), true, None);
        assert!(acting_as(&both, "ada", Some("ada")).is_none());
        let bob = acting_as(&both, "bob", Some("ada")).unwrap();
        assert_eq!((bob.tokens.len(), bob.acting_as.as_deref()), (0, Some("bob")));
    }
}
