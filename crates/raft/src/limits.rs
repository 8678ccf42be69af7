//! How long a command and a message may be.

/// Bytes of entries sent to another member at once, unless a single one has more.
pub(crate) const MESSAGE_LEN: usize = 1 << 20;

/// Longest command, encoded. Few are longer than 100 KB: a path of 1000 levels and 32 KB, twice. The longest join
/// files, of which each is named. A longer one must not get into the log: if no follower can take it, no change behind
/// it is committed, and as heartbeats go on the leader stays.
pub const COMMAND_LEN_MAX: usize = 1 << 20;
/// Longest message to another member: as much of the log, or of a snapshot, as is sent at once, one command or row
/// beyond, and what stands around them. A [`Transport`](crate::Transport) must take such a message.
pub const MESSAGE_LEN_MAX: usize = MESSAGE_LEN + COMMAND_LEN_MAX + FRAME_LEN;
/// What stands around entries and rows. Some tens of bytes, or a membership's few addresses.
const FRAME_LEN: usize = 64 << 10;
