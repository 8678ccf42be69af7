//! What `hdfs fsck` asks for, as its query says.

/// Longest query taken: a path, and numbers of blocks.
const PAIR_COUNT_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) path: String,
    pub(super) user: String,
    pub(super) files: bool,
    pub(super) blocks: bool,
    pub(super) locations: bool,
    pub(super) racks: bool,
    pub(super) open_files: bool,
    /// Only the blocks that nobody has whole, from this many on.
    pub(super) corrupt_after: Option<usize>,
    /// Only these blocks: `blk_1`, `blk_2`.
    pub(super) block_ids: Option<String>,
    /// Something was asked that would change files.
    pub(super) changes: bool,
}

impl Ask {
    pub(super) fn of(pairs: Vec<(String, String)>) -> Self {
        let mut ask = Self { path: "/".into(), ..Self::default() };
        let (mut corrupt, mut after) = (false, 0);
        for (name, value) in pairs.into_iter().take(PAIR_COUNT_MAX) {
            match name.as_str() {
                "path" => ask.path = value,
                "ugi" => ask.user = value,
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
        ask
    }
}
