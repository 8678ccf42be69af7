//! What the command line says of a store.

use crate::reach::Advertised;
use crate::shell::{PORT_BASE_VARIABLE, size, span};
use std::path::PathBuf;

/// More than a machine's ports and disks have a use for.
pub(super) const DATANODES_MAX: u16 = 1000;
/// More than a machine has a use for, to try it.
pub(super) const DISKS_MAX: u16 = 100;

/// Least memory that makes sense: below it the buffers of a few connections would already be refused.
const MEMORY_MIN: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where everything of this store lies [default: levada in the user's data directory; where that may not be
    /// written, /var/lib/levada/up, or a temporary directory]
    #[arg(long, value_name = "PATH")]
    pub(super) dir: Option<PathBuf>,
    /// First port; 0 takes free ones, and at the next start the same again [default: the ports of HDFS, 8020, 9870,
    /// 9866 and so on]
    #[arg(long, env = PORT_BASE_VARIABLE, value_name = "N")]
    pub(super) port_base: Option<u16>,
    /// Address that all servers listen on, or a name of it: 0.0.0.0 for all addresses, so that other machines reach
    /// them [default: 127.0.0.1, for this machine alone]
    #[arg(long, env = "LEVADA_UP_HOST", value_name = "ADDR")]
    pub(super) host: Option<String>,
    /// What clients outside of this machine's networks are told to dial: the machine or gateway through which they
    /// come. With a port, where that leads to the first metadata server; all other ports are as much higher there, too
    #[arg(long, env = "LEVADA_UP_ADVERTISE", value_name = "NAME[:PORT]", requires = "host")]
    pub(super) advertise: Option<Advertised>,
    /// How many metadata servers to run: 1, 3 or 5. Decided when the directory is new [default: as many as it has, or
    /// 1]
    #[arg(long, value_name = "N", value_parser = ["1", "3", "5"])]
    pub(super) meta: Option<String>,
    /// How many datanodes to run [default: as many as the directory has, 3 in a new one]
    #[arg(long, env = "LEVADA_UP_DATANODES", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=DATANODES_MAX as i64))]
    pub(super) datanodes: Option<u16>,
    /// How many disks each datanode has: a directory each, on this machine [default: as many as the directory has, or
    /// 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=DISKS_MAX as i64))]
    pub(super) disks: Option<u16>,
    /// Copies of each block when the client does not say; kept for the next start [default: 3, or the number of
    /// datanodes if that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) replication: Option<u16>,
    /// When a block is acknowledged: on disk on all replicas, or in the memory of all replicas (as HDFS does)
    #[arg(long, value_enum, default_value_t = Durability::Synced)]
    pub(super) durability: Durability,
    /// Memory for buffers and caches of all roles together, as in 512M or 2G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub(super) memory: u64,
    /// Make keys and certificates, and protect the store by them: servers prove to each other who they are, over TLS;
    /// each block asks for a token; blocks travel encrypted. A store that was secure once stays so
    #[arg(long)]
    pub(super) secure: bool,
    /// Kerberos name of the metadata servers, as nn/_HOST@EXAMPLE.COM: users have to prove who they are
    #[arg(long, value_name = "NAME", requires = "keytab")]
    pub(super) principal: Option<String>,
    /// File with the keys of that name
    #[arg(long, value_name = "FILE", requires = "principal")]
    pub(super) keytab: Option<PathBuf>,
    /// Ask for a token with each operation on a block
    #[arg(long, hide = true)]
    pub(super) block_tokens: bool,
    /// Seconds for which a key signs block tokens, and for which these count at least
    #[arg(long, hide = true, value_name = "SECONDS", requires = "block_tokens")]
    pub(super) block_key_interval: Option<u32>,
    /// What a secure store asks for where blocks are read and written: authentication, integrity or privacy [default:
    /// privacy, and clients need no setting for that]
    #[arg(long, value_name = "WORD", value_parser = ["authentication", "integrity", "privacy"])]
    pub(super) data_transfer_protection: Option<String>,
    /// Encrypt data transfer, and have clients do so
    #[arg(long, hide = true, requires = "block_tokens")]
    pub(super) encrypt_data_transfer: bool,
    /// How long what is removed stays in the trash of whoever removed it, as 12h or 7d, where `levada trash` and
    /// `hdfs dfs` find it; kept for the next start, 0s for none [default: it is deleted at once, as HDFS has it]
    #[arg(long, value_name = "TIME", value_parser = span::parse_any)]
    pub(super) trash_interval: Option<u64>,
    /// Run each role as a process of its own
    #[arg(long)]
    pub(super) processes: bool,
    /// Print one line of JSON when ready, and nothing else
    #[arg(long)]
    pub(super) json: bool,
    /// Stop when standard input ends, that is, with the process that started this one
    #[arg(long, hide = true)]
    pub(super) until_stdin_ends: bool,
    /// Delete the directory at the end; it has to be new, or empty: a store for tests
    #[arg(long, hide = true, requires = "dir")]
    pub(super) delete_at_end: bool,
}

/// Of `--memory`.
fn memory(text: &str) -> Result<u64, String> {
    size::parse(text)
        .map_err(|error| error.to_string())
        .and_then(|len| if len < MEMORY_MIN { Err("give at least 64M".into()) } else { Ok(len) })
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Durability {
    Synced,
    Replicated,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_a_fault_of_the_command_line() {
        assert_eq!((memory("64M"), memory("1G")), (Ok(64 << 20), Ok(1 << 30)));
        assert!(["1", "63M", "lots"].iter().all(|text| memory(text).is_err()));
    }
}
