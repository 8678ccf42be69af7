//! What a server has used so far: `org.levada.MeterProtocol`, on the RPC port of metadata servers and datanodes.
//!
//! ```text
//! whoever measures ── meter ──▶ server      before and after; the difference is what the work has cost it
//! ```
//!
//! Everybody may ask, as with `/metrics`. The messages are in `proto/meter.proto`.

pub use crate::proto::{MeterRequest, MeterResponse, Role};

pub const METER_PROTOCOL: &str = "org.levada.MeterProtocol";
pub const PROTOCOL_VERSION: u64 = 1;
pub const METER: &str = "meter";

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    /// The bytes are fixed: a client may be older than the server.
    #[test]
    fn golden_answer() {
        let answer = MeterResponse {
            role: Role::Datanode as i32,
            process: 7,
            pid: 300,
            user_us: 1,
            system_us: 2,
            sync_count: 3,
        };
        let golden = [0x08, 2, 0x10, 7, 0x18, 0xac, 0x02, 0x20, 1, 0x28, 2, 0x30, 3];
        assert_eq!(answer.encode_to_vec(), golden);
        assert_eq!(MeterResponse::decode(&golden[..]), Ok(answer));
    }
}
