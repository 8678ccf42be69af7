//! The request of `hdfs fsck`, parsed from its query.

/// Longest query taken: a path, and numbers of blocks.
const PAIR_COUNT_MAX: usize = 64;

/// It goes through the door as the message of a call does.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ask {
    #[prost(string, tag = "1")]
    pub(crate) path: String,
    #[prost(bool, tag = "2")]
    pub(super) files: bool,
    #[prost(bool, tag = "3")]
    pub(super) blocks: bool,
    #[prost(bool, tag = "4")]
    pub(super) locations: bool,
    #[prost(bool, tag = "5")]
    pub(super) racks: bool,
    #[prost(bool, tag = "6")]
    pub(super) open_files: bool,
    /// Only the blocks without a whole replica, from this many on.
    #[prost(uint64, optional, tag = "7")]
    pub(super) corrupt_after: Option<u64>,
    /// Only these blocks: `blk_1`, `blk_2`.
    #[prost(string, optional, tag = "8")]
    pub(crate) block_ids: Option<String>,
    /// Something was asked that would change files.
    #[prost(bool, tag = "9")]
    pub(super) changes: bool,
}

impl Ask {
    /// The user and the request.
    pub(crate) fn of(pairs: Vec<(String, String)>) -> (String, Self) {
        let (mut user, mut ask) = (String::new(), Self { path: "/".into(), ..Self::default() });
        let (mut corrupt, mut after) = (false, 0);
        for (name, value) in pairs.into_iter().take(PAIR_COUNT_MAX) {
            match name.as_str() {
                "path" => ask.path = value,
                "ugi" => user = value,
                "files" => ask.files = true,
                "blocks" => ask.blocks = true,
                "locations" | "replicadetails" => ask.locations = true,
                "racks" => ask.racks = true,
                "openforwrite" => ask.open_files = true,
                "listcorruptfileblocks" => corrupt = true,
                "startblockafter" => after = value.parse().unwrap_or(0),
                "blockId" => ask.block_ids = Some(value),
                "move" | "delete" => ask.changes = true,
                _ => {}
            }
        }
        ask.corrupt_after = corrupt.then_some(after);
        (user, ask)
    }
}
