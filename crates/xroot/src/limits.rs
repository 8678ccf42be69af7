//! What a client may ask for at most. Each figure says where it comes from.

use types::limits::PATH_LEN_MAX;

/// Elements of one vector. XRootD's own server takes 1,024.
pub const VECTOR_COUNT_MAX: usize = 16 << 10;
/// What clients are told that it is: they split longer vectors, and send the parts together. One of so many fits into
/// what a new connection carries at once, ten segments, so its answer begins while the others are on their way.
/// Measured over 240 ms: 4,800 elements took uproot 6.1 s so, and 7.6 s as one vector (docs/adr/0034). A prime, as
/// fsspec-xrootd sends an empty vector, which cannot be answered, behind what is a multiple of it: 1,024, say.
pub const VECTOR_COUNT_ANNOUNCED: usize = 509;
/// Bytes of one element: XRootD's own figure, 2 MiB less the element's head. Clients ask for this one, too.
pub const ELEMENT_LEN_MAX: u32 = (2 << 20) - 16;
/// Bytes of all elements of a vector with their heads: XRootD's own figure, as lengths are signed there.
pub const VECTOR_LEN_MAX: u64 = i32::MAX as u64;
/// Bytes of a response that are read and sent at a time, where no element is longer. A guess: a round trip to a
/// datanode near here brings as much as the socket takes.
pub const PART_LEN_MAX: usize = 1 << 20;
/// Bytes of a path with what stands behind a `?` in it: of the longest path, and a token of the usual length.
pub const PATH_BODY_LEN_MAX: usize = 4 * PATH_LEN_MAX + (16 << 10);
/// Bytes of the body of any other request but a vector: of a login, with a token in it. A guess.
pub const BODY_LEN_MAX: usize = 64 << 10;
/// Bytes of a body that nobody reads: longer ones end the connection. What xrdcp writes at a time, twice.
pub const SKIPPED_LEN_MAX: u32 = 16 << 20;
/// Paths of one request for the types of many. A guess.
pub const STATX_COUNT_MAX: usize = 1024;
/// Words of one question for the configuration. Clients ask for two to five.
pub const CONFIG_COUNT_MAX: usize = 64;
/// Bytes of such a question: words are of tens of letters. An answer repeats words that have no value.
pub const CONFIG_LEN_MAX: usize = 4 << 10;
/// Files that a session has open. A guess: a chain of files is opened one after the other, and fsspec-xrootd keeps some
/// for 30 s.
pub const HANDLE_COUNT_MAX: usize = 1024;
/// Bytes of the text of an error. The cause stands at its beginning.
pub const TEXT_LEN_MAX: usize = 1000;
/// Bytes of a part of a listing. A guess: some hundred entries.
pub const LISTING_PART_LEN_MAX: usize = 64 << 10;
/// Letters of a user's name in a login, which has no more room.
pub const USER_LEN_MAX: usize = 8;

const _: () = assert!(PATH_BODY_LEN_MAX <= BODY_LEN_MAX && VECTOR_COUNT_ANNOUNCED <= VECTOR_COUNT_MAX);
