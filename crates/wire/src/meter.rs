//! What a server has used so far: `org.levada.MeterProtocol`, on the RPC port of metadata servers and datanodes.
//!
//! ```text
//! whoever measures ── meter ──▶ server      before and after; the difference is what the work has cost it
//! ```
//!
//! Everybody may ask, as with `/metrics`. A message is protobuf with fields that may be added and are never renumbered.

use prost::Message;

pub const METER_PROTOCOL: &str = "org.levada.MeterProtocol";
pub const PROTOCOL_VERSION: u64 = 1;
pub const METER: &str = "meter";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Role {
    Unknown = 0,
    Metadata = 1,
    Datanode = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct MeterRequest {}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct MeterResponse {
    #[prost(enumeration = "Role", tag = "1")]
    pub role: i32,
    /// Drawn at random when the process began. Roles that share a process tell the same numbers: count them once.
    #[prost(uint64, tag = "2")]
    pub process: u64,
    #[prost(uint32, tag = "3")]
    pub pid: u32,
    /// Processor time of the process.
    #[prost(uint64, tag = "4")]
    pub user_us: u64,
    #[prost(uint64, tag = "5")]
    pub system_us: u64,
    /// Times the process has waited for a disk.
    #[prost(uint64, tag = "6")]
    pub sync_count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

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
