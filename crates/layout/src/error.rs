use crate::what::What;

/// Why a file has no layout. Two variants differ only if the caller acts differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Keep this answer with the file: it stays true until the file changes.
    #[error("no layout is known for this file: {0}")]
    Unknown(&'static str),
    /// Tell who owns the file.
    #[error("the file is damaged: {0}")]
    Damaged(&'static str),
    /// Ask again with higher limits, where there is room.
    #[error("the layout is too large: {what}, {asked} where {max} may be left")]
    TooLarge { what: What, asked: u64, max: u64 },
    /// Ask again later, or where there is more memory.
    #[error("there is no memory left for the layout")]
    NoRoom,
}

pub(crate) type Result<T, E = LayoutError> = std::result::Result<T, E>;
