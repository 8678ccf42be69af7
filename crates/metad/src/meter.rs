//! Resources that this process has used so far, for benchmarks: `org.levada.MeterProtocol`.

use wire::meter::{MeterResponse, Role};

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
