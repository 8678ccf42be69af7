//! A namespace in memory and the little language that stories about it are told in.
//!
//! ```text
//! alice mkdir /a 755 => true        who, what, arguments; behind the arrow what the answer contains
//! alice:w1 create /f                user alice, whose client is called w1 (w1 is the lease holder)
//! at 5000                           the clock
//! gone 2                            the block side has no container 2 any more
//! ```
//!
//! Users: `root` is the superuser, `alice` and `bob` are of the group staff, `carol` is of none. After every line the
//! rows must pass `namespace::check`, a refused request must leave no trace, and a second copy that applies the same
//! requests must hold the same rows.

use namespace::check::check as violations;
use namespace::read::{self, PageLimits, Summary};
use namespace::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use types::rows::{MemoryRows, Rows};
use types::{BlockId, ContainerId, FsPath, Generation, Millis};

/// Runs a story; each line with its answer is printed when the test fails.
pub(crate) fn check(story: &str) {
    let mut world = World::new();
    world.tell(story);
}

pub(crate) struct World {
    pub(crate) rows: MemoryRows,
    /// Applies every request once more.
    twin: MemoryRows,
    now: Millis,
    /// Blocks as the client knows them.
    blocks: BTreeMap<String, BlockRef>,
    next_block: u64,
    /// Containers that were removed.
    gone: BTreeSet<ContainerId>,
    /// Set for one line: the retry key.
    call: Option<RetryKey>,
    /// What followed from the change that was applied last.
    effects: Effects,
}

pub(crate) fn path(text: &str) -> FsPath {
    FsPath::parse(text).unwrap()
}

pub(crate) fn caller(user: &str) -> Caller {
    let groups = if matches!(user, "alice" | "bob") { vec!["staff".into()] } else { vec![] };
    Caller { user: user.into(), groups, groups_known: true, superuser: user == "root" }
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            rows: MemoryRows::default(),
            twin: MemoryRows::default(),
            now: Millis(1000),
            blocks: BTreeMap::new(),
            next_block: 1,
            gone: BTreeSet::new(),
            call: None,
            effects: Effects::default(),
        };
        world.apply(&caller("root"), Format { owner: "root".into(), group: "supergroup".into() }).unwrap();
        world
    }

    pub(crate) fn tell(&mut self, story: &str) {
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (command, wanted) = match line.split_once(" => ") {
                Some((command, wanted)) => (command, Some(wanted.trim())),
                None => (line, None),
            };
            let answer = self.run(command.trim());
            println!("{command} => {answer}");
            match wanted {
                Some("") | None => assert!(!answer.starts_with("refused"), "{line}\nanswered: {answer}"),
                Some(wanted) => assert!(answer.contains(wanted), "{line}\nanswered: {answer}"),
            }
            assert_eq!(violations(&self.rows).unwrap(), [], "after {line}");
        }
    }

    pub(crate) fn apply(&mut self, caller: &Caller, op: impl Into<Op>) -> Result<Reply, NsError> {
        let request = Request { now: self.now, caller: caller.clone(), retry: self.call, op: op.into() };
        // As it stands in the log.
        let bytes = types::encoding::encode(&request, Vec::new());
        let request: Request = types::encoding::decode(&bytes).unwrap();
        let mut staged = self.rows.clone();
        let gone = self.gone.clone();
        let is_there = move |_: &dyn Rows, home| Ok(!gone.contains(&home));
        let applied = apply_with(&mut staged, &request, &is_there).unwrap()?;
        self.rows = staged;
        assert_eq!(apply_with(&mut self.twin, &request, &is_there).unwrap().as_ref(), Ok(&applied));
        assert!(self.rows == self.twin, "two copies differ after {request:?}");
        self.effects = applied.effects;
        Ok(applied.reply)
    }

    fn run(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["at", now] = words[..] {
            self.now = Millis(now.parse().unwrap());
            return String::new();
        }
        if let ["gone", home] = words[..] {
            self.gone.insert(ContainerId(home.parse().unwrap()));
            return String::new();
        }
        // `retry 7 alice rename …`: the call with the number 7.
        if let ["retry", call, ..] = words[..] {
            self.call = Some(RetryKey { client: [9; 16], call: call.parse().unwrap() });
            let answer = self.run(&words[2..].join(" "));
            self.call = None;
            return answer;
        }
        let (user, client) = words[0].split_once(':').unwrap_or((words[0], words[0]));
        let who = caller(user);
        if let Some(denied) = self.examined(&who, &words) {
            return refused(&denied);
        }
        match self.request(&who, client, words[1], &words[2..]) {
            Some(op) => match self.apply(&who, op) {
                Ok(reply) => self.shown(reply, &words),
                Err(error) => refused(&error),
            },
            None => self.read(&who, client, words[1], &words[2..]),
        }
    }

    /// What the leader finds before it proposes the change.
    fn examined(&self, who: &Caller, words: &[&str]) -> Option<NsError> {
        let is_examined =
            matches!(words[1], "delete" | "rename2") && (words.contains(&"-r") || words.contains(&"trash"));
        removal(&self.rows, who, &path(words.get(2).filter(|_| is_examined)?)).err()
    }

    fn request(&mut self, who: &Caller, client: &str, verb: &str, args: &[&str]) -> Option<Op> {
        let has = |flag: &str| args.contains(&flag);
        let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str, default: u64| option(name).map_or(default, |text| text.parse().unwrap());
        let mode = |default: &str| u16::from_str_radix(option("mode").unwrap_or(default), 8).unwrap();
        let target = args.first().filter(|arg| arg.starts_with('/')).map(|arg| path(arg));
        let file = option("id").map(|file| types::InodeId(file.parse().unwrap()));
        let client = client.to_string();
        Some(match verb {
            "mkdir" => {
                let unmasked = option("unmasked").map(|mode| u16::from_str_radix(mode, 8).unwrap());
                Mkdirs { path: target?, mode: mode("755"), unmasked, create_parent: !has("noparent") }.into()
            }
            "concat" => {
                let sources = args[1..].iter().map(|source| path(source)).collect();
                Concat { target: target?, sources, remembers: Some(true) }.into()
            }
            // setfacl /p set=ENTRIES | modify=ENTRIES | remove=ENTRIES | nodefault | none
            "setfacl" => {
                let change = if let Some(spec) = option("set") {
                    AclChange::Replace(acl_entries(spec))
                } else if let Some(spec) = option("modify") {
                    AclChange::Modify(acl_entries(spec))
                } else if let Some(spec) = option("remove") {
                    AclChange::Remove(acl_entries(spec).into_iter().map(|entry| entry.key).collect())
                } else if has("nodefault") {
                    AclChange::RemoveDefault
                } else {
                    AclChange::RemoveAll
                };
                SetAcl { path: target?, change }.into()
            }
            // setfattr /p SPACE.NAME VALUE [create] [replace]
            "setfattr" => SetXattr {
                path: target?,
                attribute: Xattr { name: xattr_name(args[1]), value: args.get(2).unwrap_or(&"").as_bytes().into() },
                create: !has("replace"),
                replace: !has("create"),
            }
            .into(),
            "rmfattr" => RemoveXattr { path: target?, name: xattr_name(args[1]) }.into(),
            // put /f NAME len=N file=N g=N [as create]: NAME is new, or names a block that is known
            "create" | "put" => {
                let create = Create {
                    path: target?,
                    client,
                    client_host: "10.0.0.1".into(),
                    mode: mode("644"),
                    unmasked: option("unmasked").map(|mode| u16::from_str_radix(mode, 8).unwrap()),
                    create: !has("nocreate"),
                    overwrite: has("overwrite"),
                    create_parent: !has("noparent"),
                    replication: number("r", 3) as u16,
                    block_len: number("block", 100),
                    block_len_min: 10,
                    takeover: option("takeover").map(String::from),
                };
                match verb {
                    "create" => create.into(),
                    _ => PutFile { create, block: self.put_block(args) }.into(),
                }
            }
            "reserve" => Reserve { count: args[0].parse().unwrap() }.into(),
            "append" => Append {
                path: target?,
                client,
                client_host: "10.0.0.1".into(),
                new_block: has("new"),
                takeover: option("takeover").map(String::from),
            }
            .into(),
            "truncate" => Truncate {
                path: target?,
                len: args[1].parse().unwrap(),
                client,
                client_host: "10.0.0.1".into(),
                takeover: option("takeover").map(String::from),
            }
            .into(),
            // add /f NAME [PREVIOUS=LEN]
            "add" => {
                let block = BlockId::new(ContainerId(1), self.next_block as u32);
                self.next_block += 1;
                let previous = args.iter().skip(2).find_map(|arg| self.claim(arg));
                let allocated = Allocated { block, home: ContainerId(number("home", 1)) };
                let add = AddBlock { path: target?, client, file, previous, allocated };
                // g=N: written under a lease with that generation.
                match option("g") {
                    Some(leased) => AddLeased { add, generation: Generation(leased.parse().unwrap()) }.into(),
                    None => add.into(),
                }
            }
            "abandon" => AbandonBlock { path: target?, client, file, block: self.blocks[args[1]].block }.into(),
            "bump" => BumpGeneration { block: self.blocks[args[0]].block, client }.into(),
            // update NAME LEN GENERATION [home=N]
            "update" => {
                let (block, new) = (self.blocks[args[0]], Generation(args[2].parse().unwrap()));
                let home = option("home").map(|home| ContainerId(home.parse().unwrap()));
                let len = args[1].parse().unwrap();
                self.blocks.get_mut(args[0]).unwrap().generation = new;
                UpdatePipeline { client, block: block.block, old: block.generation, new, len, home }.into()
            }
            "complete" => {
                let last = args.get(1).and_then(|arg| self.claim(arg));
                Complete { path: target?, client, file, last, seen: has("seen") }.into()
            }
            "fsync" => {
                Fsync { path: target?, client, file, last_len: args.get(1).map(|len| len.parse().unwrap()) }.into()
            }
            "rename" => Rename { from: target?, to: path(args[1]) }.into(),
            "rename2" => {
                let (target, to_trash) = (target?, has("trash"));
                let examined = if to_trash { removal(&self.rows, who, &target).unwrap_or_default() } else { None };
                let replaces = args.iter().find_map(|arg| arg.strip_prefix("replaces="));
                let replaces = replaces.map(|seen| {
                    let seen = read::status(&self.rows, who, &path(seen)).unwrap().unwrap().unwrap();
                    FileVersion { file: seen.id, modified: seen.modified, len: seen.len }
                });
                Rename2 { from: target, to: path(args[1]), overwrite: has("overwrite"), to_trash, examined, replaces }
                    .into()
            }
            "delete" => {
                let (target, recursive) = (target?, has("-r"));
                // As the leader does it. What the examination refuses is told by `run`.
                let examined = if recursive { removal(&self.rows, who, &target).unwrap_or_default() } else { None };
                Delete { path: target, recursive, examined }.into()
            }
            "chmod" => SetPermission { path: target?, mode: u16::from_str_radix(args[1], 8).unwrap() }.into(),
            "chown" => {
                let (owner, group) = args[1].split_once(':').unwrap();
                let name = |text: &str| (!text.is_empty()).then(|| text.to_string());
                SetOwner { path: target?, owner: name(owner), group: name(group) }.into()
            }
            "touch" => SetTimes {
                path: target?,
                modified: option("m").map(|at| Millis(at.parse().unwrap())),
                accessed: option("a").map(|at| Millis(at.parse().unwrap())),
            }
            .into(),
            "was_read" => TouchAccessTime { path: target?, at: self.now }.into(),
            "setrep" => SetReplication { path: target?, replication: args[1].parse().unwrap() }.into(),
            "recover" => {
                let target = RecoveryTarget::Path(target?);
                BeginRecovery { target, holder: option("holder").map(String::from) }.into()
            }
            // finish /f NAME GENERATION LEN
            "finish" => FinishRecovery {
                file: read::status(&self.rows, who, &target?).unwrap().unwrap().unwrap().id,
                block: self.blocks[args[1]].block,
                generation: Generation(args[2].parse().unwrap()),
                len: args.get(3).map(|len| len.parse().unwrap()),
            }
            .into(),
            // setquota /d [names=N|none] [space=N|none] [type=NUMBER]
            "setquota" => {
                let change = |name: &str| match option(name) {
                    None => QuotaChange::Keep,
                    Some("none") => QuotaChange::Lift,
                    Some(limit) => QuotaChange::Set(limit.parse().unwrap()),
                };
                let of_type = option("type").map(|kind| StorageType::from_number(kind.parse().unwrap()).unwrap());
                SetQuota { path: target?, names: change("names"), space: change("space"), of_type }.into()
            }
            "safemode" => SetSafeMode { on: args[0] == "on" }.into(),
            "reap" => Reap { inodes_max: args[0].parse().unwrap() }.into(),
            "forget" => ForgetDoomed { blocks: read::doomed_blocks(&self.rows, None, 1000).unwrap() }.into(),
            _ => return None,
        })
    }

    /// `None` without a length: the file is empty.
    fn put_block(&mut self, args: &[&str]) -> Option<PutBlock> {
        let number = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let (len, file, generation) = (number("len")?, types::InodeId(number("file")?), Generation(number("g")?));
        let home = ContainerId(number("home").unwrap_or(1));
        let next = BlockId::new(ContainerId(1), self.next_block as u32);
        self.next_block += 1;
        let fresh = BlockRef { block: next, generation, len };
        let block = self.blocks.entry(args[1].into()).or_insert(fresh).block;
        Some(PutBlock { file, block, generation, len, home })
    }

    /// `NAME=LEN`, or `NAME=LEN@GENERATION`.
    fn claim(&self, text: &str) -> Option<BlockRef> {
        let (name, len) = text.split_once('=')?;
        let block = *self.blocks.get(name)?;
        let (len, generation) = match len.split_once('@') {
            Some((len, generation)) => (len, Generation(generation.parse().unwrap())),
            None => (len, block.generation),
        };
        Some(BlockRef { len: len.parse().unwrap(), generation, ..block })
    }

    fn shown(&mut self, reply: Reply, words: &[&str]) -> String {
        match reply {
            Reply::Done => "done".into(),
            Reply::Bool(answer) => answer.to_string(),
            Reply::Status(status) => shown_status(&status),
            Reply::Append { last, status } => {
                format!("last={} {}", self.shown_block(last.as_ref()), shown_status(&status))
            }
            Reply::Block(block) => {
                let BlockView { block: id, generation, len, .. } = block;
                let given = BlockRef { block: id, generation, len };
                if words[1] == "add" && self.blocks.values().all(|known| known.block != id) {
                    self.blocks.insert(words[3].into(), given);
                }
                self.shown_block(Some(&block))
            }
            Reply::Generation(generation) => generation.to_string(),
            Reply::Reserved { first, generation } => format!("from {} g{}", first.0, generation.0),
            Reply::Recovery(Recovery::Started { last, generation, .. }) => {
                format!("recovering {} at {generation}", self.shown_block(Some(&last)))
            }
            Reply::Recovery(Recovery::Closed { .. }) => "closed".into(),
            Reply::Recovery(Recovery::NotHeld { .. }) => "not held".into(),
            Reply::Cutting { last, generation, .. } => {
                format!("cutting {} at {generation}", self.shown_block(Some(&last)))
            }
            Reply::Reaped { more } => format!("more={more} {}", self.shown_doomed(&self.effects.doomed)),
        }
    }

    /// `name@offset+len`, with a `!` if it is under construction.
    fn shown_block(&self, block: Option<&BlockView>) -> String {
        let Some(block) = block else { return "none".into() };
        let open = if block.complete { "" } else { "!" };
        format!(
            "{}@{}+{}{open} g{} c{}",
            self.name_of(block.block),
            block.offset,
            block.len,
            block.generation.0,
            block.home.0
        )
    }

    fn shown_doomed(&self, doomed: &[DoomedBlock]) -> String {
        let names: Vec<_> = doomed
            .iter()
            .map(|doomed| format!("{}:g{}:c{}", self.name_of(doomed.block), doomed.generation.0, doomed.home.0))
            .collect();
        format!("[{}]", names.join(" "))
    }

    /// What the leader is told of the change before: of each block what it is about.
    fn shown_effects(&self) -> String {
        let Effects { has_doomed_tree, doomed, written, doubts, has_resized, left_safe_mode } = &self.effects;
        let mut shown = Vec::new();
        let flags = [(*has_doomed_tree, "tree"), (*has_resized, "resized"), (*left_safe_mode, "left safe mode")];
        shown.extend(flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).to_owned()));
        if !doomed.is_empty() {
            shown.push(format!("doomed {}", self.shown_doomed(doomed)));
        }
        for Written { block, home, len, grown } in written {
            shown.push(format!("written {}:c{} {len} +{grown}", self.name_of(*block), home.0));
        }
        for Doubt { block, home, cause } in doubts {
            shown.push(format!("{cause:?} {}:c{}", self.name_of(*block), home.0));
        }
        if shown.is_empty() { "nothing".into() } else { shown.join(", ") }
    }

    fn name_of(&self, block: BlockId) -> String {
        let known = self.blocks.iter().find(|(_, known)| known.block == block);
        known.map_or_else(|| block.to_string(), |(name, _)| name.clone())
    }

    /// Also `getfacl` and `getfattr`, which take the rest as names.
    fn read(&self, who: &Caller, client: &str, verb: &str, args: &[&str]) -> String {
        let rows = &self.rows;
        let target = args.first().map_or(FsPath::root(), |arg| path(arg));
        let number = |at: usize, default: u64| args.get(at).map_or(default, |text| text.parse().unwrap());
        match verb {
            "effects" => self.shown_effects(),
            "stat" => match read::status(rows, who, &target).unwrap() {
                Ok(status) => status.map_or("nothing".into(), |status| shown_status(&status)),
                Err(error) => refused(&error),
            },
            "id" => read::status(rows, who, &target).unwrap().unwrap().unwrap().id.0.to_string(),
            // ls /d [LIMIT] [AFTER]
            "ls" => {
                let entries = number(1, 1000) as usize;
                let limits = PageLimits { entries, may_end: entries, blocks: None };
                let after = args.get(2).unwrap_or(&"").as_bytes();
                match read::list(rows, who, &target, after, limits).unwrap() {
                    Ok(None) => "nothing".into(),
                    Ok(Some(listing)) => {
                        let mut shown = String::new();
                        for entry in &listing.entries {
                            write!(shown, "{} ", String::from_utf8_lossy(&entry.status.name)).unwrap();
                        }
                        format!("{shown}+{}", listing.remaining)
                    }
                    Err(error) => refused(&error),
                }
            }
            "getfacl" => match read::acl(rows, who, &target).unwrap() {
                Ok((status, entries)) => {
                    let entries: Vec<String> = entries.iter().map(shown_acl).collect();
                    format!("{:o} [{}]", status.mode, entries.join(" "))
                }
                Err(error) => refused(&error),
            },
            "getfattr" => {
                let names: Vec<XattrName> = args[1..].iter().map(|name| xattr_name(name)).collect();
                match read::xattrs(rows, who, &target, &names).unwrap() {
                    Ok(found) => {
                        let value = |xattr: &Xattr| String::from_utf8_lossy(&xattr.value).into_owned();
                        let found = found.iter().map(|xattr| format!("{}={}", xattr.name, value(xattr)));
                        format!("[{}]", found.collect::<Vec<_>>().join(" "))
                    }
                    Err(error) => refused(&error),
                }
            }
            // blocks /f OFFSET LEN
            "blocks" => match read::located(rows, who, &target, number(1, 0), number(2, u64::MAX)).unwrap() {
                Ok(found) => {
                    let blocks: Vec<_> = found.blocks.iter().map(|block| self.shown_block(Some(block))).collect();
                    let state = if found.under_construction { "open" } else { "closed" };
                    let last = found.last.map_or("none".into(), |last| self.name_of(last.block));
                    format!("{} bytes {state} last={last} {}: {blocks:?}", found.file_len, found.last_complete())
                }
                Err(error) => refused(&error),
            },
            "access" => match read::check_access(rows, who, &target, Access::from_bits(number(1, 0) as u8)).unwrap() {
                Ok(()) => "granted".into(),
                Err(error) => refused(&error),
            },
            "du" => match summary(rows, who, &target) {
                Ok(total) => {
                    format!(
                        "{} bytes {} files {} dirs {} space",
                        total.len, total.file_count, total.directory_count, total.space
                    )
                }
                Err(error) => refused(&error),
            },
            "quota" => match read::quota(rows, who, &target).unwrap() {
                Ok(Some(quota)) => {
                    let told = |limit: Option<u64>| limit.map_or("none".into(), |limit| limit.to_string());
                    let (limits, used) = (&quota.limits, quota.used);
                    format!(
                        "{} of {} names, {} of {} space",
                        used.names(),
                        told(limits.names),
                        used.space,
                        told(limits.space)
                    )
                }
                Ok(None) => "no quota".into(),
                Err(error) => refused(&error),
            },
            "is_closed" => match read::is_closed(rows, who, &target).unwrap() {
                Ok(closed) => closed.to_string(),
                Err(error) => refused(&error),
            },
            "holder" => match read::holder_of(rows, &target).unwrap() {
                Some(holder) => format!("{} {}", holder.holder, if holder.recovering { "recovering" } else { "" }),
                None => "nobody".into(),
            },
            "leases" => {
                let mut shown = String::new();
                for holder in read::lease_holders(rows, "", 100).unwrap() {
                    write!(shown, "{holder}:{} ", read::lease_files(rows, &holder, None, 100).unwrap().len()).unwrap();
                }
                format!("[{}]", shown.trim_end())
            }
            "open_files" => {
                let (files, _) = read::open_files(rows, types::InodeId(0), 100).unwrap();
                format!("{:?}", files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>())
            }
            "plan" => {
                let previous = args.get(1).and_then(|arg| self.claim(arg));
                match read::plan_block(rows, who, &target, None, client, previous.as_ref()).unwrap() {
                    Ok(plan) => {
                        format!("r={} existing={}", plan.replication, self.shown_block(plan.existing.as_ref()))
                    }
                    Err(error) => refused(&error),
                }
            }
            "doomed" => self.shown_doomed(&read::doomed_blocks(rows, None, 1000).unwrap()),
            "deleted_trees" => read::has_deleted_trees(rows).unwrap().to_string(),
            _ => panic!("no such verb: {verb}"),
        }
    }
}

fn summary(rows: &MemoryRows, who: &Caller, path: &FsPath) -> Result<read::Totals, NsError> {
    let mut summary = Summary::start(rows, who, path).unwrap()?;
    loop {
        // Two entries a step, so that every walk is taken up again.
        if let Some(totals) = summary.step(rows, who, 2).unwrap()? {
            return Ok(totals);
        }
    }
}

fn refused(error: &NsError) -> String {
    format!("refused {}", format!("{error:?}").replace('"', "'"))
}

fn shown_status(status: &Status) -> String {
    let Status { mode, owner, group, modified, .. } = status;
    let own = match status.kind {
        Kind::Directory => format!("children={}", status.child_count),
        Kind::File => format!("len={} r={}", status.len, status.replication),
    };
    let kind = if status.kind == Kind::File { "file" } else { "dir" };
    format!("{kind} {mode:o} {owner}:{group} {own} a={} m={}", status.accessed.0, modified.0)
}

impl World {
    /// The name may be given to another block.
    pub(crate) fn forget_block(&mut self, name: &str) {
        self.blocks.remove(name);
    }

    pub(crate) fn has_deleted_trees(&self) -> bool {
        read::has_deleted_trees(&self.rows).unwrap()
    }
}

/// `[default:]user:bob:rwx,…`; the rights may be left out.
fn acl_entries(text: &str) -> Vec<AclEntry> {
    let entry = |text: &str| {
        let (scope, text) = match text.strip_prefix("default:") {
            Some(text) => (AclScope::Default, text),
            None => (AclScope::Access, text),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let kind = match parts[0] {
            "user" => AclKind::User,
            "group" => AclKind::Group,
            "mask" => AclKind::Mask,
            _ => AclKind::Other,
        };
        let name = (!parts[1].is_empty()).then(|| parts[1].to_string());
        let access = parts.get(2).unwrap_or(&"").chars().map(|right| match right {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            _ => 0,
        });
        AclEntry { key: AclKey { scope, kind, name }, access: access.sum() }
    };
    text.split(',').map(entry).collect()
}

fn shown_acl(entry: &AclEntry) -> String {
    let AclKey { scope, kind, name } = &entry.key;
    let scope = if *scope == AclScope::Default { "default:" } else { "" };
    format!("{scope}{}:{}:{}", format!("{kind:?}").to_lowercase(), name.as_deref().unwrap_or(""), entry.access)
}

fn xattr_name(text: &str) -> XattrName {
    let (space, name) = text.split_once('.').unwrap();
    let space = ["user", "trusted", "security", "system", "raw"].iter().position(|known| *known == space).unwrap();
    XattrName { space: XattrSpace::from_number(space as u8).unwrap(), name: name.into() }
}

/// One entry a step.
pub(crate) fn removal(rows: &MemoryRows, who: &Caller, target: &FsPath) -> Result<Option<types::InodeId>, NsError> {
    let Some(mut removal) = read::Removal::start(rows, who, target).unwrap()? else { return Ok(None) };
    loop {
        if let Some(top) = removal.step(rows, who, 1).unwrap()? {
            return Ok(Some(top));
        }
    }
}
