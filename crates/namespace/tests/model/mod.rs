//! What HDFS does, in the simplest words: a tree of maps, files with lists of blocks. It shares no code with the crate.

pub(crate) mod effects;

use namespace::*;
use std::collections::BTreeMap;
use types::{BlockId, ContainerId, FsPath, Generation};

/// An answer as far as both sides must agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome(String);

impl Outcome {
    pub(crate) fn of(reply: &Result<Reply, NsError>) -> Self {
        Self(match reply {
            Ok(Reply::Done) => "done".into(),
            Ok(Reply::Bool(answer)) => answer.to_string(),
            Ok(Reply::Status(status)) => format!("created {}", status.id.0),
            Ok(Reply::Append { last, status }) => format!(
                "append {:?} len {}",
                last.map(|last| (last.block, last.offset, last.len, last.complete)),
                status.len
            ),
            Ok(Reply::Block(block)) => format!("block {:?} {} g{}", block.block, block.offset, block.generation.0),
            Ok(Reply::Generation(generation)) => format!("generation {}", generation.0),
            Ok(Reply::Recovery(Recovery::Started { last, generation, .. })) => {
                format!("recovering {:?} g{}", last.block, generation.0)
            }
            Ok(Reply::Recovery(Recovery::Closed { .. })) => "closed".into(),
            Ok(Reply::Recovery(Recovery::NotHeld { .. })) => "not held".into(),
            Ok(Reply::Reaped { .. }) => "reaped".into(),
            Ok(Reply::Cutting { last, generation, .. }) => format!("cutting {:?} g{}", last.block, generation.0),
            Ok(Reply::Reserved { first, generation }) => format!("reserved {} g{}", first.0, generation.0),
            Err(error) => {
                let variant = format!("{error:?}");
                format!("refused {}", variant.split(['(', ' ']).next().unwrap())
            }
        })
    }

    /// First word, for tallies; of a refusal two.
    pub(crate) fn kind(&self) -> String {
        let words = if self.0.starts_with("refused") { 2 } else { 1 };
        self.0.split(' ').take(words).collect::<Vec<_>>().join(" ")
    }
}

type Answer = Result<String, &'static str>;

#[derive(Clone, Debug)]
enum Node {
    Directory { children: BTreeMap<String, Node>, modified: u64 },
    File(File),
}

#[derive(Clone, Debug)]
struct File {
    id: u64,
    modified: u64,
    blocks: Vec<Block>,
    open: Option<String>,
    recovery: Option<u64>,
}

#[derive(Clone, Debug)]
struct Block {
    id: BlockId,
    generation: u64,
    issued: u64,
    len: u64,
    home: ContainerId,
    complete: bool,
    /// Opened again by an append, and untouched.
    as_before: bool,
    instead_of: Option<BlockId>,
    /// It is being cut to this length.
    cut: Option<u64>,
}

pub(crate) struct Model {
    root: Node,
    next_inode: u64,
    next_generation: u64,
    now: u64,
}

const FULL: u64 = 100;

impl File {
    fn len(&self) -> u64 {
        self.blocks.iter().map(|block| block.len).sum()
    }

    fn commit(&mut self, claim: &BlockRef, len_max: u64) -> Result<(), &'static str> {
        let last = self.blocks.last_mut().unwrap();
        let generation = claim.generation.0;
        if last.complete {
            return if (generation, claim.len) == (last.generation, last.len) { Ok(()) } else { Err("Block") };
        }
        if !(last.generation..=last.issued).contains(&generation) || !(last.len..=len_max).contains(&claim.len) {
            return Err("Block");
        }
        if claim.len == 0 {
            self.blocks.pop();
            return Ok(());
        }
        last.len = claim.len;
        last.generation = generation;
        last.complete = true;
        Ok(())
    }

    fn close(&mut self, now: u64) {
        self.open = None;
        self.recovery = None;
        self.modified = now;
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        let root = Node::Directory { children: BTreeMap::new(), modified: 1000 };
        Self { root, next_inode: 16_386, next_generation: 1001, now: 0 }
    }

    pub(crate) fn apply(&mut self, now: u64, op: &Op) -> Outcome {
        self.now = now;
        // A refused call leaves no trace.
        let before = (self.root.clone(), self.next_inode, self.next_generation);
        let answer = self.run(op);
        if answer.is_err() {
            (self.root, self.next_inode, self.next_generation) = before;
        }
        Outcome(answer.unwrap_or_else(|error| format!("refused {error}")))
    }

    fn run(&mut self, op: &Op) -> Answer {
        match op {
            Op::Mkdirs(op) => self.mkdirs(op),
            Op::Create(op) => self.create(op),
            Op::PutFile(op) => self.put_file(op),
            Op::Reserve(op) => {
                let (first, generation) = (self.next_inode, self.next_generation);
                self.next_inode += u64::from(op.count);
                self.next_generation += 1;
                Ok(format!("reserved {first} g{generation}"))
            }
            Op::Append(op) => self.append(op),
            Op::Truncate(op) => self.truncate(op),
            Op::AddBlock(op) => self.add_block(op, None),
            Op::AddLeased(op) => {
                if op.generation.0 == 0 || op.generation.0 >= self.next_generation {
                    return Err("LeaseExpired");
                }
                let answer = self.add_block(&op.add, Some(op.generation.0))?;
                let wanted = format!("block {:?} ", op.add.allocated.block);
                if answer.starts_with(&wanted) { Ok(answer) } else { Err("Block") }
            }
            Op::AbandonBlock(op) => {
                let file = self.written(&op.path, op.file, &op.client)?;
                if file.blocks.last().is_some_and(|last| last.id == op.block && !last.complete) {
                    file.blocks.pop();
                }
                Ok("done".into())
            }
            Op::BumpGeneration(op) => {
                let generation = self.next_generation;
                let block = self.block_written(op.block, &op.client)?;
                block.issued = generation;
                block.as_before = false;
                self.next_generation += 1;
                Ok(format!("generation {generation}"))
            }
            Op::UpdatePipeline(op) => {
                let block = self.block_written(op.block, &op.client)?;
                let home = op.home.unwrap_or(block.home);
                if (op.new.0, op.len, home) == (block.generation, block.len, block.home) {
                    return Ok("done".into());
                }
                if op.new.0 <= block.generation || op.new.0 > block.issued || !(block.len..=FULL).contains(&op.len) {
                    return Err("Block");
                }
                (block.generation, block.len, block.home, block.as_before) = (op.new.0, op.len, home, false);
                Ok("done".into())
            }
            Op::Complete(op) => self.complete(op),
            Op::Fsync(op) => {
                let file = self.written(&op.path, op.file, &op.client)?;
                if let (Some(last), Some(len)) = (file.blocks.last_mut(), op.last_len)
                    && !last.complete
                    && len > last.len
                {
                    if len > FULL {
                        return Err("Block");
                    }
                    (last.len, last.as_before) = (len, false);
                }
                Ok("done".into())
            }
            Op::Rename(op) => self.rename(op),
            Op::Rename2(op) => self.rename2(op),
            Op::Delete(op) => {
                let Some(node) = self.find(&op.path, "ThroughFile")? else { return Ok("false".into()) };
                if !op.recursive && matches!(node, Node::Directory { children, .. } if !children.is_empty()) {
                    return Err("NotEmpty");
                }
                self.take(&op.path);
                Ok("true".into())
            }
            Op::BeginRecovery(op) => self.begin_recovery(op),
            Op::FinishRecovery(op) => self.finish_recovery(op),
            // The limits are far away: what this adds is that the counts agree.
            Op::SetQuota(op) => match self.find(&op.path, "ThroughFile") {
                Ok(Some(Node::Directory { .. })) => Ok("done".into()),
                Ok(Some(Node::File(_))) => Err("NotDirectory"),
                Ok(None) => Err("NotFound"),
                Err(in_the_way) => Err(in_the_way),
            },
            Op::SetReplication(op) => {
                self.find(&op.path, "ThroughFile").map(|node| matches!(node, Some(Node::File(_))).to_string())
            }
            Op::Reap(_) => Ok("reaped".into()),
            Op::ForgetDoomed(_) => Ok("done".into()),
            other => panic!("not modelled: {other:?}"),
        }
    }

    fn mkdirs(&mut self, op: &Mkdirs) -> Answer {
        match self.find(&op.path, "ParentNotDirectory")? {
            Some(Node::Directory { .. }) => return Ok("true".into()),
            Some(Node::File(_)) => return Err("AlreadyExists"),
            None => {}
        }
        self.make_way(&op.path, op.create_parent)?;
        self.next_inode += 1;
        self.put(&op.path, Node::Directory { children: BTreeMap::new(), modified: self.now });
        Ok("true".into())
    }

    fn create(&mut self, op: &Create) -> Answer {
        match self.find(&op.path, "ParentNotDirectory")? {
            Some(Node::Directory { .. }) => return Err("ExistsAsDirectory"),
            Some(Node::File(_)) if op.overwrite => {
                self.take(&op.path);
            }
            Some(Node::File(_)) => {
                if let Some(started) = self.meet(&op.path, &op.client, op.takeover.as_ref())? {
                    return Ok(started);
                }
                return Err("AlreadyExists");
            }
            None if !op.create_parent && self.parent_missing(&op.path) => return Err("NotFound"),
            None if !op.create => return Err("NotFound"),
            None => {}
        }
        self.make_way(&op.path, true)?;
        let id = self.next_inode;
        self.next_inode += 1;
        let open = Some(op.client.clone());
        self.put(&op.path, Node::File(File { id, modified: self.now, blocks: Vec::new(), open, recovery: None }));
        Ok(format!("created {id}"))
    }

    /// The three calls in a row. That ids are fresh, the simulation sees to.
    fn put_file(&mut self, op: &PutFile) -> Answer {
        let next_inode = self.next_inode;
        let answer = self.create(&op.create)?;
        if !answer.starts_with("created") {
            return Ok(answer);
        }
        let now = self.now;
        let file = self.file_at(&op.create.path).unwrap();
        file.close(now);
        let Some(put) = &op.block else { return Ok(answer) };
        file.id = put.file.0;
        file.blocks.push(Block {
            id: put.block,
            generation: put.generation.0,
            issued: put.generation.0,
            len: put.len,
            home: put.home,
            complete: true,
            as_before: false,
            instead_of: None,
            cut: None,
        });
        // Directories above took ids of their own, the file took none.
        self.next_inode = next_inode.max(self.next_inode - 1);
        Ok(format!("created {}", put.file.0))
    }

    fn append(&mut self, op: &Append) -> Answer {
        match self.find(&op.path, "ThroughFile")? {
            Some(Node::Directory { .. }) => return Err("ExistsAsDirectory"),
            Some(Node::File(_)) => {}
            None => return Err("NotFound"),
        }
        if let Some(started) = self.meet(&op.path, &op.client, op.takeover.as_ref())? {
            return Ok(started);
        }
        let file = self.file_at(&op.path).unwrap();
        file.open = Some(op.client.clone());
        let len = file.len();
        let mut shown = None;
        if let Some(last) = file.blocks.last_mut().filter(|last| last.len < FULL) {
            if !op.new_block {
                (last.complete, last.as_before) = (false, true);
            }
            shown = Some((last.id, len - last.len, last.len, last.complete));
        }
        Ok(format!("append {shown:?} len {len}"))
    }

    fn truncate(&mut self, op: &Truncate) -> Answer {
        match self.find(&op.path, "ThroughFile")? {
            Some(Node::File(_)) => {}
            Some(Node::Directory { .. }) => return Err("IsDirectory"),
            None => return Err("NotFound"),
        }
        let file = self.file_at(&op.path).unwrap();
        let len = file.len();
        if let Some((cut, last)) = file.blocks.last().and_then(|last| Some((last.cut?, last.len))) {
            return if len - last + cut == op.len { Ok("false".into()) } else { Err("AlreadyBeingCreated") };
        }
        if let Some(started) = self.meet(&op.path, &op.client, op.takeover.as_ref())? {
            return Ok(started);
        }
        let (now, generation) = (self.now, self.next_generation);
        let file = self.file_at(&op.path).unwrap();
        if len < op.len {
            return Err("Limit");
        }
        if len == op.len {
            return Ok("true".into());
        }
        file.modified = now;
        while let Some(last) = file.blocks.last()
            && file.len() - last.len >= op.len
        {
            file.blocks.pop();
        }
        let excess = file.len() - op.len;
        if excess == 0 {
            return Ok("true".into());
        }
        let last = file.blocks.last_mut().unwrap();
        (last.cut, last.complete, last.issued) = (Some(last.len - excess), false, generation);
        let id = last.id;
        file.open = Some(RECOVERY_HOLDER.into());
        file.recovery = Some(generation);
        self.next_generation += 1;
        Ok(format!("cutting {id:?} g{generation}"))
    }

    /// A file that may be open: closed, or an answer, or an error.
    fn meet(&mut self, path: &FsPath, client: &str, takeover: Option<&String>) -> Result<Option<String>, &'static str> {
        let file = self.file_at(path).unwrap();
        match &file.open {
            None => Ok(None),
            Some(holder) if holder == client => Err("AlreadyBeingCreated"),
            Some(_) if file.recovery.is_some() => Err("RecoveryInProgress"),
            Some(holder) if takeover == Some(holder) => {
                let started = self.recover(path);
                Ok((started != "closed").then_some(started))
            }
            Some(_) => Err("AlreadyBeingCreated"),
        }
    }

    fn recover(&mut self, path: &FsPath) -> String {
        let (now, generation) = (self.now, self.next_generation);
        let file = self.file_at(path).unwrap();
        match file.blocks.last_mut() {
            Some(last) if !last.complete => {
                last.issued = generation;
                let id = last.id;
                file.open = Some(RECOVERY_HOLDER.into());
                file.recovery = Some(generation);
                self.next_generation += 1;
                format!("recovering {id:?} g{generation}")
            }
            _ => {
                file.close(now);
                "closed".into()
            }
        }
    }

    fn begin_recovery(&mut self, op: &BeginRecovery) -> Answer {
        let RecoveryTarget::Path(path) = &op.target else { panic!("by path only") };
        match self.find(path, "ThroughFile")? {
            Some(Node::File(file)) => match &file.open {
                None => Ok("closed".into()),
                Some(holder) if op.holder.as_ref().is_some_and(|asked| asked != holder) => Ok("not held".into()),
                Some(_) => Ok(self.recover(path)),
            },
            Some(Node::Directory { .. }) => Err("IsDirectory"),
            None => Err("NotFound"),
        }
    }

    fn finish_recovery(&mut self, op: &FinishRecovery) -> Answer {
        let now = self.now;
        let Some(file) = self.file_by_id(op.file.0) else { return Err("NotFound") };
        let last = file.blocks.last_mut().filter(|last| last.id == op.block);
        match (last, file.recovery) {
            (Some(last), Some(recovery)) if recovery == op.generation.0 => {
                match op.len {
                    None | Some(0) if last.len > 0 => return Err("Block"),
                    None | Some(0) => {
                        file.blocks.pop();
                    }
                    Some(len) => {
                        (last.len, last.generation, last.issued, last.complete) = (len, recovery, recovery, true);
                        last.cut = None;
                    }
                }
                file.close(now);
                Ok("done".into())
            }
            (None, _) if file.open.is_none() => Ok("done".into()),
            (Some(last), _) if file.open.is_none() && last.generation == op.generation.0 => Ok("done".into()),
            _ => Err("Block"),
        }
    }

    fn add_block(&mut self, op: &AddBlock, leased: Option<u64>) -> Answer {
        let generation = leased.unwrap_or(self.next_generation);
        let file = self.written(&op.path, op.file, &op.client)?;
        let count = file.blocks.len();
        let mut instead_of = None;
        let fresh = match (file.blocks.last(), &op.previous) {
            (None, None) => true,
            (None, Some(_)) => return Err("Block"),
            (Some(last), Some(claim)) if last.id == claim.block => {
                let empty = !last.complete && claim.len == 0;
                instead_of = empty.then_some(last.id);
                file.commit(claim, FULL)?;
                true
            }
            (Some(last), None) if last.complete && last.len >= FULL => true,
            (Some(last), None) if count == 1 && last.len == 0 && !last.complete => false,
            (Some(_), None) => return Err("Block"),
            (Some(last), Some(claim)) => {
                let before = count >= 2
                    && file.blocks[count - 2].id == claim.block
                    && file.blocks[count - 2].generation == claim.generation.0;
                if !(before || last.instead_of == Some(claim.block)) || last.len > 0 || last.complete {
                    return Err("Block");
                }
                false
            }
        };
        if !fresh {
            let last = file.blocks.last().unwrap();
            let (id, generation) = (last.id, last.generation);
            return Ok(format!("block {id:?} {} g{generation}", file.len()));
        }
        let offset = file.len();
        let id = op.allocated.block;
        file.blocks.push(Block {
            id,
            generation,
            issued: generation,
            len: 0,
            home: op.allocated.home,
            complete: false,
            as_before: false,
            instead_of,
            cut: None,
        });
        self.next_generation += u64::from(leased.is_none());
        Ok(format!("block {id:?} {offset} g{generation}"))
    }

    fn complete(&mut self, op: &Complete) -> Answer {
        let now = self.now;
        if let Err(error) = self.written(&op.path, op.file, &op.client) {
            let Some(file) = self.addressed(&op.path, op.file)? else { return Err(error) };
            let last = file.blocks.last();
            let same = match (last, &op.last) {
                (None, None) => true,
                (Some(last), Some(claim)) => {
                    (last.id, last.generation, last.len) == (claim.block, claim.generation.0, claim.len)
                }
                _ => false,
            };
            return if file.open.is_none() && same { Ok("true".into()) } else { Err(error) };
        }
        let file = self.addressed(&op.path, op.file)?.unwrap();
        match (file.blocks.last_mut(), &op.last) {
            (Some(last), Some(claim)) if last.id == claim.block => {
                file.commit(claim, if op.seen { u64::MAX } else { FULL })?;
            }
            (_, Some(_)) => return Err("Block"),
            (Some(last), None) if !last.complete && last.as_before => last.complete = true,
            (Some(last), None) if !last.complete => return Ok("false".into()),
            _ => {}
        }
        file.close(now);
        Ok("true".into())
    }

    fn rename(&mut self, op: &Rename) -> Answer {
        let found = self.find(&op.from, "ThroughFile")?.is_some();
        let mut to = op.to.clone();
        if let Some(Node::Directory { .. }) = self.find(&to, "ParentNotDirectory")? {
            to = to.join(op.from.name()).unwrap();
        }
        let exists = self.find(&to, "ParentNotDirectory")?.is_some();
        if found && op.from == to {
            return Ok("true".into());
        }
        if !found || exists || to.is_below(&op.from) || self.parent_missing(&to) {
            return Ok("false".into());
        }
        let node = self.take(&op.from);
        self.put(&to, node);
        Ok("true".into())
    }

    fn rename2(&mut self, op: &Rename2) -> Answer {
        let source = self.find(&op.from, "ThroughFile")?.map(|node| matches!(node, Node::File(_)));
        let target = self.find(&op.to, "ParentNotDirectory")?.map(|node| match node {
            Node::File(_) => (true, true),
            Node::Directory { children, .. } => (false, children.is_empty()),
        });
        let Some(is_file) = source else { return Err("NotFound") };
        if op.from == op.to {
            return Err("AlreadyExists");
        }
        if op.to.is_below(&op.from) {
            return Err("Rename");
        }
        match target {
            None if self.parent_missing(&op.to) => return Err("NotFound"),
            None => {}
            Some((file, _)) if file != is_file => return Err("Rename"),
            Some(_) if !op.overwrite => return Err("AlreadyExists"),
            Some((_, false)) => return Err("Rename"),
            Some(_) => {
                self.take(&op.to);
            }
        }
        let node = self.take(&op.from);
        self.put(&op.to, node);
        Ok("done".into())
    }

    // Finding the way.

    fn at(&self, path: &FsPath) -> Option<&Node> {
        path.components().try_fold(&self.root, |node, name| match node {
            Node::Directory { children, .. } => children.get(name),
            Node::File(_) => None,
        })
    }

    /// Refused with `in_the_way` if there is a file above.
    fn find(&self, path: &FsPath, in_the_way: &'static str) -> Result<Option<&Node>, &'static str> {
        let mut above = path.parent();
        while let Some(parent) = above {
            if let Some(Node::File(_)) = self.at(&parent) {
                return Err(in_the_way);
            }
            above = parent.parent();
        }
        Ok(self.at(path))
    }

    fn parent_missing(&self, path: &FsPath) -> bool {
        path.parent().is_some_and(|parent| self.at(&parent).is_none())
    }

    fn at_mut(&mut self, path: &FsPath) -> Option<&mut Node> {
        path.components().try_fold(&mut self.root, |node, name| match node {
            Node::Directory { children, .. } => children.get_mut(name),
            Node::File(_) => None,
        })
    }

    fn file_at(&mut self, path: &FsPath) -> Option<&mut File> {
        match self.at_mut(path) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    fn children_of_parent(&mut self, path: &FsPath) -> &mut BTreeMap<String, Node> {
        let now = self.now;
        match self.at_mut(&path.parent().unwrap()) {
            Some(Node::Directory { children, modified }) => {
                *modified = now;
                children
            }
            _ => panic!("{path} has no parent"),
        }
    }

    fn take(&mut self, path: &FsPath) -> Node {
        self.children_of_parent(path).remove(path.name()).unwrap()
    }

    fn put(&mut self, path: &FsPath, node: Node) {
        assert!(self.children_of_parent(path).insert(path.name().into(), node).is_none());
    }

    fn make_way(&mut self, path: &FsPath, create_parent: bool) -> Result<(), &'static str> {
        let parent = path.parent().unwrap();
        if self.at(&parent).is_none() {
            if !create_parent {
                return Err("NotFound");
            }
            self.make_way(&parent, true)?;
            self.next_inode += 1;
            self.put(&parent, Node::Directory { children: BTreeMap::new(), modified: self.now });
        }
        Ok(())
    }

    fn files(&mut self) -> Vec<&mut File> {
        fn collect<'a>(node: &'a mut Node, files: &mut Vec<&'a mut File>) {
            match node {
                Node::File(file) => files.push(file),
                Node::Directory { children, .. } => children.values_mut().for_each(|child| collect(child, files)),
            }
        }
        let mut files = Vec::new();
        collect(&mut self.root, &mut files);
        files
    }

    fn file_by_id(&mut self, id: u64) -> Option<&mut File> {
        self.files().into_iter().find(|file| file.id == id)
    }

    /// By id if there is one, else by path.
    fn addressed(&mut self, path: &FsPath, id: Option<types::FileId>) -> Result<Option<&mut File>, &'static str> {
        match id {
            Some(id) => Ok(self.file_by_id(id.0)),
            None => {
                self.find(path, "ThroughFile")?;
                Ok(self.file_at(path))
            }
        }
    }

    fn written(&mut self, path: &FsPath, id: Option<types::FileId>, client: &str) -> Result<&mut File, &'static str> {
        let directory = matches!(self.at(path), Some(Node::Directory { .. }));
        match self.addressed(path, id)? {
            Some(file) if file.open.as_deref() == Some(client) && file.recovery.is_none() => Ok(file),
            Some(_) => Err("LeaseExpired"),
            None if directory && id.is_none() => Err("LeaseExpired"),
            None => Err("NotFound"),
        }
    }

    fn block_written(&mut self, id: BlockId, client: &str) -> Result<&mut Block, &'static str> {
        let file = self.files().into_iter().find(|file| file.blocks.iter().any(|block| block.id == id));
        match file {
            Some(file) if file.open.is_none() => Err("Block"),
            Some(file) if file.open.as_deref() != Some(client) || file.recovery.is_some() => Err("LeaseExpired"),
            Some(file) => file.blocks.last_mut().filter(|last| last.id == id && !last.complete).ok_or("Block"),
            None => Err("Block"),
        }
    }

    // What the simulation needs to know to make sensible calls.

    /// Path of one of the open files.
    pub(crate) fn open_path(&self, pick: usize) -> Option<String> {
        fn collect(node: &Node, path: String, found: &mut Vec<String>) {
            match node {
                Node::File(file) if file.open.is_some() => found.push(path),
                Node::File(_) => {}
                Node::Directory { children, .. } => {
                    children.iter().for_each(|(name, child)| collect(child, format!("{path}/{name}"), found));
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.root, String::new(), &mut found);
        (!found.is_empty()).then(|| found[pick % found.len()].clone())
    }

    fn peek(&self, path: &FsPath) -> Option<&File> {
        match self.at(path)? {
            Node::File(file) => Some(file),
            Node::Directory { .. } => None,
        }
    }

    pub(crate) fn holder(&self, path: &FsPath) -> Option<String> {
        self.peek(path)?.open.clone()
    }

    /// Of files only: the model does not number directories.
    pub(crate) fn id(&self, path: &FsPath) -> Option<u64> {
        Some(self.peek(path)?.id)
    }

    pub(crate) fn writer_of(&mut self, id: BlockId) -> Option<String> {
        let file = self.files().into_iter().find(|file| file.blocks.iter().any(|block| block.id == id));
        file.and_then(|file| file.open.clone())
    }

    pub(crate) fn len_of(&mut self, id: BlockId) -> u64 {
        let blocks = self.files().into_iter().flat_map(|file| &file.blocks);
        blocks.filter(|block| block.id == id).map(|block| block.len).sum()
    }

    pub(crate) fn last_blocks(&self, path: &FsPath) -> Vec<BlockRef> {
        let blocks = self.peek(path).map_or(&[][..], |file| &file.blocks);
        let shown = blocks.iter().map(|block| BlockRef {
            block: block.id,
            generation: Generation(block.generation),
            len: block.len,
        });
        shown.collect()
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        fn count(node: &Node) -> (u64, u64) {
            match node {
                Node::File(_) => (1, 0),
                Node::Directory { children, .. } => children
                    .values()
                    .map(count)
                    .fold((0, 1), |(files, directories), more| (files + more.0, directories + more.1)),
            }
        }
        let (files, directories) = count(&self.root);
        (files, directories - 1)
    }

    pub(crate) fn listing(&self) -> Vec<String> {
        fn show(node: &Node, path: &str, shown: &mut Vec<String>) {
            match node {
                Node::File(file) => shown.push(show_file(file, path)),
                Node::Directory { children, modified } => {
                    if !path.is_empty() {
                        shown.push(format!("{path} 0 m{modified}"));
                    }
                    children.iter().for_each(|(name, child)| show(child, &format!("{path}/{name}"), shown));
                }
            }
        }
        let mut shown = Vec::new();
        show(&self.root, "", &mut shown);
        shown
    }
}

fn show_file(file: &File, path: &str) -> String {
    let mut shown = format!("{path} {} m{}", file.len(), file.modified);
    let (mut offset, mut readable) = (0, 0);
    for block in &file.blocks {
        // A range from 0 reaches an empty block only if something stands before it.
        if block.len > 0 || offset > 0 {
            shown += &format!(" {}@{offset}+{}g{}c{}", block.id, block.len, block.generation, block.home.0);
        }
        offset += block.len;
        readable += if block.complete { block.len } else { 0 };
    }
    shown + &format!(" open={} readable={readable}", file.open.is_some())
}
