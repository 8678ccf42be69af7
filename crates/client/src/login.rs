//! What this process can prove to a metadata server: delegation tokens in the file that `HADOOP_TOKEN_FILE_LOCATION`
//! names, as YARN and Spark give it to jobs, and `hdfs fetchdt` makes it.

use rpc::{Login, LoginToken};
use security::delegation::token_file::{self, StoredToken};
use security::sasl::digest::Qop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VARIABLE: &str = "HADOOP_TOKEN_FILE_LOCATION";
/// Before the name of a group of servers, in a token's service.
const GROUP: &str = "ha-hdfs:";

/// `None`: nothing; calls are made in a name that nobody proves.
pub(crate) fn of_environment() -> Option<Arc<Login>> {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)?;
    match of_file(&file) {
        Ok(login) => login.map(Arc::new),
        Err(error) => {
            tracing::warn!(file = %file.display(), error, "no delegation tokens can be read from this file");
            None
        }
    }
}

fn of_file(file: &Path) -> Result<Option<Login>, String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let tokens = token_file::read(&bytes).map_err(|error| error.to_string())?;
    let tokens: Vec<LoginToken> =
        tokens.into_iter().filter(|token| token.kind == security::delegation::KIND).map(login_token).collect();
    // As Hadoop's client does it: where nothing is asked for, a job goes on without.
    let login = Login { tokens, kerberos: None, qops: Qop::ALL.to_vec(), simple: true, acting_as: None };
    Ok((!login.tokens.is_empty()).then_some(login))
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
        let login = of_file(&file).unwrap().unwrap();
        let addrs: Vec<_> = login.tokens.iter().map(|token| token.addrs.clone()).collect();
        assert_eq!(addrs, [vec!["10.0.0.1:8020".to_owned()], vec![]]);
        std::fs::write(&file, token_file::write(&tokens[..1])).unwrap();
        assert!(of_file(&file).unwrap().is_none());
        std::fs::write(&file, b"nonsense").unwrap();
        assert!(of_file(&file).is_err() && of_file(&dir.path().join("none")).is_err());
    }
}
