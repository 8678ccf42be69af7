//! Several clients at random, against a simple model of what HDFS does; and damaged rows, which must never cause a
//! panic.
//!
//! Each run is replayed by its seed, which a failure prints. `LEVADA_SEED` runs that one, `LEVADA_RUNS` more of them.

mod model;

use model::{Model, Outcome};
use namespace::check::check as violations;
use namespace::read::{self, PageLimits, Summary};
use namespace::*;
use std::collections::BTreeMap;
use types::random::Seeded;
use types::rows::{MemoryRows, RowsMut};
use types::{BlockId, ContainerId, FileId, FsPath, Generation, Millis, Random};

const CLIENTS: [&str; 3] = ["c1", "c2", "c3"];
const OPS_PER_RUN: usize = 1500;
/// Blocks are full at this length.
const BLOCK_LEN: u64 = 100;

struct Run {
    random: Seeded,
    rows: MemoryRows,
    model: Model,
    now: u64,
    calls: i32,
    blocks: u32,
    /// Generations issued for recoveries and pipelines, most of them out of date.
    issued: Vec<(FileId, BlockId, Generation)>,
    /// Reserved for files that are put whole: ids, and the generation of their blocks.
    reserved: (std::ops::Range<u64>, Generation),
    tally: BTreeMap<(&'static str, String), usize>,
}

#[test]
fn clients_see_what_the_model_says() {
    let one: Option<u64> = std::env::var("LEVADA_SEED").ok().and_then(|seed| seed.parse().ok());
    let runs = std::env::var("LEVADA_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(14);
    let mut tally = BTreeMap::new();
    for seed in one.map_or(1..=runs, |seed| seed..=seed) {
        println!("LEVADA_SEED={seed}");
        for (key, count) in Run::new(seed).play() {
            *tally.entry(key).or_insert(0) += count;
        }
    }
    // A simulation that never gets anywhere proves nothing.
    for name in [
        "create",
        "append",
        "addBlock",
        "updatePipeline",
        "complete",
        "rename",
        "rename2",
        "delete",
        "putFile",
        "truncate",
    ] {
        let good = tally.iter().filter(|((op, outcome), _)| *op == name && !outcome.starts_with("refused"));
        assert!(
            good.map(|(_, count)| count).sum::<usize>() > 20 || one.is_some(),
            "{name} hardly ever succeeds: {tally:#?}"
        );
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            random: Seeded(seed),
            rows: MemoryRows::default(),
            model: Model::new(),
            now: 1000,
            calls: 0,
            blocks: 0,
            issued: Vec::new(),
            reserved: (0..0, Generation(0)),
            tally: BTreeMap::new(),
        };
        let format = Format { owner: "root".into(), group: "supergroup".into() };
        let request = Request { now: Millis(1000), caller: Caller::system(), retry: None, op: format.into() };
        apply(&mut run.rows, &request).unwrap().unwrap();
        run
    }

    fn play(mut self) -> BTreeMap<(&'static str, String), usize> {
        for step in 0..OPS_PER_RUN {
            self.now += self.random.below(3) as u64;
            let op = self.any_op();
            self.apply(step, op);
            if self.chance(100) {
                self.freeze(step);
            }
            if step % 50 == 0 {
                self.compare();
            }
        }
        self.compare();
        self.free_all();
        self.tally
    }

    fn apply(&mut self, step: usize, op: Op) {
        self.calls += 1;
        let retry = Some(RetryKey { client: [1; 16], call: self.calls });
        let request = Request { now: Millis(self.now), caller: Caller::system(), retry, op };
        let wanted = self.model.apply(self.now, &request.op);
        let mut staged = self.rows.clone();
        let applied = apply(&mut staged, &request).unwrap();
        if let Ok(applied) = &applied {
            model::effects::check(&self.rows, &staged, &request.op, &applied.effects);
        }
        let reply = applied.map(|applied| applied.reply);
        let have = Outcome::of(&reply);
        assert_eq!(have, wanted, "step {step}: {:?}\nanswered {reply:?}", request.op);
        *self.tally.entry((request.op.name(), have.kind())).or_default() += 1;
        let Ok(reply) = reply else { return };
        self.rows = staged;
        if let (Reply::Reserved { first, generation }, Op::Reserve(op)) = (&reply, &request.op) {
            self.reserved = (first.0..first.0 + u64::from(op.count), *generation);
        }
        if let Reply::Recovery(Recovery::Started { file, last, generation, .. })
        | Reply::Cutting { file, last, generation } = &reply
        {
            self.issued.push((*file, last.block, *generation));
        } else if request.op.is_at_most_once() && self.random.below(4) == 0 {
            let mut again = self.rows.clone();
            let repeated = Applied { reply: reply.clone(), effects: Effects::default() };
            assert_eq!(apply(&mut again, &request).unwrap(), Ok(repeated), "step {step}: a repeat of {request:?}");
            assert!(again == self.rows, "step {step}: a repeat changed rows: {request:?}");
        }
        if let (Reply::Generation(generation), Op::BumpGeneration(op)) = (&reply, &request.op) {
            self.issued.push((FileId::default(), op.block, *generation));
        }
    }

    /// Safe mode for a while: all that clients and the server itself would change is refused, and no row changes. What
    /// was answered before it is still answered.
    fn freeze(&mut self, step: usize) {
        self.rows = self.set_safe_mode(true);
        let frozen = self.rows.clone();
        for _ in 0..10 {
            let op = self.any_op();
            let request = Request { now: Millis(self.now), caller: Caller::system(), retry: None, op };
            let mut staged = self.rows.clone();
            let reply = apply(&mut staged, &request).unwrap();
            assert!(matches!(reply, Err(NsError::SafeMode(_))), "step {step}: {request:?}\nanswered {reply:?}");
            assert!(staged == frozen, "step {step}: {request:?} changed rows in safe mode");
        }
        self.rows = self.set_safe_mode(false);
        self.compare();
    }

    fn set_safe_mode(&self, on: bool) -> MemoryRows {
        let op = SetSafeMode { on }.into();
        let request = Request { now: Millis(self.now), caller: Caller::system(), retry: None, op };
        let mut rows = self.rows.clone();
        assert_eq!(apply(&mut rows, &request).unwrap().unwrap().reply, Reply::Bool(on));
        rows
    }

    /// Two names, three levels: so that calls meet each other.
    fn any_path(&mut self) -> FsPath {
        let depth = 1 + self.random.below(3);
        let names: Vec<&str> = (0..depth).map(|_| ["a", "b", "c"][self.random.below(3)]).collect();
        FsPath::parse(&format!("/{}", names.join("/"))).unwrap()
    }

    fn chance(&mut self, of: usize) -> bool {
        self.random.below(of) == 0
    }

    fn any_op(&mut self) -> Op {
        let path = match self.model.open_path(self.random.below(1000)) {
            Some(path) if !self.chance(3) => FsPath::parse(&path).unwrap(),
            _ => self.any_path(),
        };
        let holder = self.model.holder(&path);
        let client = match &holder {
            Some(holder) if !self.chance(8) => holder.clone(),
            _ => CLIENTS[self.random.below(3)].to_string(),
        };
        let takeover = holder.filter(|_| self.chance(4));
        let file = self.model.id(&path).filter(|_| self.chance(2)).map(types::InodeId);
        let last = self.model.last_blocks(&path);
        match self.random.below(29) {
            0 => Mkdirs { path: self.any_path(), mode: 0o755, unmasked: None, create_parent: self.chance(2) }.into(),
            1..=3 => Create {
                path: self.any_path(),
                client: CLIENTS[self.random.below(3)].into(),
                client_host: "h".into(),
                mode: 0o644,
                unmasked: None,
                create: !self.chance(10),
                overwrite: self.chance(2),
                create_parent: !self.chance(4),
                replication: 3,
                block_len: BLOCK_LEN,
                block_len_min: 1,
                takeover,
            }
            .into(),
            4..=5 => Append {
                path: self.any_path(),
                client: CLIENTS[self.random.below(3)].into(),
                client_host: "h".into(),
                new_block: self.chance(3),
                takeover,
            }
            .into(),
            6..=9 => {
                self.blocks += 1;
                let allocated = Allocated {
                    block: BlockId::new(ContainerId(1), self.blocks),
                    home: ContainerId(1 + self.random.below(3) as u64),
                };
                let previous = self.any_claim(&last);
                let add = AddBlock { path, client, file, previous, allocated };
                if self.chance(3) {
                    return AddLeased { add, generation: Generation(self.random.below(1040) as u64) }.into();
                }
                add.into()
            }
            10 => {
                let block = last.last().map_or(BlockId(7), |last| last.block);
                AbandonBlock { path, client, file, block }.into()
            }
            11 => BumpGeneration { block: last.last().map_or(BlockId(7), |last| last.block), client }.into(),
            12..=13 => {
                let (_, block, new) = self.any_issued();
                let len = self.model.len_of(block) + self.random.below(20) as u64;
                let home = self.chance(2).then(|| ContainerId(1 + self.random.below(3) as u64));
                let client = self.model.writer_of(block).filter(|_| !self.chance(5)).unwrap_or(client);
                UpdatePipeline { client, block, old: Generation(1), new, len, home }.into()
            }
            14..=15 => Complete { path, client, file, last: self.any_claim(&last), seen: self.chance(3) }.into(),
            16 => Fsync { path, client, file, last_len: Some(self.random.below(120) as u64) }.into(),
            17 => Rename { from: self.any_path(), to: self.any_path() }.into(),
            18 => Rename2 {
                from: self.any_path(),
                to: self.any_path(),
                overwrite: self.chance(2),
                to_trash: self.chance(2),
                examined: None,
                replaces: None,
            }
            .into(),
            19 => Delete { path: self.any_path(), recursive: self.chance(2), examined: None }.into(),
            20 => {
                let holder = self.chance(3).then_some(client);
                BeginRecovery { target: RecoveryTarget::Path(path), holder }.into()
            }
            21..=22 => {
                let (file, block, generation) = self.any_issued();
                let len = (!self.chance(4)).then(|| self.random.below(150) as u64);
                FinishRecovery { file, block, generation, len }.into()
            }
            23 if self.chance(2) => self.any_put(takeover),
            24 => {
                let lift = self.chance(3);
                let change = if lift { QuotaChange::Lift } else { QuotaChange::Set(u64::MAX) };
                SetQuota { path: self.any_path(), names: change, space: QuotaChange::Keep, of_type: None }.into()
            }
            26..=28 => {
                let client = CLIENTS[self.random.below(3)].into();
                let len = self.random.below(120) as u64;
                Truncate { path: self.any_path(), len, client, client_host: "h".into(), takeover }.into()
            }
            25 => SetReplication { path: self.any_path(), replication: 1 + self.random.below(4) as u16 }.into(),
            _ => Reap { inodes_max: 1 + self.random.below(4) as u32 }.into(),
        }
    }

    /// A whole file, empty now and then. Ids are used once, as the leader sees to it.
    fn any_put(&mut self, takeover: Option<String>) -> Op {
        let create = Create {
            path: self.any_path(),
            client: CLIENTS[self.random.below(3)].into(),
            client_host: "h".into(),
            mode: 0o644,
            unmasked: None,
            create: true,
            overwrite: self.chance(2),
            create_parent: !self.chance(4),
            replication: 3,
            block_len: BLOCK_LEN,
            block_len_min: 1,
            takeover,
        };
        if self.chance(5) {
            return PutFile { create, block: None }.into();
        }
        let Some(file) = self.reserved.0.next() else { return Reserve { count: 5 }.into() };
        self.blocks += 1;
        let block = PutBlock {
            file: types::InodeId(file),
            block: BlockId::new(ContainerId(1), self.blocks),
            generation: self.reserved.1,
            len: 1 + self.random.below(BLOCK_LEN as usize) as u64,
            home: ContainerId(1 + self.random.below(3) as u64),
        };
        PutFile { create, block: Some(block) }.into()
    }

    /// What a client might say of the last block: mostly right, sometimes of the block before, or nothing.
    fn any_claim(&mut self, last: &[BlockRef]) -> Option<BlockRef> {
        let wrong = self.chance(6);
        let place = if wrong { last.len().checked_sub(2)? } else { last.len().checked_sub(1)? };
        let mut claim = last[place];
        match self.random.below(10) {
            0 => return None,
            1 => claim.len = 0,
            2 => claim.generation.0 += 1,
            3 => {}
            // As HBase's writer, which goes on in one block.
            4 => claim.len = claim.len.max(BLOCK_LEN + 50),
            _ => claim.len = claim.len.max(BLOCK_LEN - self.random.below(2) as u64 * 30),
        }
        Some(claim)
    }

    fn any_issued(&mut self) -> (FileId, BlockId, Generation) {
        if self.issued.is_empty() {
            return (types::InodeId(1), BlockId(7), Generation(1));
        }
        // Late ones are more often of use.
        let back = self.random.below(self.issued.len().min(3));
        self.issued[self.issued.len() - 1 - back]
    }

    fn compare(&self) {
        assert_eq!(violations(&self.rows).unwrap(), []);
        let mut seen = Vec::new();
        self.list(&FsPath::root(), &mut seen);
        assert_eq!(seen, self.model.listing());
        let totals = Summary::start(&self.rows, &Caller::system(), &FsPath::root()).unwrap().unwrap();
        let totals = totals.clone().step(&self.rows, &Caller::system(), usize::MAX).unwrap().unwrap().unwrap();
        assert_eq!((totals.file_count, totals.directory_count - 1), self.model.counts());
    }

    /// Path, kind, length, times and blocks of all, read page by page.
    fn list(&self, path: &FsPath, seen: &mut Vec<String>) {
        let system = Caller::system();
        let mut after = Vec::new();
        loop {
            let limits = PageLimits { entries: 2, may_end: 2, blocks: Some(3) };
            let page = read::list(&self.rows, &system, path, &after, limits).unwrap().unwrap().unwrap();
            for entry in &page.entries {
                let child = path.join(std::str::from_utf8(&entry.status.name).unwrap()).unwrap();
                let mut shown = format!("{child} {} m{}", entry.status.len, entry.status.modified.0);
                if let Some(found) = &entry.blocks {
                    assert_eq!(**found, {
                        let mut same = read::located(&self.rows, &system, &child, 0, u64::MAX).unwrap().unwrap();
                        same.status.name.clear();
                        same
                    });
                    for block in &found.blocks {
                        shown += &format!(
                            " {}@{}+{}g{}c{}",
                            block.block, block.offset, block.len, block.generation.0, block.home.0
                        );
                    }
                    shown += &format!(" open={} readable={}", found.under_construction, found.file_len);
                }
                seen.push(shown);
                if entry.status.kind == Kind::Directory {
                    self.list(&child, seen);
                }
            }
            match page.entries.last() {
                Some(last) if page.remaining > 0 => after = last.status.name.clone(),
                last => {
                    assert!(last.is_some() || page.remaining == 0);
                    return;
                }
            }
        }
    }

    /// When all is deleted, freed and forgotten, nothing is left.
    fn free_all(&mut self) {
        for name in ["a", "b", "c"] {
            let path = FsPath::parse(&format!("/{name}")).unwrap();
            self.apply(OPS_PER_RUN, Delete { path, recursive: true, examined: None }.into());
        }
        while read::has_deleted_trees(&self.rows).unwrap() {
            self.apply(OPS_PER_RUN, Reap { inodes_max: 7 }.into());
            assert_eq!(violations(&self.rows).unwrap(), []);
        }
        let blocks = read::doomed_blocks(&self.rows, None, usize::MAX).unwrap();
        self.apply(OPS_PER_RUN, ForgetDoomed { blocks }.into());
        // Files whose replication changed are forgotten by the leader, after it looked.
        let small = [tables::RETRY, tables::RETRY_EXPIRY, tables::FRONT, tables::RESERVED, tables::RESIZED];
        let kept = self.rows.iter().filter(|(table, ..)| !small.contains(table));
        assert_eq!(kept.count(), 3, "root, its place, the counters");
    }
}

/// Rows with flipped, cut and lost bytes: every call answers, with an error if it must.
#[test]
fn damaged_rows_are_no_reason_to_panic() {
    let runs = std::env::var("LEVADA_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(40);
    namespace::damage::expect();
    for seed in 1..=runs {
        println!("LEVADA_SEED={seed}");
        let mut run = Run::new(seed);
        for step in 0..150 {
            let op = run.any_op();
            run.apply(step, op);
        }
        let rows: Vec<_> = run.rows.iter().map(|(table, key, value)| (table, key.to_vec(), value.to_vec())).collect();
        for _ in 0..1 + run.random.below(3) {
            let (table, key, mut value) = rows[run.random.below(rows.len())].clone();
            match run.random.below(4) {
                0 => run.rows.delete(table, &key),
                1 => {
                    value.truncate(run.random.below(value.len() + 1));
                    run.rows.put(table, &key, value);
                }
                2 => {
                    let (other, _, _) = rows[run.random.below(rows.len())].clone();
                    run.rows.put(other, &key, value);
                }
                _ if value.is_empty() => run.rows.put(table, &key[..key.len() - 1], value),
                _ => {
                    let at = run.random.below(value.len());
                    value[at] ^= 1 << run.random.below(8);
                    run.rows.put(table, &key, value);
                }
            }
        }
        let _ = violations(&run.rows);
        for _ in 0..100 {
            run.now += 1;
            let op = run.any_op();
            let path = run.any_path();
            let request = Request { now: Millis(run.now), caller: Caller::system(), retry: None, op };
            let mut staged = run.rows.clone();
            if apply(&mut staged, &request).is_ok_and(|reply| reply.is_ok()) {
                run.rows = staged;
            }
            let system = Caller::system();
            let _ = read::list(&run.rows, &system, &path, b"", PageLimits::new(true));
            let _ = read::located(&run.rows, &system, &path, 0, u64::MAX);
            let _ = read::open_files(&run.rows, FileId::default(), 10);
            let _ = read::lease_holders(&run.rows, "", 10);
            let _ = read::doomed_blocks(&run.rows, None, 10);
            if let Ok(Ok(mut summary)) = Summary::start(&run.rows, &system, &FsPath::root()) {
                let _ = summary.step(&run.rows, &system, 100_000);
            }
        }
    }
}
