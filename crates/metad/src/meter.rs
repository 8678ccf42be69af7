//! What this process has used so far, for those who measure: `org.levada.MeterProtocol`.

use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use wire::meter::{METER, MeterRequest, MeterResponse, Role};

pub(crate) fn call(call: &Call) -> Result<Bytes, Exception> {
    if call.method != METER {
        return Err(call.no_such_method());
    }
    let MeterRequest {} = call.request()?;
    Ok(answer().encode_to_vec().into())
}

pub(crate) fn answer() -> MeterResponse {
    let usage = host::process::cpu_time();
    MeterResponse {
        role: Role::Metadata.into(),
        process: host::process::identity(),
        pid: std::process::id(),
        user_us: usage.user.as_micros() as u64,
        system_us: usage.system.as_micros() as u64,
        sync_count: io::file::sync_count(),
    }
}
