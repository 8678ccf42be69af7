//! Totals at the end of a report, in HDFS's words.

use std::fmt::Write;

/// Of the tree looked at; blocks of files that are being written are counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) directories: u64,
    pub(super) files: u64,
    pub(super) len: u64,
    pub(super) blocks: u64,
    /// With a live replica at least.
    pub(super) sound: u64,
    pub(super) short: u64,
    pub(super) surplus: u64,
    pub(super) missing: u64,
    pub(super) missing_len: u64,
    pub(super) corrupt: u64,
    pub(super) corrupt_len: u64,
    pub(super) corrupt_files: u64,
    pub(super) replicas: u64,
    pub(super) wanted_replicas: u64,
    pub(super) missing_replicas: u64,
    pub(super) open_files: u64,
    pub(super) open_len: u64,
    pub(super) open_blocks: u64,
}

/// What is told beside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cluster {
    pub(super) live_nodes: usize,
    pub(super) racks: usize,
    pub(super) replication: u16,
    /// Blocks of which repair has still to make copies.
    pub(super) pending: u64,
}

impl Totals {
    pub(super) fn is_healthy(&self) -> bool {
        self.missing == 0 && self.corrupt == 0
    }

    pub(super) fn report(&self, cluster: Cluster) -> String {
        assert!(self.sound <= self.blocks && self.short <= self.sound, "sound blocks are some of all: {self:?}");
        assert!(self.missing <= self.blocks && self.corrupt <= self.blocks, "so are those that are not: {self:?}");
        assert!(self.missing_replicas <= self.wanted_replicas, "nobody lacks what is not wanted: {self:?}");
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, cluster);
        text
    }

    fn write(&self, out: &mut String, cluster: Cluster) -> std::fmt::Result {
        let status = if self.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        writeln!(out, "\nStatus: {status}")?;
        writeln!(out, " Number of data-nodes:\t{}", cluster.live_nodes)?;
        writeln!(out, " Number of racks:\t\t{}", cluster.racks)?;
        writeln!(out, " Total dirs:\t\t\t{}\n Total symlinks:\t\t0", self.directories)?;
        write!(out, "\nReplicated Blocks:\n Total size:\t{} B", self.len)?;
        if self.open_len > 0 {
            write!(out, " (Total open files size: {} B)", self.open_len)?;
        }
        write!(out, "\n Total files:\t{}", self.files)?;
        if self.open_files > 0 {
            write!(out, " (Files currently being written: {})", self.open_files)?;
        }
        write!(out, "\n Total blocks (validated):\t{}", self.blocks)?;
        if let Some(average) = self.len.checked_div(self.blocks) {
            write!(out, " (avg. block size {average} B)")?;
        }
        if self.open_blocks > 0 {
            write!(out, " (Total open file blocks (not validated): {})", self.open_blocks)?;
        }
        self.write_trouble(out)?;
        for (name, count) in [
            ("Minimally replicated blocks:\t", self.sound),
            ("Over-replicated blocks:\t", self.surplus),
            ("Under-replicated blocks:\t", self.short),
            ("Mis-replicated blocks:\t\t", 0),
        ] {
            write!(out, "\n {name}{count}{}", share(count, self.blocks))?;
        }
        write!(out, "\n Default replication factor:\t{}", cluster.replication)?;
        let average = if self.blocks == 0 { 0.0 } else { self.replicas as f32 / self.blocks as f32 };
        write!(out, "\n Average block replication:\t{average:?}")?;
        write!(out, "\n Missing blocks:\t\t{}\n Corrupt blocks:\t\t{}", self.missing, self.corrupt)?;
        let missing = self.missing_replicas;
        write!(out, "\n Missing replicas:\t\t{missing}{}", share(missing, self.wanted_replicas))?;
        writeln!(out, "\n Blocks queued for replication:\t{}", cluster.pending)?;
        out.push_str(NO_ERASURE_CODING);
        Ok(())
    }

    fn write_trouble(&self, out: &mut String) -> std::fmt::Result {
        let below = self.blocks - self.sound;
        if self.corrupt_files == 0 && below == 0 {
            return Ok(());
        }
        out.push_str("\n  ********************************");
        if below > 0 {
            write!(out, "\n  UNDER MIN REPL'D BLOCKS:\t{below}{}", share(below, self.blocks))?;
            out.push_str("\n  MINIMAL BLOCK REPLICATION:\t1");
        }
        if self.corrupt_files > 0 {
            write!(out, "\n  CORRUPT FILES:\t{}", self.corrupt_files)?;
        }
        if self.missing > 0 {
            write!(out, "\n  MISSING BLOCKS:\t{}\n  MISSING SIZE:\t\t{} B", self.missing, self.missing_len)?;
        }
        if self.corrupt > 0 {
            write!(out, "\n  CORRUPT BLOCKS: \t{}\n  CORRUPT SIZE:\t\t{} B", self.corrupt, self.corrupt_len)?;
        }
        out.push_str("\n  ********************************");
        Ok(())
    }
}

/// As Java writes a float.
fn share(part: u64, of: u64) -> String {
    if of == 0 { String::new() } else { format!(" ({:?} %)", (part * 100) as f32 / of as f32) }
}

const NO_ERASURE_CODING: &str = "
Erasure Coded Block Groups:
 Total size:\t0 B
 Total files:\t0
 Total block groups (validated):\t0
 Minimally erasure-coded block groups:\t0
 Over-erasure-coded block groups:\t0
 Under-erasure-coded block groups:\t0
 Unsatisfactory placement block groups:\t0
 Average block group size:\t0.0
 Missing block groups:\t\t0
 Corrupt block groups:\t\t0
 Missing internal blocks:\t0
 Blocks queued for replication:\t0
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_store_is_told_as_by_hdfs() {
        let totals = Totals { directories: 1, ..Totals::default() };
        let text = totals.report(Cluster { live_nodes: 3, racks: 1, replication: 3, pending: 0 });
        let wanted = "
Status: HEALTHY
 Number of data-nodes:\t3
 Number of racks:\t\t1
 Total dirs:\t\t\t1
 Total symlinks:\t\t0

Replicated Blocks:
 Total size:\t0 B
 Total files:\t0
 Total blocks (validated):\t0
 Minimally replicated blocks:\t0
 Over-replicated blocks:\t0
 Under-replicated blocks:\t0
 Mis-replicated blocks:\t\t0
 Default replication factor:\t3
 Average block replication:\t0.0
 Missing blocks:\t\t0
 Corrupt blocks:\t\t0
 Missing replicas:\t\t0
 Blocks queued for replication:\t0
";
        assert_eq!(text.strip_suffix(NO_ERASURE_CODING), Some(wanted));
    }

    #[test]
    fn what_is_lost_stands_between_stars() {
        let totals = Totals {
            blocks: 3,
            sound: 2,
            len: 10,
            missing: 1,
            missing_len: 4,
            corrupt_files: 1,
            replicas: 4,
            wanted_replicas: 6,
            ..Totals::default()
        };
        let text = totals.report(Cluster::default());
        assert!(text.starts_with("\nStatus: CORRUPT\n"));
        assert!(text.contains(
            "avg. block size 3 B)\n  ********************************\n  UNDER MIN REPL'D BLOCKS:\t1 (33.333332 %)\n  \
             MINIMAL BLOCK REPLICATION:\t1\n  CORRUPT FILES:\t1\n  MISSING BLOCKS:\t1\n  MISSING SIZE:\t\t4 B\n  \
             ********************************\n Minimally replicated blocks:\t2 (66.666664 %)"
        ));
        assert!(text.contains("Average block replication:\t1.3333334\n"));
    }
}
