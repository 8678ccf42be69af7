//! What servers log, changed while they run.

use super::connection::Admin;
use crate::error::{Error, Result};
use std::time::Duration;
use wire::admin::log_level::{LogLevelRequest, LogLevelResponse, SET_DATANODE_LOG_LEVEL, SET_LOG_LEVEL};

/// For one server's answer: one that hangs must not hold up the others for long.
const SET_WAIT: Duration = Duration::from_secs(5);

impl Admin {
    /// Has the metadata server at this address, `host:port`, log as `level` says; with an empty one as its
    /// configuration does.
    pub async fn set_log_level(&self, addr: &str, level: &str) -> Result<()> {
        let scope = self.store.scope();
        let options = self.store.metad_options(&self.user);
        let options = rpc::ClientOptions { connect_time_max: SET_WAIT, call_time_max: SET_WAIT, ..options };
        let rpc = rpc::Client::with_options(addr.to_owned(), self.user.clone(), wire::admin::ADMIN_PROTOCOL, options);
        let request = LogLevelRequest { level: level.to_owned(), datanode: String::new() };
        let call = async {
            let answer = rpc.call::<_, LogLevelResponse>(SET_LOG_LEVEL, &request).await;
            answer.map(drop).map_err(|error| Error::of_call(rpc.addr(), error))
        };
        scope.run(call).await
    }

    /// The same of the datanode of this id or address.
    pub async fn set_datanode_log_level(&self, datanode: &str, level: &str) -> Result<()> {
        let request = LogLevelRequest { level: level.to_owned(), datanode: datanode.to_owned() };
        let _: LogLevelResponse = self.call(SET_DATANODE_LOG_LEVEL, &request).await?;
        Ok(())
    }
}
