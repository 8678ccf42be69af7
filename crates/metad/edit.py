import re,sys
def sub(p, *pairs):
    s=open(p).read()
    for a,b in pairs:
        if a not in s: print("MISSING in",p,":",a[:90].replace("\n","⏎")); continue
        s=s.replace(a,b)
    open(p,'w').write(s)

sub('core.rs',
('''/// Calls that look at many rows at the same time. A guess: enough that some may wait for a disk while others compute.
const WALK_COUNT_MAX: usize = 4;
''','''/// Calls that look at many rows at the same time. A guess: enough that some may wait for a disk while others compute.
const WALK_COUNT_MAX: usize = 4;
/// Calls that look at the rows of a path or a block at the same time: each has a thread that may wait for a disk. A guess: a disk
/// with a page in 10 ms brings 100 of them in a second, one with 64 at a time as many as it can.
const LOOK_COUNT_MAX: usize = 64;
/// As much for what this server does by itself and for datanodes, of which there may be a thousand at a time after a start.
const CHORE_COUNT_MAX: usize = 8;
'''),
('''    walks: tokio::sync::Semaphore,
''','''    walks: Arc<Semaphore>,
    /// One a call that looks at a few rows.
    looks: Arc<Semaphore>,
    /// One for each look at rows that no call waits for, or a datanode's.
    chores: Arc<Semaphore>,
'''),
('''            walks: tokio::sync::Semaphore::new(WALK_COUNT_MAX),
''','''            walks: Arc::new(Semaphore::new(WALK_COUNT_MAX)),
            looks: Arc::new(Semaphore::new(LOOK_COUNT_MAX)),
            chores: Arc::new(Semaphore::new(CHORE_COUNT_MAX)),
'''),
('''use tokio::sync::Notify;
''','''use tokio::sync::{Notify, Semaphore};
'''),
('''        let _turn = self.walks.acquire().await;
        if let Some(untaken) = &session.untaken {
            untaken.wait_for_less().await;
        }
        io::task::blocking(look).await
    }
''','''        let turn = turn_of(&self.walks).await;
        if let Some(untaken) = &session.untaken {
            untaken.wait_for_less().await;
        }
        aside(turn, look).await
    }

    /// Looks at a few rows, or uses what was found, on a thread that may wait for a disk. A page of the store that is not in memory
    /// holds up the thread that reads it: on the runtime's threads that would be the timers of Raft and all other calls.
    pub(crate) async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> T {
        aside(turn_of(&self.looks).await, look).await
    }

    /// As [`Core::look`], for what this server does by itself, and for datanodes.
    pub(crate) async fn chore<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> T {
        aside(turn_of(&self.chores).await, look).await
    }
'''),
('''    /// Reads rows as they are now. Keep it short.
    pub(crate) fn rows<T>(&self, run: impl FnOnce(&dyn Rows) -> Result<T, RowsError>) -> Result<T, Exception> {
        run(&self.machine.store().view()).map_err(refusal::rows)
    }

    /// As [`Core::rows`], for what may be refused.
    pub(crate) fn read<T>(&self, run: impl FnOnce(&dyn Rows) -> namespace::Answer<T>) -> Result<T, Exception> {
        self.rows(run)?.map_err(refusal::namespace)
    }
''','''    /// Reads rows as they are now, for a call; see [`Core::look`].
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Rows) -> Result<T, RowsError> + Send + 'static,
    ) -> Result<T, Exception> {
        let machine = Arc::clone(&self.machine);
        self.look(move || run(&machine.store().view())).await.map_err(refusal::rows)
    }

    /// As [`Core::rows`], for what may be refused.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Rows) -> namespace::Answer<T> + Send + 'static,
    ) -> Result<T, Exception> {
        self.rows(run).await?.map_err(refusal::namespace)
    }

    /// Reads rows as they are now, as a chore; see [`Core::chore`].
    pub(crate) async fn chore_rows<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn Rows) -> Result<T, RowsError> + Send + 'static,
    ) -> Result<T, RowsError> {
        let machine = Arc::clone(&self.machine);
        self.chore(move || run(&machine.store().view())).await
    }

    /// Reads rows on this thread, which may have to wait for a disk: only where that is well, or of a single row that all look at.
    pub(crate) fn rows_here<T>(&self, run: impl FnOnce(&dyn Rows) -> Result<T, RowsError>) -> Result<T, Exception> {
        run(&self.machine.store().view()).map_err(refusal::rows)
    }

    /// As [`Core::rows_here`], for what may be refused.
    pub(crate) fn read_here<T>(&self, run: impl FnOnce(&dyn Rows) -> namespace::Answer<T>) -> Result<T, Exception> {
        self.rows_here(run)?.map_err(refusal::namespace)
    }
'''),
('''        self.read(|rows| namespace::read::changeable(rows, cannot))
''','''        self.read_here(|rows| namespace::read::changeable(rows, cannot))
'''),
('''/// A path in a call that looks something up''','''/// Whose turn it is.
type Turn = Option<OwnedSemaphorePermit>;

async fn turn_of(turns: &Arc<Semaphore>) -> Turn {
    Arc::clone(turns).acquire_owned().await.ok() // they are never closed
}

/// The turn ends with the work, which goes on when nobody waits for it any more.
async fn aside<T: Send + 'static>(turn: Turn, work: impl FnOnce() -> T + Send + 'static) -> T {
    io::task::blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
}

/// A path in a call that looks something up'''),
)
sub('core.rs',('use tokio::sync::{Notify, Semaphore};','use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};'))

sub('removal.rs',
('''    let reader = Arc::clone(core);
    let empty = io::task::blocking(move || {
        let view = reader.machine.store().view();
        let looked = some.into_iter().map(|home| Ok(read::is_empty(&view, home)?.then_some(home)));
''','''    let empty = core.chore_rows(move |rows| {
        let looked = some.into_iter().map(|home| Ok(read::is_empty(rows, home)?.then_some(home)));
'''),
('core.rows(|rows| read::doomed_blocks','core.rows_here(|rows| read::doomed_blocks'))
sub('sealing.rs',
('''        let view = core.machine.store().view();
        let (files, next) = read::open_files(&view, from, PAGE_COUNT)?;
        for file in files {
            let Ok(path) = FsPath::parse(&file.path) else { continue };
            let located = read::located(&view, &namespace::Caller::system(), &path, u64::MAX, 0)?;
            if let Some(last) = located.ok().and_then(|file| file.last) {
                sealing.on_open(last.home);
            }
        }
        after = next;
''','''        let (homes, next) = core.chore_rows(move |rows| open_homes(rows, from)).await?;
        homes.into_iter().for_each(|home| sealing.on_open(home));
        after = next;
'''),
('''#[cfg(test)]
pub(crate) mod tests {''','''/// Containers of the last blocks of a page of open files, and where the next page begins.
fn open_homes(rows: &dyn Rows, from: InodeId) -> Result<(Vec<ContainerId>, Option<InodeId>), RowsError> {
    let (files, next) = read::open_files(rows, from, PAGE_COUNT)?;
    let mut homes = Vec::new();
    for file in files {
        let Ok(path) = FsPath::parse(&file.path) else { continue };
        let located = read::located(rows, &namespace::Caller::system(), &path, u64::MAX, 0)?;
        homes.extend(located.ok().and_then(|file| file.last).map(|last| last.home));
    }
    Ok((homes, next))
}

#[cfg(test)]
pub(crate) mod tests {'''))
sub('reaper.rs',
('''        feed(core).inspect_err''','''        feed(core).await.inspect_err'''),
('''        let more = {
            let view = core.machine.store().view();
            read::has_deleted_trees(&view)?
        };
        if !more {
''','''        if !core.chore_rows(read::has_deleted_trees).await? {
'''),
('''fn feed(core: &Core) -> ''','''async fn feed(core: &Core) -> '''),
('''        let page = {
            let view = core.machine.store().view();
            read::doomed_blocks(&view, after, PAGE_COUNT)?
        };
''','''        let page = core.chore_rows(move |rows| read::doomed_blocks(rows, after, PAGE_COUNT)).await?;
'''))
sub('repair/compare.rs',
('''pub(super) fn look_up(
    core: &Core,
    blocks: impl IntoIterator<Item = BlockId>,
) -> Result<Vec<(BlockId, Option<Expected>)>, RepairError> {
    let view = core.machine.store().view();
    let found = blocks.into_iter().map(|block| {
        let found = read::file_of_block(&view, block)?;
        Ok((block, found.map(|(_, view)| expected(&view))))
    });
    found.collect()
}''','''pub(super) async fn look_up(
    core: &Core,
    blocks: impl IntoIterator<Item = BlockId>,
) -> Result<Vec<(BlockId, Option<Expected>)>, RepairError> {
    let blocks: Vec<BlockId> = blocks.into_iter().collect();
    let found = core.chore_rows(move |rows| {
        let found = blocks.into_iter().map(|block| {
            let found = read::file_of_block(rows, block)?;
            Ok((block, found.map(|(_, view)| expected(&view))))
        });
        found.collect()
    });
    Ok(found.await?)
}'''),
('''        let reader = Arc::clone(core);
        let page =
            io::task::blocking(move || read::container_page(&reader.machine.store().view(), home, from, PAGE_COUNT));
        let page = page.await?;
''','''        let page = core.chore_rows(move |rows| read::container_page(rows, home, from, PAGE_COUNT)).await?;
'''))
sub('measuring.rs',
('''            io::task::blocking(move || read::container_page(&reader.machine.store().view(), home, place, PAGE_COUNT));
''','''            core.chore_rows(move |rows| read::container_page(rows, home, place, PAGE_COUNT));
'''))
sub('repair/contents.rs',
('''    let mut suspects = Vec::new();
    let mut contradictions_only = true;
    for (block, row) in rows {
        let view = read::file_of_block(&core.machine.store().view(), block)?.map(|(_, view)| view);
''','''    let mut suspects = Vec::new();
    let mut contradictions_only = true;
    let blocks: Vec<BlockId> = rows.keys().copied().collect();
    let views = core.chore_rows(move |rows| {
        let views = blocks.into_iter().map(|block| Ok(read::file_of_block(rows, block)?.map(|(_, view)| view)));
        views.collect::<Result<Vec<_>, types::rows::RowsError>>()
    });
    for ((block, row), view) in rows.into_iter().zip(views.await?) {
'''))
sub('repair/resize.rs',
('''    let files = {
        let view = core.machine.store().view();
        read::resized_files(&view, turn.after, FILE_COUNT)?
    };
''','''    let after = turn.after;
    let files = core.chore_rows(move |rows| read::resized_files(rows, after, FILE_COUNT)).await?;
'''),
('''        let found = {
            let view = core.machine.store().view();
            read::file_replicas(&view, file, from, PAGE_COUNT)?
        };
''','''        let found = core.chore_rows(move |rows| read::file_replicas(rows, file, from, PAGE_COUNT)).await?;
'''))
sub('recovery.rs',
('''            let files = {
                let view = core.machine.store().view();
                read::lease_files(&view, &holder, after, PAGE_COUNT)?
            };
''','''            let of_whom = holder.clone();
            let files = core.chore_rows(move |rows| read::lease_files(rows, &of_whom, after, PAGE_COUNT)).await?;
'''),
('''        let idle = {
            let view = core.machine.store().view();
            read::lease_files(&view, &holder, None, 1)?.is_empty()
        };
        if idle {
''','''        let of_whom = holder.clone();
        if core.chore_rows(move |rows| read::lease_files(rows, &of_whom, None, 1)).await?.is_empty() {
'''),
('''    let recorded = core.rows(|rows| Ok((read::cut_len(rows, last.block)?, read::block_len_max(rows, last.file)?)));
    let Ok(''','''    let BlockView { block, file, .. } = *last;
    let recorded = core.chore_rows(move |rows| Ok((read::cut_len(rows, block)?, read::block_len_max(rows, file)?)));
    let Ok('''),
(''') = recorded else {''',''') = recorded.await else {'''))
sub('repair/reported.rs',('core.rows(|rows| read::file_of_block(rows, block)) else','core.chore_rows(move |rows| read::file_of_block(rows, block)).await else'))
sub('repair/mod.rs',
('core.rows(read::visitors_listed).map_err(|error| RepairError::Refused(error.message))?','core.chore_rows(read::visitors_listed).await?'),
('    scrub::round(core);\n','    let its_core = Arc::clone(core);\n    core.chore(move || scrub::round(&its_core)).await;\n'))
sub('repair/scrub.rs',('core.rows(|rows| read::file_of_block(rows, block));','core.rows_here(|rows| read::file_of_block(rows, block));'),
('''pub(super) fn round(core: &Core) {''','''/// May wait for a disk.
pub(super) fn round(core: &Core) {'''))
s=open('nodes.rs').read()
s=s.replace('''    let core = Arc::clone(core);
    io::task::blocking(move || {
        let found = core.rows(|rows|''','''    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let found = core.rows_here(|rows|''')
s=s.replace('''    let core = Arc::clone(core);
    io::task::blocking(move || {
        for page in''','''    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        for page in''')
s=s.replace("let found = core.rows(|rows| look_up(rows, page))?;","let found = core.rows_here(|rows| look_up(rows, page))?;")
open('nodes.rs','w').write(s)
s=open('admin/placement.rs').read()
s=s.replace("= core.rows(|rows| match","= core.rows_here(|rows| match")
s=s.replace('''    let core = Arc::clone(core);
    io::task::blocking(move || {
        let known = Known::of''','''    let at = core;
    let core = Arc::clone(core);
    at.look(move || {
        let known = Known::of''')
open('admin/placement.rs','w').write(s)
sub('balancer.rs',
('''            let core = Arc::clone(core);
            let blocks = io::task::blocking(move || get_blocks(&core, &request)).await?;
''','''            let its_core = Arc::clone(core);
            let blocks = core.look(move || get_blocks(&its_core, &request)).await?;
'''),
('core.rows(|rows| container_page','core.rows_here(|rows| container_page'))
sub('own/add_leased.rs',
('''    let plan =
        core.read(|rows| read::plan_block(rows, &session.caller, &path, Some(file), &client, previous.as_ref()))?;
''','''    let plan = plan_block(core, session, &path, Some(file), &client, previous).await?;
'''),
('''previous.map(|previous| Growth::begin(core, previous.block)).transpose()?;''','''Growth::begin_of(core, previous.map(|previous| previous.block)).await?;'''),
('growth.end(core)?','growth.end(core).await?'))
sub('own/put_file.rs',
('silent_holder(core, &path)?','silent_holder(core, &path).await?'),
('repeated(core, session)?','repeated(core, session).await?'),
('fn repeated(core','async fn repeated(core'),
('''    let outcome = core.rows(|rows| read::outcome(rows, key, PUT_FILE, core.now()))?;
''','''    let now = core.now();
    let outcome = core.rows(move |rows| read::outcome(rows, key, PUT_FILE, now)).await?;
'''))
sub('client/growth.rs',
('''fn recorded(core: &Core, block: BlockId) -> Result<Option<BlockView>, Exception> {
    Ok(core.rows(|rows| read::file_of_block(rows, block))?.map(|(_, view)| view))
}''','''async fn recorded(core: &Core, block: BlockId) -> Result<Option<BlockView>, Exception> {
    Ok(core.rows(move |rows| read::file_of_block(rows, block)).await?.map(|(_, view)| view))
}'''),
('''    pub(crate) fn begin(core: &Core, block: BlockId) -> Result<Self, Exception> {
        Ok(Self { block, before: recorded(core, block)? })
    }
''','''    pub(crate) async fn begin(core: &Core, block: BlockId) -> Result<Self, Exception> {
        Ok(Self { block, before: recorded(core, block).await? })
    }

    /// As [`Growth::begin`], of a block that may not be named.
    pub(crate) async fn begin_of(core: &Core, block: Option<BlockId>) -> Result<Option<Self>, Exception> {
        match block {
            Some(block) => Self::begin(core, block).await.map(Some),
            None => Ok(None),
        }
    }
'''),
('pub(crate) fn end(self','pub(crate) async fn end(self'),
('let after = recorded(core, self.block)?;','let after = recorded(core, self.block).await?;'),
('Growth::begin(&core, last.block).unwrap()','Growth::begin(&core, last.block).await.unwrap()'),
('growth.end(&core).unwrap()','growth.end(&core).await.unwrap()'))
sub('client/writing.rs',
('silent_holder(core, &path)?','silent_holder(core, &path).await?'),
('pub(crate) fn silent_holder(','pub(crate) async fn silent_holder('),
('    let holder = core.rows(|rows| read::holder_of(rows, path))?;','    let path = path.clone();\n    let holder = core.rows(move |rows| read::holder_of(rows, &path)).await?;'),
('''    let plan = core.read(|rows| read::plan_block(rows, &session.caller, &path, file, &client, previous.as_ref()))?;
''','''    let plan = plan_block(core, session, &path, file, &client, previous).await?;
'''),
('''    let growth = previous.map(|previous| Growth::begin(core, previous.block)).transpose()?;''','''    let growth = Growth::begin_of(core, previous.map(|previous| previous.block)).await?;'''),
('''    let growth = last.map(|last| Growth::begin(core, last.block)).transpose()?;''','''    let growth = Growth::begin_of(core, last.map(|last| last.block)).await?;'''),
('''    let growth = writing.last.map(|last| Growth::begin(core, last.block)).transpose()?;''','''    let growth = Growth::begin_of(core, writing.last.map(|last| last.block)).await?;'''),
('''    let growth = Growth::begin(core, new.block)?;''','''    let growth = Growth::begin(core, new.block).await?;'''),
('''    growth.end(core)?;''','''    growth.end(core).await?;'''),
('growth.end(core)?\n','growth.end(core).await?\n'),
('''    growth.map(|growth| growth.end(core)).transpose()?;''','''    if let Some(growth) = growth {
        growth.end(core).await?;
    }'''),
('''    let writing = core.read(|rows| read::writing(rows, &session.caller, &path, file, &request.client_name))?;''','''    let writing = writing_of(core, session, &path, file, &request.client_name).await?;'''),
('''    let view = block_of_file(core, &request.block)?;''','''    let view = block_of_file(core, request.block.block()).await?;'''),
('''fn block_of_file(core: &Core, block: &ExtendedBlockProto) -> Result<BlockView, Exception> {
    let found = core.rows(|rows| read::file_of_block(rows, block.block()))?;
    found.map(|(_, view)| view).ok_or_else(|| Exception::io(format!("{} does not exist.", block.block())))
''','''async fn block_of_file(core: &Core, block: BlockId) -> Result<BlockView, Exception> {
    let found = core.rows(move |rows| read::file_of_block(rows, block)).await?;
    found.map(|(_, view)| view).ok_or_else(|| Exception::io(format!("{block} does not exist.")))
'''),
('''    let written = core.read(|rows| read::written_block(rows, old.block, &request.client_name))?;''','''    let client = request.client_name.clone();
    let written = core.read(move |rows| read::written_block(rows, old.block, &client)).await?;'''),
('''        core.read(|rows| read::writing(rows, &session.caller, &path, file, &request.client))?;
''','''        writing_of(core, session, &path, file, &request.client).await?;
'''),
('''    let writing = core.read(|rows| read::writing(rows, &session.caller, &path, file, &request.client))?;''','''    let writing = writing_of(core, session, &path, file, &request.client).await?;'''),
('''/// The file's last writer is being shut out; the client''','''/// What a new block of the file would be, if the client may have one.
pub(crate) async fn plan_block(
    core: &Core,
    session: &Session,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
    previous: Option<BlockRef>,
) -> Result<read::BlockPlan, Exception> {
    let (caller, path, client) = (session.caller.clone(), path.clone(), client.to_owned());
    core.read(move |rows| read::plan_block(rows, &caller, &path, file, &client, previous.as_ref())).await
}

/// The file as its writer has it, if the client is that.
async fn writing_of(
    core: &Core,
    session: &Session,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
) -> Result<read::Writing, Exception> {
    let (caller, path, client) = (session.caller.clone(), path.clone(), client.to_owned());
    core.read(move |rows| read::writing(rows, &caller, &path, file, &client)).await
}

/// The file's last writer is being shut out; the client'''))
sub('client/mod.rs',('pub(crate) use writing::{silent_holder, wait_for};','pub(crate) use writing::{plan_block, silent_holder, wait_for};'))
sub('own/add_leased.rs',)
C='let (caller, its_path) = (session.caller.clone(), path.clone());\n'
sub('client/reading.rs',
('plain_status(core, session, "getFileInfo", &request.src)?','plain_status(core, session, "getFileInfo", &request.src).await?'),
('plain_status(core, session, "getFileLinkInfo", &request.src)?','plain_status(core, session, "getFileLinkInfo", &request.src).await?'),
('fn plain_status(','async fn plain_status('),
('''    let status = core.read(|rows| read::status(rows, &session.caller, &path))?;
    Ok(status.map(''','''    let status = status_of(core, session, &path).await?;
    Ok(status.map('''),
('''    let Some(status) = core.read(|rows| read::status(rows, &session.caller, &path))? else { return Ok(nothing) };
    let locations''','''    let Some(status) = status_of(core, session, &path).await? else { return encode(nothing) };
    let locations'''),
('''    let Some(path) = find_path("getLocatedFileInfo", &src)? else { return Ok(nothing) };
''','''    let Some(path) = find_path("getLocatedFileInfo", &src)? else { return encode(nothing) };
'''),
('''    core: &Core,
    session: &Session,
    request: GetLocatedFileInfoRequestProto,
) -> Result<GetLocatedFileInfoResponseProto, Exception> {''','''    core: &Arc<Core>,
    session: &Session,
    request: GetLocatedFileInfoRequestProto,
) -> Result<Encoded, Exception> {'''),
('''    let locations = match status.kind {
        namespace::Kind::Directory => None,
        namespace::Kind::File => {
            let file = core.read(|rows| read::located(rows, &session.caller, &path, 0, u64::MAX))?;
            Some(draw(core, session, &file))
        }
    };
    Ok(GetLocatedFileInfoResponseProto { fs: Some(words::status(status, locations)) })
''','''    if status.kind == namespace::Kind::Directory {
        return encode(GetLocatedFileInfoResponseProto { fs: Some(words::status(status, None)) });
    }
    let file = located(core, session, &path, 0, u64::MAX).await?;
    draw(core, session, file, |locations| GetLocatedFileInfoResponseProto {
        fs: Some(words::status(status, Some(locations))),
    })
    .await
'''),
('''    let listing = core.read(|rows| read::list(''','''    let listing = core.read_here(|rows| read::list('''),
('''    let partial_listing = core.with_cluster(|cluster, random| {
        let entries = listing.entries.into_iter().map(|entry| {
            let blocks = entry.blocks.as_ref().map(|file| locator.located_blocks(cluster, random, file));
            words::status(entry.status, blocks)
        });
        entries.collect()
    });
    Ok(Some(DirectoryListingProto { partial_listing, remaining_entries: listing.remaining }))
''','''    let entries = listing.entries.into_iter().map(|entry| {
        let blocks = entry.blocks.as_ref().map(|file| locator.located_blocks(core, file));
        words::status(entry.status, blocks)
    });
    Ok(Some(DirectoryListingProto { partial_listing: entries.collect(), remaining_entries: listing.remaining }))
'''),
('''    request: GetBlockLocationsRequestProto,
) -> Result<GetBlockLocationsResponseProto, Exception> {''','''    request: GetBlockLocationsRequestProto,
) -> Result<Encoded, Exception> {'''),
('''    let file = core.read(|rows| read::located(rows, &session.caller, &path, request.offset, request.length))?;
    touch(core, &path, &file);
    Ok(GetBlockLocationsResponseProto { locations: Some(draw(core, session, &file)) })
}

fn draw(core: &Core, session: &Session, file: &FileBlocks) -> LocatedBlocksProto {
    let host = session.host();
    let locator = Locator::new(core, &host);
    core.with_cluster(|cluster, random| locator.located_blocks(cluster, random, file))
}
''','''    let file = located(core, session, &path, request.offset, request.length).await?;
    touch(core, &path, &file);
    draw(core, session, file, |locations| GetBlockLocationsResponseProto { locations: Some(locations) }).await
}

async fn status_of(core: &Core, session: &Session, path: &FsPath) -> Result<Option<namespace::Status>, Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::status(rows, &caller, &path)).await
}

async fn located(
    core: &Core,
    session: &Session,
    path: &FsPath,
    offset: u64,
    len: u64,
) -> Result<FileBlocks, Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::located(rows, &caller, &path, offset, len)).await
}

/// The answer with a file's blocks and their nodes. Of a long file that is tens of megabytes, so few are made at a time, and none on the
/// runtime's threads.
async fn draw<M: Message + Send + 'static>(
    core: &Arc<Core>,
    session: &Session,
    file: FileBlocks,
    answer: impl FnOnce(LocatedBlocksProto) -> M + Send + 'static,
) -> Result<Encoded, Exception> {
    let (its_core, host, count) = (Arc::clone(core), session.host(), file.blocks.len());
    let draw = move || encode(answer(Locator::new(&its_core, &host).located_blocks(&its_core, &file)));
    if count <= words::DRAWN_COUNT { draw() } else { core.walk(session, draw).await }
}

fn encode(answer: impl Message) -> Result<Encoded, Exception> {
    Ok(Encoded(answer.encode_to_vec().into()))
}
'''),
('''    let quota = core.read(|rows| read::quota(rows, &session.caller, &path))?;
    let is_file''','''    let (caller, its_path) = (session.caller.clone(), path.clone());
    let quota = core.read(move |rows| read::quota(rows, &caller, &its_path)).await?;
    let is_file'''),
('''    let mut summary = core.read(|rows| Summary::start(rows, &session.caller, path))?;
''','''    let (caller, path) = (session.caller.clone(), path.clone());
    let mut summary = core.read(move |rows| Summary::start(rows, &caller, &path)).await?;
'''),
('its_core.read(|rows| summary.step','its_core.read_here(|rows| summary.step'),
('''    match core.read(|rows| read::status(rows, &session.caller, &path))? {
        Some(status) if''','''    match status_of(core, session, &path).await? {
        Some(status) if'''),
('''    let result = core.read(|rows| read::is_closed(rows, &session.caller, &path))?;''','''    let caller = session.caller.clone();
    let result = core.read(move |rows| read::is_closed(rows, &caller, &path)).await?;'''),
('''    core.read(|rows| read::check_access(rows, &session.caller, &path, Access::from_bits(bits)))?;''','''    let caller = session.caller.clone();
    core.read(move |rows| read::check_access(rows, &caller, &path, Access::from_bits(bits))).await?;'''),
('use super::quotas;\n','use super::{Encoded, quotas};\n'),
('use std::sync::Arc;\n','use prost::Message;\nuse std::sync::Arc;\n'))
sub('client/mod.rs',
('''                    answer.map(|answer| Bytes::from(answer.encode_to_vec()))
''','''                    answer.map(Answer::into_bytes)
'''),
('''/// Each line: the method's name''','''/// What a method returns: a message, or the bytes of one that it has encoded elsewhere.
trait Answer {
    fn into_bytes(self) -> Bytes;
}

impl<M: Message> Answer for M {
    fn into_bytes(self) -> Bytes {
        self.encode_to_vec().into()
    }
}

#[derive(Debug)]
struct Encoded(Bytes);

impl Answer for Encoded {
    fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// Each line: the method's name'''))
sub('words.rs',
('''/// Draws blocks with their nodes, at one moment.
''','''/// Blocks whose nodes are looked up while the cluster is locked once: about a third of a millisecond.
pub(crate) const DRAWN_COUNT: usize = 100;

/// Draws blocks with their nodes, each as of one moment.
'''),
('''    pub(crate) fn located_blocks(
        &self,
        cluster: &Cluster,
        random: &mut OsRandom,
        file: &FileBlocks,
    ) -> LocatedBlocksProto {
        let mut draw = |view: &BlockView| self.for_reader(cluster, random, view);
        LocatedBlocksProto {
            file_length: file.file_len,
            blocks: file.blocks.iter().map(&mut draw).collect(),
            under_construction: file.under_construction,
            last_block: file.last.as_ref().map(draw),
''','''    /// Others may change the cluster in between.
    pub(crate) fn located_blocks(&self, core: &Core, file: &FileBlocks) -> LocatedBlocksProto {
        let mut blocks = Vec::with_capacity(file.blocks.len());
        for piece in file.blocks.chunks(DRAWN_COUNT) {
            core.with_cluster(|cluster, random| {
                blocks.extend(piece.iter().map(|view| self.for_reader(cluster, random, view)));
            });
        }
        let last = |view| core.with_cluster(|cluster, random| self.for_reader(cluster, random, view));
        LocatedBlocksProto {
            file_length: file.file_len,
            blocks,
            under_construction: file.under_construction,
            last_block: file.last.as_ref().map(last),
'''))
sub('client/reports.rs',
('''    core: &Core,
    session: &Session,
    request: ListCorruptFileBlocksRequestProto,''','''    core: &Arc<Core>,
    session: &Session,
    request: ListCorruptFileBlocksRequestProto,'''),
('''    let found = fsck::corrupt_files(core, &below, after, CORRUPT_COUNT_MAX)?;
''','''    let its_core = Arc::clone(core);
    let found = core.walk(session, move || fsck::corrupt_files(&its_core, &below, after, CORRUPT_COUNT_MAX)).await?;
'''),
('core.rows(|rows| read::open_files(rows, after, OPEN_FILE_COUNT_MAX))?','core.rows(move |rows| read::open_files(rows, after, OPEN_FILE_COUNT_MAX)).await?'))
s=open('client/policies.rs').read()
s=s.replace("fn existing(core","async fn existing(core").replace("fn may_change(core","async fn may_change(core")
s=s.replace('''    match core.read(|rows| read::status(rows, &session.caller, &path))? {
        Some(_) => Ok(path),''','''    let (caller, its_path) = (session.caller.clone(), path.clone());
    match core.read(move |rows| read::status(rows, &caller, &its_path)).await? {
        Some(_) => Ok(path),''')
s=s.replace('''    core.read(|rows| read::check_access(rows, &session.caller, path, Access::WRITE))
''','''    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::check_access(rows, &caller, &path, Access::WRITE)).await
''')
s=re.sub(r'(?<!fn )\b(existing|may_change)\((core, [^;{}]*?)\)\?', r'\1(\2).await?', s)
open('client/policies.rs','w').write(s)
s=open('client/absent.rs').read()
s=s.replace("fn status(core: &Core","async fn status(core: &Core")
s=s.replace("    core.read(|rows| read::status(rows, &session.caller, &path))\n","    let caller = session.caller.clone();\n    core.read(move |rows| read::status(rows, &caller, &path)).await\n")
s=re.sub(r'(?<!fn )\bstatus\((core, session, [^;{}]*?)\)\?', r'status(\1).await?', s)
open('client/absent.rs','w').write(s)
sub('client/changing.rs',
('''    let Some(mut removal) = core.read(|rows| Removal::start(rows, &session.caller, path))? else { return Ok(None) };
''','''    let (caller, path) = (session.caller.clone(), path.clone());
    let Some(mut removal) = core.read(move |rows| Removal::start(rows, &caller, &path)).await? else { return Ok(None) };
'''),
('its_core.read(|rows| removal.step','its_core.read_here(|rows| removal.step'))
sub('client/attributes.rs',
('''    let (status, acl) = core.read(|rows| read::acl(rows, &session.caller, &path))?;''','''    let caller = session.caller.clone();
    let (status, acl) = core.read(move |rows| read::acl(rows, &caller, &path)).await?;'''),
('''    let found = core.read(|rows| read::xattrs(rows, &session.caller, &path, &names))?;''','''    let caller = session.caller.clone();
    let found = core.read(move |rows| read::xattrs(rows, &caller, &path, &names)).await?;'''),
('''    let found = core.read(|rows| read::xattrs(rows, &session.caller, &path, &[]))?;''','''    let caller = session.caller.clone();
    let found = core.read(move |rows| read::xattrs(rows, &caller, &path, &[])).await?;'''))
sub('client/leases.rs',
('''    let holder = core.rows(|rows| read::holder_of(rows, &path))?;''','''    let its_path = path.clone();
    let holder = core.rows(move |rows| read::holder_of(rows, &its_path)).await?;'''),
('''        core.read(|rows| read::check_access(rows, &session.caller, &path, Access::WRITE))?;''','''        let caller = session.caller.clone();
        core.read(move |rows| read::check_access(rows, &caller, &path, Access::WRITE)).await?;'''))
sub('client/quotas.rs',
('''    let quota = core.read(|rows| read::quota(rows, &session.caller, &path))?;''','''    let (caller, its_path) = (session.caller.clone(), path.clone());
    let quota = core.read(move |rows| read::quota(rows, &caller, &its_path)).await?;'''))
sub('fsck/mod.rs',
('''/// Files of which some block has no sound replica: `blk_1`, and the path.
''','''/// Files of which some block has no sound replica: `blk_1`, and the path. May wait for a disk.
'''),
('let told = core.rows(|rows| match','let told = core.rows_here(|rows| match'),
('''self.say(self.about_block(name)?).await?;''','''let (core, name) = (Arc::clone(core), name.to_owned());
                let about = self.core.look(move || about_block(&core, &name)).await?;
                self.say(about).await?;'''),
('''        let Some(status) = core.read(|rows| read::status(rows, &session.caller, &path))? else {''','''        let (caller, its_path) = (session.caller.clone(), path.clone());
        let Some(status) = core.read(move |rows| read::status(rows, &caller, &its_path)).await? else {'''),
('''self.say(self.corrupt(&path, after)?).await?;''','''self.say(self.corrupt(&path, after).await?).await?;'''),
('core.read(|rows| read::list(rows, &caller','core.read_here(|rows| read::list(rows, &caller'),
('''    fn corrupt(&self, path: &FsPath, after: usize) -> Result<String, Exception> {
        let found = corrupt_files(&self.core, path, after, CORRUPT_COUNT_MAX)?;
''','''    async fn corrupt(&self, path: &FsPath, after: usize) -> Result<String, Exception> {
        let (core, below) = (Arc::clone(&self.core), path.clone());
        let found = self.core.look(move || corrupt_files(&core, &below, after, CORRUPT_COUNT_MAX)).await?;
'''))
s=open('fsck/mod.rs').read()
a=s.index("    fn about_block(&self, name: &str)"); e=s.index("\n}\n", a)
body=s[a:e]
rest=s[e+3:]
head=s[:a].rstrip()+"\n}\n\n"
body=body.replace("    fn about_block(&self, name: &str)","    /// May wait for a disk.\n    fn about_block(core: &Core, name: &str)").replace("&self.core","core").replace("self.core","core").replace("core.rows(","core.rows_here(").replace("core.read(","core.read_here(")
body="\n".join(l[4:] if l.startswith("    ") else l for l in body.split("\n"))
s=head+body+"\n"+rest
open('fsck/mod.rs','w').write(s)
s=open('repair/jobs.rs').read()
s=s.replace("/// Goes on with what is written down and not known here.\nfn take_up","/// Goes on with what is written down and not known here. May wait for a disk.\nfn take_up")
open('repair/jobs.rs','w').write(s)
