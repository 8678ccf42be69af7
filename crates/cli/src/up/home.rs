//! The home directory of whoever starts the store.

use crate::config;
use std::time::Duration;

/// What HDFS gives a directory.
const HOME_MODE: u16 = 0o755;
/// How long the home directory may take: servers that were all started just now agree on a leader within some two
/// seconds.
const HOME_WAIT: Duration = Duration::from_secs(10);

/// Makes the home directory of whoever starts the store, unless it is there: relative paths lead into it, of `levada`
/// and `hdfs dfs` alike. Those of others are made by an administrator, as with HDFS.
pub(super) async fn make(meta: &[String]) {
    let url = client::Url::parse(&config::fs_of(meta)).expect("addresses make a URL");
    let client = client::Client::connect(&url, &host::user::current());
    let home = client.home();
    let making = async {
        match client.status(&home).await? {
            Some(_) => Ok(()),
            None => client.mkdirs(&home, HOME_MODE, true).await,
        }
    };
    let why = match tokio::time::timeout(HOME_WAIT, making).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer in {HOME_WAIT:?}"),
    };
    eprintln!(
        "levada: the home directory {home} was not made: {why}; relative paths need it, `levada mkdir -p .` makes it"
    );
}
