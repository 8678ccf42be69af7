//! The checksum of a whole file, from what its datanodes have stored: no byte of the file travels.

use crate::calls::LEN_ALL;
use crate::client::Client;
use crate::datanode::Connection;
use crate::error::{Error, Result};
use crate::located::{Located, Node};
use crate::retry::told;
use hdfs::proto::ChecksumTypeProto;
use md5::{Digest, Md5};
use std::fmt;
use std::sync::Arc;
use xfer::fault::Fault;

/// As `hdfs dfs -checksum` and distcp have it: an MD5 of the blocks' MD5s of their chunks' CRCs. Equal bytes have equal
/// checksums only if they were written with the same block size and chunk size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChecksum {
    pub algorithm: String,
    /// Bytes per CRC (4, big-endian), CRCs per block (8), MD5 (16).
    pub bytes: [u8; 28],
}

impl fmt::Display for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FileChecksum {
    fn new(bytes_per_crc: u32, crc_per_block: u64, crc: &str, block_sums: &[[u8; 16]]) -> Self {
        // Java digests the whole buffer it collected the MD5s in, with the zeros behind them: 32 bytes, doubled as
        // needed.
        let mut buffer = block_sums.concat();
        let capacity = buffer.len().next_power_of_two().max(32);
        buffer.resize(capacity, 0);
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&bytes_per_crc.to_be_bytes());
        bytes[4..12].copy_from_slice(&crc_per_block.to_be_bytes());
        bytes[12..].copy_from_slice(&Md5::digest(&buffer));
        Self { algorithm: format!("MD5-of-{crc_per_block}MD5-of-{bytes_per_crc}{crc}"), bytes }
    }
}

/// What one block has to say.
struct BlockSum {
    bytes_per_crc: u32,
    crc_per_block: u64,
    kind: i32,
    md5: [u8; 16],
}

impl Client {
    pub async fn checksum(&self, path: &str) -> Result<FileChecksum> {
        self.run(self.checksum_of(path)).await
    }

    async fn checksum_of(&self, path: &str) -> Result<FileChecksum> {
        let located = self.located(path, 0, LEN_ALL).await?;
        if located.blocks.iter().any(|block| block.is_striped) {
            return Err(Error::Unsupported("the checksum of an erasure coded file"));
        }
        let mut sums: Vec<BlockSum> = Vec::with_capacity(located.blocks.len().min(1024));
        for block in &located.blocks {
            let len = block.len.min(located.file_len.saturating_sub(block.offset));
            if len > 0 {
                sums.push(self.block_sum(path, block, len).await?);
            }
        }
        let Some(first) = sums.first() else { return Ok(FileChecksum::new(0, 0, "CRC32", &[])) };
        if sums.iter().any(|sum| sum.bytes_per_crc != first.bytes_per_crc) {
            return Err(Error::Unsupported("the checksum of a file whose blocks have chunks of different lengths"));
        }
        let crc = match first.kind {
            _ if sums.iter().any(|sum| sum.kind != first.kind) => "MIXED",
            0 => "NULL",
            1 => "CRC32",
            _ => "CRC32C",
        };
        let crc_per_block = if sums.len() > 1 { first.crc_per_block } else { 0 };
        let md5s: Vec<[u8; 16]> = sums.iter().map(|sum| sum.md5).collect();
        Ok(FileChecksum::new(first.bytes_per_crc, crc_per_block, crc, &md5s))
    }

    /// From whichever node answers. Where a token is not valid any more another one is asked for, once.
    async fn block_sum(&self, path: &str, block: &Located, len: u64) -> Result<BlockSum> {
        let faults = match self.block_sum_of_any(block, len).await {
            Ok(sum) => return Ok(sum),
            Err(faults) if faults.iter().any(|(_, fault)| fault.is_token_refusal()) => {
                let part = self.located(path, block.offset, 1).await?;
                let again = part.blocks.iter().find(|again| again.identity.block == block.identity.block);
                match self.block_sum_of_any(again.unwrap_or(block), len).await {
                    Ok(sum) => return Ok(sum),
                    Err(faults) => faults,
                }
            }
            Err(faults) => faults,
        };
        Err(Error::NoReplica { block: block.identity.block.0, tried: told(&faults) })
    }

    async fn block_sum_of_any(&self, block: &Located, len: u64) -> Result<BlockSum, Vec<(Arc<str>, Fault)>> {
        let mut faults = Vec::new();
        for node in block.nodes.iter() {
            match self.block_sum_of(block, node, len).await {
                Ok(sum) => return Ok(sum),
                Err(fault) => faults.push((Arc::clone(&node.addr), fault)),
            }
        }
        Err(faults)
    }

    async fn block_sum_of(&self, block: &Located, node: &Node, len: u64) -> Result<BlockSum, Fault> {
        let request = block.checksum_request(len)?;
        let request = &request;
        let ask = |mut connection: Connection| async move {
            connection.send(request).await?;
            let answer = connection.receive_answer().await?;
            Ok((connection, answer))
        };
        let (connection, answer) = self.on_connection(block, node, self.options().timeout, ask).await?;
        let sum = answer.checksum_response.ok_or_else(|| Fault::Protocol("no checksum in its answer".into()))?;
        let md5 = <[u8; 16]>::try_from(&sum.block_checksum[..]).map_err(|_| Fault::Protocol("no MD5".into()))?;
        self.store().put_idle(connection);
        let kind = sum.crc_type.unwrap_or(ChecksumTypeProto::ChecksumCrc32 as i32);
        Ok(BlockSum { bytes_per_crc: sum.bytes_per_crc, crc_per_block: sum.crc_per_block, kind, md5 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taken from `hdfs dfs -checksum` of an empty file.
    #[test]
    fn an_empty_file_has_the_checksum_java_gives_it() {
        let sum = FileChecksum::new(0, 0, "CRC32", &[]);
        assert_eq!(sum.algorithm, "MD5-of-0MD5-of-0CRC32");
        assert_eq!(sum.to_string(), "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51");
    }
}
