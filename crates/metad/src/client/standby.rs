//! Answers of a standby to clients: whether it leads, and what administrators' tools ask every server of a group. An
//! example is whether safe mode is over. Every other call gets `StandbyException`.

use super::safe_mode;
use crate::answer::Encoded;
use crate::leadership::Leadership;
use crate::node_calls::MemberCall;
use crate::refusal;
use crate::rights::Right;
use crate::visit::Visit;
use hdfs::Exception;
use hdfs::proto::*;
use rpc::Call;
use std::time::Duration;

/// For the leader to answer. A tool asks the members of a group one after the other.
const LEADER_WAIT: Duration = Duration::from_secs(5);

pub(super) async fn get_ha_service_state(_visit: &Visit) -> Result<HaServiceStateResponseProto, Exception> {
    Ok(HaServiceStateResponseProto { state: HaServiceStateProto::Standby.into() })
}

/// As the leader answers: there are no lists of hosts, and no upgrade is ever left open. Both answers are empty.
pub(super) async fn nothing_to_do(_visit: &Visit) -> Result<Encoded, Exception> {
    Ok(Encoded::EMPTY)
}

/// Safe mode is the group's: the leader enters and leaves it, and answers queries about it. While no leader is known,
/// this server's own rows answer. A client that wants the leader's answer says so in its request.
pub(super) async fn set_safe_mode(visit: &Visit) -> Result<SetSafeModeResponseProto, Exception> {
    let (leadership, call, refused) = (&*visit.leadership, &visit.call, visit.standby());
    let request: SetSafeModeRequestProto = visit.request()?;
    let wanted = safe_mode::wanted(&request)?;
    if request.checked() {
        return Err(refused);
    }
    // Everybody may ask whether it is on.
    if wanted.is_some() {
        leadership.session(call).await?.must_have(Right::Change, None)?;
    }
    let passed_on = pass_on(leadership, call, SetSafeModeRequestProto { checked: Some(true), ..request }).await;
    let result = match passed_on {
        Some(result) => result,
        None if wanted.is_some() => return Err(refused),
        None => namespace::read::safe_mode(&leadership.machine.store().view()).map_err(refusal::rows)?.is_some(),
    };
    Ok(SetSafeModeResponseProto { result })
}

/// What the leader answers; `None`: there is none that answers.
async fn pass_on(leadership: &Leadership, call: &Call, request: SetSafeModeRequestProto) -> Option<bool> {
    let leader = leadership.leader_addr()?;
    let call = MemberCall {
        addr: &leader,
        user: &call.user.effective,
        is_own: false,
        protocol: hdfs::protocol::CLIENT,
        method: "setSafeMode",
        wait_max: LEADER_WAIT,
    };
    match leadership.calls.call_member(call, &request).await {
        Ok(SetSafeModeResponseProto { result }) => Some(result),
        Err(error) => {
            tracing::info!(error = rpc::log_text(&error), leader, "safe mode not forwarded");
            None
        }
    }
}
