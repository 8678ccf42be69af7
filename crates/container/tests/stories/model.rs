//! A writer against a model, with random packets, flushes, readers, returns and restarts in between.
//!
//! The model is a length: byte `n` of the block is always the same, whoever sends it in whatever packet.

use crate::support::*;
use container::{Reader, ReopenKind, Volume, Writer};
use proptest::prelude::*;
use std::path::Path;
use types::{ChecksumKind, ChecksumSpec, Generation};

/// One thing that happens. Numbers are drawn at large and brought into range by what is there.
#[derive(Clone, Debug)]
enum Step {
    /// A packet from a chunk's start on, some chunks back, of some length; with checksums or without.
    Aligned {
        back: u64,
        len: usize,
        bare: bool,
    },
    /// A packet from somewhere in our last chunk on, at most to its end.
    MidChunk {
        back: u64,
        len: usize,
    },
    /// One that starts behind what came.
    Gap,
    Acknowledge {
        part: u64,
    },
    Sync,
    /// A reader opens the replica and is held against the model at the end again.
    Read,
    /// The chain broke; the same writer comes back.
    Return,
    /// The block is finalized and opened for append.
    PutAndAppend,
    /// The node stops and starts; with its index or without.
    Restart {
        index_lost: bool,
    },
    /// The writer is gone; recovery agrees on some length, and an append follows.
    Recover {
        part: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..3000, 0usize..6000, any::<bool>()).prop_map(|(back, len, bare)| Step::Aligned { back, len, bare }),
        6 => (0u64..600, 0usize..600).prop_map(|(back, len)| Step::MidChunk { back, len }),
        1 => Just(Step::Gap),
        3 => (0u64..=100).prop_map(|part| Step::Acknowledge { part }),
        1 => Just(Step::Sync),
        4 => Just(Step::Read),
        2 => Just(Step::Return),
        1 => Just(Step::PutAndAppend),
        1 => any::<bool>().prop_map(|index_lost| Step::Restart { index_lost }),
        1 => (0u64..=100).prop_map(|part| Step::Recover { part }),
    ];
    proptest::collection::vec(step, 1..40)
}

struct World<'d> {
    dir: &'d Path,
    spec: ChecksumSpec,
    bytes: Vec<u8>,
    volume: Option<Volume>,
    writer: Option<Writer>,
    generation: u64,
    len: usize,
    visible: usize,
    readers: Vec<(Reader, usize)>,
}

impl<'d> World<'d> {
    fn new(dir: &'d Path, spec: ChecksumSpec) -> Self {
        let volume = open(dir);
        let writer = volume.create(container::Identity { checksum: spec, ..identity(1, 1001) }).unwrap();
        let bytes = pattern(9, 300_000);
        let (volume, writer) = (Some(volume), Some(writer));
        Self { dir, spec, bytes, volume, writer, generation: 1001, len: 0, visible: 0, readers: Vec::new() }
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().unwrap()
    }

    fn send(&mut self, from: usize, to: usize, bare: bool) {
        let data = &self.bytes[from..to];
        let sums = if bare { Vec::new() } else { sums(self.spec, data) };
        self.writer.as_mut().unwrap().write(from as u64, data, &sums).unwrap();
        self.len = self.len.max(to);
    }

    fn reopen(&mut self, kind: ReopenKind, min_len: usize) {
        let (old, new) = (self.generation, self.generation + 1);
        let ask = ask(kind, old, new, min_len as u64, self.bytes.len() as u64);
        self.writer = Some(self.volume().reopen(block(1), ask).unwrap());
        self.generation = new;
    }

    fn step(&mut self, step: Step) {
        let chunk_len = self.spec.chunk_len as usize;
        match step {
            Step::Aligned { back, len, bare } => {
                let from = self.len.saturating_sub(back as usize) / chunk_len * chunk_len;
                self.send(from, (from + len).min(self.bytes.len()), bare);
            }
            Step::MidChunk { back, len } => {
                let start = self.len / chunk_len * chunk_len;
                let from = self.len.saturating_sub(back as usize).max(start);
                self.send(from, (from + len).min(start + chunk_len).min(self.bytes.len()), false);
            }
            Step::Gap => {
                let beyond = self.len as u64 + 1;
                self.writer.as_mut().unwrap().write(beyond, b"x", &[0; 4]).unwrap_err();
            }
            Step::Acknowledge { part } => {
                self.visible = self.visible.max(self.len * part as usize / 100);
                self.writer.as_ref().unwrap().set_visible(self.visible as u64);
            }
            Step::Sync => self.writer.as_mut().unwrap().sync().unwrap(),
            Step::Read => self.readers.push((read(self.volume(), block(1)), self.len)),
            Step::Return => {
                self.reopen(ReopenKind::StreamingRecovery, self.visible);
                self.len = self.visible;
                // What was not acknowledged may be sent otherwise now; who read it has read what nobody promised.
                let len = self.len;
                self.readers.retain(|(_, seen)| *seen <= len);
            }
            Step::PutAndAppend => {
                self.writer.take().unwrap().put(self.len as u64).unwrap();
                check(&read(self.volume(), block(1)), &self.bytes[..self.len]);
                self.reopen(ReopenKind::Append, self.len);
                self.visible = self.len;
            }
            Step::Restart { index_lost } => {
                self.readers.clear();
                (self.writer, self.volume) = (None, None);
                if index_lost {
                    std::fs::remove_dir_all(self.dir.join("index")).unwrap();
                }
                self.volume = Some(open(self.dir));
                self.reopen(ReopenKind::StreamingRecovery, self.visible);
                self.visible = self.len;
            }
            Step::Recover { part } => {
                self.generation += 1;
                let recovery = Generation(self.generation);
                let info = self.volume().begin_recovery(block(1), recovery).unwrap();
                assert_eq!(info.len, self.len as u64);
                self.len = self.visible + (self.len - self.visible) * part as usize / 100;
                self.volume().finish_recovery(block(1), recovery, self.len as u64).unwrap();
                self.visible = self.len;
                let len = self.len;
                self.readers.retain(|(_, seen)| *seen <= len);
                check(&read(self.volume(), block(1)), &self.bytes[..self.len]);
                self.reopen(ReopenKind::Append, self.len);
            }
        }
        assert_eq!(self.writer.as_ref().unwrap().received(), self.len as u64);
    }

    fn end(mut self) {
        for (reader, seen) in &self.readers {
            check(reader, &self.bytes[..*seen]);
        }
        let reader = read(self.volume(), block(1));
        check(&reader, &self.bytes[..self.len]);
        assert_eq!(reader.visible_len(), self.visible as u64);
        self.writer.take().unwrap().put(self.len as u64).unwrap();
        self.volume = None;
        let volume = open(self.dir);
        check(&volume.read(block(1), Generation(self.generation)).unwrap(), &self.bytes[..self.len]);
        assert_eq!(files(&self.dir.join("open")), [""; 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_the_bytes_and_checksums_are_right(
        steps in steps(),
        kind in prop_oneof![Just(ChecksumKind::Null), Just(ChecksumKind::Crc32), Just(ChecksumKind::Crc32c)],
        chunk_len in prop_oneof![Just(512u32), 1u32..1500],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::new(dir.path(), ChecksumSpec { kind, chunk_len });
        for step in steps {
            world.step(step);
        }
        world.end();
    }
}
