//! What another program of ours can do beyond HDFS's protocols, as a set of named bits.
//!
//! ```text
//! metadata server   in its answer to getServerDefaults, for itself and its datanodes: asked once of each server
//! writer, node      when it opens a stream (StreamProto), for itself
//! datanode          in its answer to that (BlockOpResponseProto), for itself
//! ```
//!
//! A bit keeps its meaning for ever, and its row in docs/protocol.md. Bits that this program does not know are ignored,
//! and a program that states none has none of these abilities: it may be HDFS's own.

/// A set of abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities(u64);

impl Abilities {
    /// Sends keepalives while another waits for it, and understands those of others. Said by both ends of a stream.
    pub const KEEPALIVES: Self = Self(1 << 0);
    /// Datanodes take a StreamProto: they follow routing tables, prepare for longer packets, and send keepalives.
    pub const STREAMS: Self = Self(1 << 1);
    /// `leaseBlocks` for files to come, `putFile`, and small writes (operation 200) on the datanodes.
    pub const SMALL_FILES: Self = Self(1 << 2);
    /// `leaseBlocks` for an open file, and `addLeased`.
    pub const LEASED_BLOCKS: Self = Self(1 << 3);
    /// Datanodes serve many ranges by one request (operation 201).
    pub const RANGES: Self = Self(1 << 4);
    /// Datanodes say over TCP where their Unix socket is, which passes descriptors of replicas (operation 87).
    pub const LOCAL_READS: Self = Self(1 << 6);

    /// `rename2` that replaces one version of a file, and no other.
    pub const REPLACE: Self = Self(1 << 5);
    /// Datanodes say where the columns of a file lie (operation 202).
    pub const LAYOUTS: Self = Self(1 << 7);

    /// What a metadata server of this program states.
    pub const OF_METADATA_SERVER: Self = Self(
        Self::STREAMS.0
            | Self::SMALL_FILES.0
            | Self::LEASED_BLOCKS.0
            | Self::RANGES.0
            | Self::REPLACE.0
            | Self::LOCAL_READS.0
            | Self::LAYOUTS.0,
    );
    /// What either end of a stream states.
    pub const OF_STREAM: Self = Self::KEEPALIVES;

    /// As they stand in a message. Without the field there are none.
    pub fn of(bits: Option<u64>) -> Self {
        Self(bits.unwrap_or(0))
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    /// True if all of `wanted` are among them.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are on the wire: docs/protocol.md has a row for each.
    #[test]
    fn the_bits_are_fixed_and_documented() {
        let documented = include_str!("../../../docs/protocol.md");
        let named = [
            ("KEEPALIVES", Abilities::KEEPALIVES, 1),
            ("STREAMS", Abilities::STREAMS, 2),
            ("SMALL_FILES", Abilities::SMALL_FILES, 4),
            ("LEASED_BLOCKS", Abilities::LEASED_BLOCKS, 8),
            ("RANGES", Abilities::RANGES, 16),
            ("REPLACE", Abilities::REPLACE, 32),
            ("LOCAL_READS", Abilities::LOCAL_READS, 64),
            ("LAYOUTS", Abilities::LAYOUTS, 128),
        ];
        for (bit, (name, ability, number)) in named.into_iter().enumerate() {
            assert_eq!(ability.bits(), number, "{name}");
            assert!(documented.contains(&format!("| {bit} | {name} |")), "{name} has no row in docs/protocol.md");
        }
        let declared = include_str!("abilities.rs").matches(": Self = Self(1 << ").count();
        assert_eq!(declared, named.len() + 1, "each bit is named here (and once in this line)");
    }

    #[test]
    fn unknown_bits_are_ignored() {
        let newer = Abilities::of(Some(1 << 63 | 1));
        assert!(newer.has(Abilities::KEEPALIVES) && !newer.has(Abilities::STREAMS));
        assert!(!Abilities::of(None).has(Abilities::KEEPALIVES));
        assert!(!Abilities::KEEPALIVES.has(Abilities::OF_METADATA_SERVER));
    }
}
