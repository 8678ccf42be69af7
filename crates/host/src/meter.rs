//! Resources that this process has used so far, for benchmarks: `org.levada.MeterProtocol`, which every server answers.

use crate::process;
use wire::meter::{MeterResponse, Role};

pub fn answer(role: Role) -> MeterResponse {
    let usage = process::cpu_time();
    MeterResponse {
        role: role.into(),
        process: process::identity(),
        pid: std::process::id(),
        user_us: usage.user.as_micros() as u64,
        system_us: usage.system.as_micros() as u64,
        sync_count: io::file::sync_count(),
    }
}
