//! The request of `hdfs fsck`, parsed from its query, and who asks.

use crate::refusal;
use hdfs::Exception;
use rpc::Identity;

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
    pub(crate) fn of(pairs: Vec<(String, String)>) -> (Claim, Self) {
        let (mut claim, mut ask) = (Claim::default(), Self { path: "/".into(), ..Self::default() });
        let (mut corrupt, mut after) = (false, 0);
        for (name, value) in pairs.into_iter().take(PAIR_COUNT_MAX) {
            match name.as_str() {
                "path" => ask.path = value,
                "ugi" => claim.user = value,
                name if name.eq_ignore_ascii_case("doas") => {
                    claim.acting_as = Some(value).filter(|name| !name.is_empty())
                }
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
        (claim, ask)
    }
}

/// Who asks, as the query says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(super) user: String,
    /// A gateway asks for one of its users.
    pub(super) acting_as: Option<String>,
}

impl Claim {
    /// Whose call it is: of who is `proven` by a ticket, and else of whom the query names. Who has a ticket and names
    /// somebody else acts for that one, if the settings let him.
    pub(crate) fn identity(self, proven: Option<String>) -> Result<Identity, Exception> {
        let Self { user, acting_as } = self;
        match (proven, acting_as) {
            (Some(name), acting_as) => Identity::of_ticket(name, acting_as.or(Some(user))),
            (None, Some(acting_as)) => Ok(Identity::simple(acting_as, Some(user))),
            (None, None) if user.is_empty() => Err(refusal::illegal("say who asks: ?ugi=NAME")),
            (None, None) => Ok(Identity::simple(user, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(query: &[(&str, &str)], proven: Option<&str>) -> (String, Option<String>) {
        let pairs = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let identity = Ask::of(pairs).0.identity(proven.map(str::to_owned)).unwrap();
        (identity.effective, identity.real)
    }

    #[test]
    fn a_ticket_says_who_asks_whatever_the_query_says() {
        let ada = Some("ada@EXAMPLE.COM");
        let of = |effective: &str, real: Option<&str>| (effective.to_owned(), real.map(str::to_owned));
        assert_eq!(identity(&[("path", "/")], ada), of("ada@EXAMPLE.COM", None));
        assert_eq!(identity(&[("ugi", "root")], ada), of("root", ada), "as whom she acts, if she may");
        assert_eq!(identity(&[("ugi", "ada"), ("doas", "bob")], ada), of("bob", ada));
        assert_eq!(identity(&[("ugi", "ada")], None), of("ada", None));
        assert_eq!(identity(&[("ugi", "oozie"), ("doAs", "bob")], None), of("bob", Some("oozie")));
        let nobody = Ask::of(vec![("path".into(), "/".into())]).0.identity(None);
        assert!(nobody.unwrap_err().message.contains("?ugi=NAME"));
    }
}
