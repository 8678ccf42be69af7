//! What servers log, changed while they run: this one, or a datanode.

use crate::core::Core;
use crate::named_datanode;
use crate::refusal;
use hdfs::Exception;
use wire::admin::log_level::{LogLevelRequest, LogLevelResponse};
use wire::node::{LOG_LEVEL_LEN_MAX, NodeLogLevelRequest, NodeLogLevelResponse, SET_LOG_LEVEL};

/// Of this server.
pub(super) fn set(request: LogLevelRequest) -> Result<LogLevelResponse, Exception> {
    must_be_short(&request)?;
    host::log_level::set(&request.level).map_err(refusal::illegal)?;
    Ok(LogLevelResponse {})
}

pub(super) async fn set_of_datanode(core: &Core, request: LogLevelRequest) -> Result<LogLevelResponse, Exception> {
    must_be_short(&request)?;
    let node = named_datanode::find(core, &request.datanode)?;
    let addr = core.with_cluster(|cluster, _| cluster.node(node).map(|member| member.node.ipc_addr()));
    let addr = addr.ok_or_else(|| refusal::illegal("the datanode was forgotten just now"))?;
    let asked = NodeLogLevelRequest { level: request.level };
    let answer = core.calls.call::<_, NodeLogLevelResponse>((node, &addr), SET_LOG_LEVEL, &asked).await;
    answer.map_err(|error| Exception::io(format!("datanode {node} at {addr}: {error}")))?;
    Ok(LogLevelResponse {})
}

fn must_be_short(request: &LogLevelRequest) -> Result<(), Exception> {
    if request.level.len() > LOG_LEVEL_LEN_MAX {
        return Err(refusal::illegal(format!("a level of a log has at most {LOG_LEVEL_LEN_MAX} bytes")));
    }
    Ok(())
}
