//! What opens an operation of data transfer.

use crate::error::WireError;

/// ```text
/// 0       2     3
/// ┌───────┬─────┬──────────────────────────────┐
/// │ 28    │ op  │ the op's message, delimited  │     then packets, acks or an answer, as the op has it
/// │ u16   │ u8  │                              │     big-endian
/// └───────┴─────┴──────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpHeader {
    pub op: Op,
}

/// The numbers are HDFS's up to 199, ours from 200 on. Ops that no server of ours knows are [`Op::Other`], so that they
/// can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    WriteBlock,
    ReadBlock,
    BlockChecksum,
    TransferBlock,
    /// These three come over a Unix socket.
    RequestShortCircuitFds,
    ReleaseShortCircuitFds,
    RequestShortCircuitShm,
    /// Ours: a whole small block in one request, see [`crate::small`].
    WriteSmall,
    /// Ours: many ranges of many blocks, see [`crate::ranges`].
    ReadRanges,
    /// Ours: where the columns of a file lie, see [`crate::layouts`].
    ReadLayout,
    Other(u8),
}

impl OpHeader {
    pub const LEN: usize = 3;
    /// `DataTransferProtocol.DATA_TRANSFER_VERSION`, the same since Hadoop 2.0.
    pub const VERSION: u16 = 28;

    pub fn decode(bytes: [u8; Self::LEN]) -> Result<Self, WireError> {
        let [v0, v1, op] = bytes;
        match u16::from_be_bytes([v0, v1]) {
            Self::VERSION => Ok(Self { op: Op::from_number(op) }),
            have => Err(WireError::Version { have, want: Self::VERSION }),
        }
    }

    pub fn encode(self) -> [u8; Self::LEN] {
        let [v0, v1] = Self::VERSION.to_be_bytes();
        [v0, v1, self.op.number()]
    }
}

impl Op {
    pub fn number(self) -> u8 {
        match self {
            Self::WriteBlock => 80,
            Self::ReadBlock => 81,
            Self::BlockChecksum => 85,
            Self::TransferBlock => 86,
            Self::RequestShortCircuitFds => 87,
            Self::ReleaseShortCircuitFds => 88,
            Self::RequestShortCircuitShm => 89,
            Self::WriteSmall => 200,
            Self::ReadRanges => 201,
            Self::ReadLayout => 202,
            Self::Other(number) => number,
        }
    }

    pub fn from_number(number: u8) -> Self {
        match number {
            80 => Self::WriteBlock,
            81 => Self::ReadBlock,
            85 => Self::BlockChecksum,
            86 => Self::TransferBlock,
            87 => Self::RequestShortCircuitFds,
            88 => Self::ReleaseShortCircuitFds,
            89 => Self::RequestShortCircuitShm,
            200 => Self::WriteSmall,
            201 => Self::ReadRanges,
            202 => Self::ReadLayout,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_keeps_its_number() {
        for number in 0..=u8::MAX {
            let header = OpHeader { op: Op::from_number(number) };
            assert_eq!(header.encode(), [0, 28, number]);
            assert_eq!(OpHeader::decode(header.encode()), Ok(header));
        }
        assert_eq!(OpHeader::decode(*b"GET"), Err(WireError::Version { have: 0x4745, want: 28 }));
    }
}
