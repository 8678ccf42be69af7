//! What a metadata server that stands by answers to clients by itself: whether it leads, and what the tools of administrators ask of all
//! servers of a group alike, such as whether safe mode is over. To anything else it says that it stands by.

use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use prost::Message;
use rpc::Call;

/// `refused` is the word that it stands by.
pub(crate) async fn call(seat: &Seat, call: &Call, refused: Exception) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        "getHAServiceState" => {
            let state = HaServiceStateProto::Standby.into();
            Ok(HaServiceStateResponseProto { state }.encode_to_vec().into())
        }
        "setSafeMode" => safe_mode(seat, call, refused).await,
        // As the leader answers: there are no lists of hosts, and no upgrade is ever left open. Both answers are empty.
        "refreshNodes" | "finalizeUpgrade" => {
            seat.require_superuser(call).await?;
            Ok(Bytes::new())
        }
        _ => Err(refused),
    }
}

/// Always off. A client that wants to hear it from the leader says so.
async fn safe_mode(seat: &Seat, call: &Call, refused: Exception) -> Result<Bytes, Exception> {
    let request: SetSafeModeRequestProto = call.request()?;
    if request.checked() {
        return Err(refused);
    }
    if request.action != i32::from(SafeModeActionProto::SafemodeGet) {
        seat.require_superuser(call).await?;
    }
    Ok(SetSafeModeResponseProto { result: false }.encode_to_vec().into())
}
