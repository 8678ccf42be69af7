//! The blocks of a file and where they are, encoded block by block: what every opening of a file asks for.
//!
//! ```text
//! Place: a node, encoded once ──┐
//! Block ────────────────────────┴─▶ LocatedWriter ─▶ Located: a LocatedBlocksProto, alone or as an answer
//! ```
//!
//! Promise: byte for byte what prost makes of the same [`LocatedBlocksProto`](crate::proto::LocatedBlocksProto). A
//! block has three nodes with a hundred and fifty bytes each; here they are copied, where prost makes texts of them,
//! and asks each for its length once for every message around it.

use crate::encoding::{HEAD_LEN, LEN, NUMBER, put_field, put_head, put_numbers, tag};
use crate::proto::{DatanodeInfoProto, StorageTypeProto};
use bytes::Bytes;
use prost::Message;
use types::{BlockId, Generation};

/// Of `GetBlockLocationsResponseProto`.
const LOCATIONS: u64 = tag(1, LEN);
const BLOCKS: u64 = tag(2, LEN);
const LAST_BLOCK: u64 = tag(4, LEN);

/// A node as answers name it.
#[derive(Clone, Debug)]
pub struct Place {
    datanode: Vec<u8>,
    storage: String,
}

impl Place {
    pub fn new(datanode: &DatanodeInfoProto, storage: &str) -> Self {
        Self { datanode: datanode.encode_to_vec(), storage: storage.to_owned() }
    }
}

/// What an answer says of a block, beside its nodes.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub offset: u64,
    /// A `TokenProto`, encoded.
    pub token: &'a [u8],
}

/// See the module.
#[derive(Debug)]
pub struct LocatedWriter<'a> {
    pool: &'a str,
    /// A head that may come before it, and the message.
    bytes: Vec<u8>,
    /// Parts whose lengths stand before them, while they are made.
    block: Vec<u8>,
    id: Vec<u8>,
}

/// A whole message.
#[derive(Debug)]
pub struct Located {
    bytes: Vec<u8>,
}

impl<'a> LocatedWriter<'a> {
    pub fn new(pool: &'a str, file_len: u64) -> Self {
        let mut bytes = vec![0; HEAD_LEN];
        put_numbers([tag(1, NUMBER), file_len], &mut bytes);
        Self { pool, bytes, block: Vec::new(), id: Vec::new() }
    }

    pub fn push<'p>(&mut self, block: &Block<'_>, places: impl Iterator<Item = &'p Place> + Clone) {
        self.put(BLOCKS, block, places);
    }

    /// `last`: the block in which the file ends, whether or not it is among those that were asked for.
    pub fn finish<'p>(
        mut self,
        under_construction: bool,
        last: Option<(&Block<'_>, impl Iterator<Item = &'p Place> + Clone)>,
        is_last_complete: bool,
    ) -> Located {
        put_numbers([tag(3, NUMBER), under_construction.into()], &mut self.bytes);
        if let Some((block, places)) = last {
            self.put(LAST_BLOCK, block, places);
        }
        put_numbers([tag(5, NUMBER), is_last_complete.into()], &mut self.bytes);
        Located { bytes: self.bytes }
    }

    fn put<'p>(&mut self, field: u64, block: &Block<'_>, places: impl Iterator<Item = &'p Place> + Clone) {
        let Self { pool, bytes, block: out, id } = self;
        id.clear();
        put_field(tag(1, LEN), pool.as_bytes(), id);
        put_numbers([tag(2, NUMBER), block.block.0, tag(3, NUMBER), block.generation.0], id);
        put_numbers([tag(4, NUMBER), block.len], id);
        out.clear();
        put_field(tag(1, LEN), id, out);
        put_numbers([tag(2, NUMBER), block.offset], out);
        places.clone().for_each(|place| put_field(tag(3, LEN), &place.datanode, out));
        let is_corrupt = false;
        put_numbers([tag(4, NUMBER), is_corrupt.into()], out);
        put_field(tag(5, LEN), block.token, out);
        let disk = i64::from(i32::from(StorageTypeProto::Disk)) as u64;
        places.clone().for_each(|_| put_numbers([tag(7, NUMBER), disk], out));
        places.for_each(|place| put_field(tag(8, LEN), place.storage.as_bytes(), out));
        put_field(field, out, bytes);
    }
}

impl Located {
    /// A `LocatedBlocksProto`.
    pub fn message(&self) -> &[u8] {
        &self.bytes[HEAD_LEN..]
    }

    /// A `GetBlockLocationsResponseProto`.
    pub fn into_answer(mut self) -> Bytes {
        let start = put_head(LOCATIONS, &mut self.bytes);
        Bytes::from(self.bytes).slice(start..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        DatanodeIdProto, ExtendedBlockProto, GetBlockLocationsResponseProto, LocatedBlockProto, LocatedBlocksProto,
        TokenProto,
    };

    fn datanode(number: u32) -> DatanodeInfoProto {
        let id = DatanodeIdProto { host_name: "h".repeat(number as usize), xfer_port: number, ..Default::default() };
        DatanodeInfoProto { id, capacity: Some(u64::MAX >> (number % 64)), ..Default::default() }
    }

    fn block(number: u64, count: u32) -> LocatedBlockProto {
        LocatedBlockProto {
            b: ExtendedBlockProto::of("BP-1", BlockId(1 << number), Generation(number), u64::MAX >> number),
            offset: (1 << number) - 1,
            locs: (0..count).map(datanode).collect(),
            storage_types: vec![StorageTypeProto::Disk.into(); count as usize],
            storage_i_ds: (0..count).map(|number| format!("DS-{number}")).collect(),
            block_token: TokenProto { identifier: vec![7; number as usize * 9].into(), ..TokenProto::none() },
            ..Default::default()
        }
    }

    #[test]
    fn an_answer_is_the_message_that_prost_makes() {
        for (count, nodes, last) in [(0, 0, None), (1, 1, None), (60, 3, Some(63)), (5, 200, Some(0))] {
            let message = LocatedBlocksProto {
                file_length: 1 << count,
                blocks: (0..count).map(|number| block(number, nodes)).collect(),
                under_construction: last.is_some(),
                last_block: last.map(|number| block(number, nodes)),
                is_last_block_complete: last.is_none(),
            };
            let places: Vec<_> = (0..nodes).map(|n| Place::new(&datanode(n), &format!("DS-{n}"))).collect();
            let told = |proto: &LocatedBlockProto, token: &'static [u8]| Block {
                block: proto.b.block(),
                generation: proto.b.generation(),
                len: proto.b.num_bytes.unwrap(),
                offset: proto.offset,
                token,
            };
            let token = |proto: &LocatedBlockProto| -> &'static [u8] { proto.block_token.encode_to_vec().leak() };
            let mut writer = LocatedWriter::new("BP-1", message.file_length);
            for proto in &message.blocks {
                writer.push(&told(proto, token(proto)), places.iter());
            }
            let last = message.last_block.as_ref().map(|proto| told(proto, token(proto)));
            let last = last.as_ref().map(|block| (block, places.iter()));
            let located = writer.finish(message.under_construction, last, message.is_last_block_complete);
            assert_eq!(located.message(), message.encode_to_vec(), "{count} blocks");
            let answer = GetBlockLocationsResponseProto { locations: Some(message) };
            assert_eq!(located.into_answer(), answer.encode_to_vec());
        }
    }
}
