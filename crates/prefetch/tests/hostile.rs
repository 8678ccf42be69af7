//! Programs that read as no plan expects, from a seed, on a shell that remembers every byte. What is checked after each
//! event stands in [`Shell::check`].

mod talk;

use layout::{Column, Layout, Piece, Table};
use prefetch::{Action, FetchId, Index, Link, Prefetcher, Profile, Settings, Source, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::random::{Random, Seeded};

/// Where one byte of the file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Byte {
    coming: Option<FetchId>,
    held: bool,
    /// Since it was asked for.
    read: bool,
}

/// The cache of a client, byte by byte; it trusts the machine in nothing.
struct Shell {
    machine: Prefetcher,
    settings: Settings,
    bytes: Vec<Byte>,
    /// On its way: ranges, and whether they are kept.
    coming: BTreeMap<FetchId, (Vec<Span>, bool)>,
    /// Read while on its way past the cache.
    used_len: u64,
    lost_len: u64,
    dropped: Vec<Span>,
    fetched_ahead_len: u64,
}

fn places(span: Span) -> std::ops::Range<usize> {
    span.offset as usize..span.end() as usize
}

impl Shell {
    fn new(
        settings: Settings,
        link: Link,
        index: Option<Arc<Index>>,
        file_len: u64,
        profile: Option<&Profile>,
    ) -> Self {
        let mut shell = Self {
            machine: Prefetcher::new(settings, link, file_len),
            settings,
            bytes: vec![Byte::default(); file_len as usize],
            coming: BTreeMap::new(),
            used_len: 0,
            lost_len: 0,
            dropped: Vec::new(),
            fetched_ahead_len: 0,
        };
        let mut actions = Vec::new();
        shell.machine.open(index, profile, &mut actions);
        shell.obey(actions);
        shell
    }

    fn read(&mut self, span: Span) -> Vec<FetchId> {
        let mut actions = Vec::new();
        let parts = self.machine.read(span, &mut actions);
        let mut at = span.offset;
        let mut waits = Vec::new();
        let file_len = self.bytes.len() as u64;
        for part in &parts {
            assert_eq!(part.span.offset, at, "the parts are the read");
            at = part.span.end();
            match part.source {
                Source::Held => {
                    for byte in &mut self.bytes[places(part.span)] {
                        assert!(byte.held);
                        self.used_len += u64::from(!byte.read);
                        byte.read = true;
                    }
                }
                Source::Coming(fetch) => {
                    waits.push(fetch);
                    let known = self.coming.contains_key(&fetch);
                    for byte in self.bytes[places(part.span)].iter_mut().filter(|_| known) {
                        assert_eq!(byte.coming, Some(fetch));
                        byte.read = true;
                    }
                }
                Source::Missing => panic!("a read has to come from somewhere"),
            }
        }
        assert_eq!(at.max(span.offset), span.end().min(file_len).max(span.offset), "all of it");
        self.obey(actions);
        assert!(waits.iter().all(|fetch| self.coming.contains_key(fetch)));
        waits
    }

    fn obey(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Drop(span) => {
                    for byte in &mut self.bytes[places(span)] {
                        assert!(byte.held, "only what is held is dropped");
                        self.lost_len += u64::from(!byte.read);
                        *byte = Byte::default();
                    }
                    self.dropped.push(span);
                }
                Action::Fetch(fetch) => {
                    assert!(fetch.ranges.iter().all(|range| !range.is_empty()));
                    assert!(fetch.ranges.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
                    assert!(fetch.ranges.last().is_some_and(|range| range.end() <= self.bytes.len() as u64));
                    assert_eq!(fetch.len, fetch.ranges.iter().map(|range| range.len).sum::<u64>());
                    assert!(fetch.ranges.len() <= self.settings.ranges_max);
                    let is_demand = fetch.why == prefetch::Why::Demand;
                    for range in fetch.ranges.iter().filter(|_| fetch.is_kept) {
                        for byte in &mut self.bytes[places(*range)] {
                            assert_eq!(*byte, Byte::default(), "nothing is fetched twice");
                            *byte = Byte { coming: Some(fetch.id), held: false, read: is_demand };
                        }
                    }
                    if !is_demand {
                        self.fetched_ahead_len += fetch.len;
                    }
                    self.coming.insert(fetch.id, (fetch.ranges, fetch.is_kept));
                }
                Action::Decided(decision) => assert!(!decision.to_string().is_empty()),
            }
        }
    }

    fn arrive(&mut self, fetch: FetchId) {
        let Some((ranges, is_kept)) = self.coming.remove(&fetch) else { return };
        for range in ranges {
            if !is_kept {
                self.used_len += range.len;
                continue;
            }
            for byte in &mut self.bytes[places(range)] {
                assert_eq!(byte.coming.take(), Some(fetch));
                byte.held = true;
                self.used_len += u64::from(byte.read);
            }
        }
        self.machine.arrived(fetch);
    }

    fn fail(&mut self, fetch: FetchId) {
        let Some((ranges, is_kept)) = self.coming.remove(&fetch) else { return };
        for range in ranges.into_iter().filter(|_| is_kept) {
            self.bytes[places(range)].fill(Byte::default());
        }
        let mut actions = Vec::new();
        self.machine.failed(fetch, &mut actions);
        self.obey(actions);
    }

    fn check(&self) {
        self.machine.check();
        let accounts = self.machine.accounts();
        let in_memory = self.bytes.iter().filter(|byte| byte.held || byte.coming.is_some()).count() as u64;
        assert_eq!(in_memory, self.machine.memory_len());
        assert!(in_memory <= self.machine.cache_len());
        assert_eq!((accounts.used_len, accounts.lost_len), (self.used_len, self.lost_len));
        let risk = self.bytes.iter().filter(|byte| (byte.held || byte.coming.is_some()) && !byte.read).count() as u64;
        assert_eq!(accounts.risk_len, risk);
        let allowed = self.settings.waste_floor_len + self.used_len * u64::from(self.settings.waste_percent) / 100;
        assert!(risk + self.lost_len <= allowed, "{risk} + {} of {allowed}", self.lost_len);
    }
}

/// Some columns of some pieces, here and there overlapping, out of order or outside of the file.
fn some_layout(random: &mut Seeded, file_len: u64) -> Layout {
    let table = |random: &mut Seeded| {
        let entries = 1 + random.below(2000) as u64;
        let columns = (0..1 + random.below(12)).map(|number| {
            let count = random.below(200) as u64;
            let piece = |at: u64, random: &mut Seeded| Piece {
                first: if random.below(300) == 0 { random.next_u64() } else { at * entries / count.max(1) },
                offset: match random.below(200) {
                    0 => random.next_u64(),
                    1..20 => random.below(file_len as usize) as u64,
                    _ => (at * file_len / count.max(1)).saturating_add(number as u64 * file_len / 3000),
                },
                len: if random.below(200) == 0 { random.next_u64() as u32 } else { random.below(80) as u32 },
            };
            let pieces = (0..count).map(|at| piece(at, random)).collect();
            Column { name: number.to_string(), pieces }
        });
        let columns = columns.collect();
        Table { name: String::new(), entries, columns }
    };
    Layout { tables: (0..random.below(4)).map(|_| table(random)).collect() }
}

/// How one thread of a program reads.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Sequential(u64),
    Back(u64),
    Steps {
        step: u64,
        len: u64,
    },
    Anywhere,
    /// One byte of two: the most pieces that a cache can be cut in.
    EveryOther,
    /// Columns of a table, piece by piece; the second number is how many pieces are passed over.
    Columns(usize, usize),
    WhatWasDropped,
    WhatIsBehind,
    AllAtOnce,
}

struct Thread {
    habit: Habit,
    at: u64,
    waits: Vec<FetchId>,
}

fn some_habit(random: &mut Seeded) -> Habit {
    match random.below(10) {
        0 => Habit::Sequential(1 + random.below(600) as u64),
        1 => Habit::Back(1 + random.below(300) as u64),
        2 => Habit::Steps { step: 1 + random.below(1000) as u64, len: 1 + random.below(60) as u64 },
        3 => Habit::Anywhere,
        4 => Habit::EveryOther,
        5 | 6 => Habit::Columns(1 + random.below(6), random.below(3)),
        7 => Habit::WhatWasDropped,
        8 => Habit::WhatIsBehind,
        _ => Habit::AllAtOnce,
    }
}

impl Thread {
    fn next(&mut self, random: &mut Seeded, shell: &Shell, layout: &Layout) -> Span {
        let file_len = shell.bytes.len() as u64;
        self.at += 1;
        let at = self.at;
        let anywhere = random.below(shell.bytes.len() + 10) as u64;
        match self.habit {
            Habit::Sequential(len) => Span::new(at * len % file_len, len),
            Habit::Back(len) => Span::new(file_len.saturating_sub(at * len % file_len), len),
            Habit::Steps { step, len } => Span::new((at * step + random.below(3) as u64) % file_len, len),
            Habit::Anywhere => Span::new(anywhere, random.next_u64() >> (random.below(50) + 12)),
            Habit::EveryOther => Span::new(at * 2 % file_len, 1),
            Habit::Columns(columns, skip) => {
                let Some(table) = layout.tables.first() else { return Span::new(anywhere, 10) };
                let column = &table.columns[at as usize % columns.min(table.columns.len())];
                let piece = column.pieces.get(at as usize / columns * (skip + 1) % column.pieces.len().max(1));
                piece.map_or(Span::new(anywhere, 10), |piece| Span::new(piece.offset, piece.len.into()))
            }
            Habit::WhatWasDropped => shell.dropped.last().copied().unwrap_or(Span::new(anywhere, 100)),
            // Just what a plan has left out.
            Habit::WhatIsBehind => {
                let hole =
                    shell.bytes.iter().skip(anywhere as usize).position(|byte| !byte.held && byte.coming.is_none());
                Span::new(anywhere + hole.unwrap_or(0) as u64, 50)
            }
            Habit::AllAtOnce => Span::new(0, u64::MAX),
        }
    }
}

fn simulate(seed: u64) {
    let mut random = Seeded(seed);
    let file_len = 1 + random.below(12_000) as u64;
    let settings = Settings {
        cache_len: random.below(6000) as u64,
        cache_len_least: random.below(2) as u64 * 1000,
        learn_entries: random.below(200) as u64,
        learn_reads: random.below(20) as u32,
        waste_percent: random.below(40) as u32,
        waste_floor_len: random.below(4000) as u64,
        ranges_max: 1 + random.below(100),
    };
    let some_link = |random: &mut Seeded| Link {
        round_trip_us: random.next_u64() >> (20 + random.below(44)),
        bytes_per_s: random.next_u64() >> (20 + random.below(44)),
        ranges_per_request: random.below(70_000) as u32,
        takes_runs: random.below(2) == 0,
    };
    let link = some_link(&mut random);
    let layout = Arc::new(some_layout(&mut random, file_len));
    let mut profile = Profile::default();
    // Three runs on one file, each with what those before have learned.
    for run in 0..3 {
        let index = (random.below(4) > 0).then(|| Arc::new(Index::new(layout.clone(), file_len)));
        let known = (run > 0).then_some(&profile);
        let mut shell = Shell::new(settings, link, index, file_len, known);
        shell.check();
        let mut threads: Vec<Thread> = (0..1 + random.below(4))
            .map(|_| Thread { habit: some_habit(&mut random), at: random.below(100) as u64, waits: Vec::new() })
            .collect();
        for step in 0..300 {
            let chosen = random.below(threads.len());
            let thread = &mut threads[chosen];
            if random.below(60) == 0 {
                (thread.habit, thread.at) = (some_habit(&mut random), random.below(100) as u64);
            }
            if thread.waits.is_empty() {
                let span = thread.next(&mut random, &shell, &layout);
                thread.waits = shell.read(span);
            }
            if random.below(100) == 0 {
                shell.machine.link(some_link(&mut random));
            }
            // Answers come in any order; some never, others fail.
            for _ in 0..random.below(4) {
                let keys: Vec<FetchId> = shell.coming.keys().copied().collect();
                if keys.is_empty() {
                    break;
                }
                let fetch = keys[random.below(keys.len())];
                if random.below(20) == 0 {
                    shell.fail(fetch)
                } else {
                    shell.arrive(fetch)
                }
                threads.iter_mut().for_each(|thread| thread.waits.retain(|wait| *wait != fetch));
            }
            shell.machine.arrived(FetchId(random.next_u64()));
            if step % 7 == 0 {
                shell.check();
            }
        }
        shell.check();
        let observed = shell.machine.observed();
        profile = if random.below(2) == 0 { profile.after(&observed) } else { profile.merge(&observed) };
        assert_eq!(Profile::decode(&profile.encode()).as_ref(), Ok(&profile), "seed {seed}");
    }
}

/// `LEVADA_PREFETCH_SEED=172 LEVADA_PREFETCH_SEEDS=1` replays one; `LEVADA_PREFETCH_SEEDS=100000 cargo test --release
/// -p prefetch --test hostile` looks further.
#[test]
fn no_program_breaks_a_promise() {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}", self.0);
            }
        }
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let first = number("LEVADA_PREFETCH_SEED").unwrap_or(0);
    for seed in first..first + number("LEVADA_PREFETCH_SEEDS").unwrap_or(12) {
        let _seed = Seed(seed);
        simulate(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any reads of a file without a layout, all answered at once.
    #[test]
    fn any_reads_are_served(
        reads in prop::collection::vec((0u64..50_000, 0u64..5000), 1..80),
        cache_len in 0u64..40_000,
        waste_floor_len in 0u64..40_000,
    ) {
        let settings = Settings { cache_len, cache_len_least: 0, waste_floor_len, ..Settings::default() };
        let mut shell = Shell::new(settings, Link::default(), None, 48_000, None);
        for (offset, len) in reads {
            let waits = shell.read(Span::new(offset, len));
            waits.into_iter().for_each(|fetch| shell.arrive(fetch));
            shell.check();
        }
    }
}

/// Reads that follow no order: nothing is fetched ahead for ever, and what is fetched in vain stays small.
#[test]
fn random_reads_are_left_alone() {
    let mut random = Seeded(5);
    let file_len = 8 << 20;
    let settings = Settings { cache_len: 1 << 20, waste_floor_len: 256 << 10, ..Settings::default() };
    let mut shell = Shell::new(settings, Link::default(), None, file_len, None);
    for _ in 0..2000 {
        let waits = shell.read(Span::new(random.below(file_len as usize) as u64, 100));
        waits.into_iter().for_each(|fetch| shell.arrive(fetch));
    }
    shell.check();
    assert!(shell.fetched_ahead_len <= 10_000, "{}", shell.fetched_ahead_len);
}

/// 364,800 pieces, and a program that jumps between them: what a read costs does not grow with those before it. Reads
/// that looked at all pieces would be four billion steps.
#[test]
fn no_read_looks_at_all_pieces() {
    let file = talk::File::talk();
    let mut random = Seeded(7);
    let mut machine = Prefetcher::new(Settings::default(), talk::far(), file.len);
    let mut actions = Vec::new();
    machine.open(Some(file.index.clone()), None, &mut actions);
    for _ in 0..10_000 {
        let span = file.piece(random.below(talk::COLUMN_COUNT), random.below(talk::BASKET_COUNT));
        machine.read(span, &mut actions);
        for action in actions.drain(..) {
            if let Action::Fetch(fetch) = action {
                machine.arrived(fetch.id);
            }
        }
    }
    machine.check();
}
