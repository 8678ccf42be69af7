//! Files: what a writer may wish for, who else may write, and how files become longer and shorter.

use super::asks::*;
use super::{ANN, BEN, REPLICATION, ROOT, Users};
use crate::client::BLOCK_LEN;
use hdfs::exception::{
    ALREADY_BEING_CREATED, FILE_ALREADY_EXISTS, FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT, IO, LEASE_EXPIRED,
};
use hdfs::proto::*;
use prost::Message;
use std::time::Duration;
use types::{BlockId, Generation};

/// Longer than a writer may be silent before others may have its file, and shorter than until it is taken from it.
const SILENCE: Duration = Duration::from_secs(65);
const LOOK_EACH: Duration = Duration::from_secs(2);

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    wishes(users, home).await?;
    holders(users, home).await?;
    others(users, home).await?;
    blocks(users, home).await?;
    joined(users, home).await
}

/// What no file can be.
async fn wishes(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/file");
    let wish = |change: &dyn Fn(&mut CreateRequestProto)| {
        let mut request = creation(&file, "ann");
        change(&mut request);
        ask("create", request)
    };
    for name in [String::new(), "n".repeat(401), "levada-recovery".to_owned(), "a\0b".to_owned()] {
        let named = wish(&|request| request.client_name.clone_from(&name));
        users.may_not(ANN, named, HADOOP_ILLEGAL_ARGUMENT, "can not be the name of a client").await?;
    }
    users.may_not(ANN, wish(&|request| request.replication = 0), IO, "less than the required").await?;
    users.may_not(ANN, wish(&|request| request.replication = 70_000), IO, "exceeds maximum").await?;
    users.may_not(ANN, wish(&|request| request.block_size = 0), IO, "min-block-size").await?;
    let long = wish(&|request| request.block_size = 1 << 60);
    users.may_not(ANN, long, HADOOP_ILLEGAL_ARGUMENT, "is too large").await?;
    users.has_gone(&file).await
}

/// One client writes a file at a time.
async fn holders(users: &Users, home: &str) -> Option<()> {
    let (file, other) = (format!("{home}/open"), "another");
    let holder = users.open(ANN, &file).await?;
    users.says(ANN, is_file_closed(&file), false).await?;
    for ask in [create(&file, other), append(&file, other), truncate(&file, other, 0)] {
        // Of a silent one others may take it.
        users.may(ANN, renew_lease(&holder)).await?;
        users.may_not(ANN, ask, ALREADY_BEING_CREATED, "is currently owned by").await?;
    }
    for ask in [create(&file, &holder), append(&file, &holder), truncate(&file, &holder, 0)] {
        users.may_not(ANN, ask, ALREADY_BEING_CREATED, "already the current lease holder").await?;
    }
    users.may_not(BEN, recover_lease(&file), hdfs::exception::ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(ANN, complete(&file, other), LEASE_EXPIRED, "is not the lease owner").await?;
    users.may_not(ANN, add_block(&file, other, None), LEASE_EXPIRED, "is not the lease owner").await?;
    let nobodys = named(1 << 40, 1, 1);
    users.may_not(ANN, add_block(&file, &holder, Some(nobodys.clone())), IO, "does not match actual last").await?;
    let last = Some(nobodys.clone());
    let request = CompleteRequestProto { src: file.clone(), client_name: holder.clone(), last, file_id: None };
    users.may_not(ANN, ask("complete", request), IO, "does not match actual last block").await?;
    users.may_not(ANN, bump(nobodys, &holder), IO, "does not exist").await?;
    users.says(ANN, recover_lease(&file), true).await?;
    users.says(ANN, is_file_closed(&file), true).await?;
    users.may_not(ANN, add_block(&file, &holder, None), LEASE_EXPIRED, "is not open for writing").await?;
    users.says(ANN, recover_lease(&file), true).await?;
    // Closed as this writer saw it.
    users.says(ANN, complete(&file, &holder), true).await?;
    let holder = format!("{holder} again");
    users.may(ANN, append(&file, &holder)).await?;
    users.says(ANN, complete(&file, &holder), true).await
}

/// Calls about what is no file, or not there.
async fn others(users: &Users, home: &str) -> Option<()> {
    let (dir, nothing) = (format!("{home}/dir"), format!("{home}/nothing"));
    users.may(ANN, mkdirs(&dir, 0o755)).await?;
    users.may_not(ANN, append(&dir, "ann"), FILE_ALREADY_EXISTS, "Cannot append to directory").await?;
    users.may_not(ANN, append(&nothing, "ann"), FILE_NOT_FOUND, "non-existent").await?;
    users.may_not(ANN, truncate(&dir, "ann", 0), FILE_NOT_FOUND, "is not a file").await?;
    users.may_not(ANN, truncate(&nothing, "ann", 0), FILE_NOT_FOUND, "does not exist").await?;
    users.may_not(ANN, complete(&nothing, "nobody"), FILE_NOT_FOUND, "does not have any open files").await?;
    users.may_not(ANN, complete(&dir, "nobody"), LEASE_EXPIRED, "not a regular file").await?;
    users.may_not(ANN, complete(&nothing, &"n".repeat(401)), FILE_NOT_FOUND, "does not exist").await?;
    let open = format!("{home}/other");
    let holder = users.open(ANN, &open).await?;
    users.may_not(ANN, complete(&nothing, &holder), FILE_NOT_FOUND, "pending creates: 1").await?;
    users.says(ANN, complete(&open, &holder), true).await
}

fn named(block: u64, generation: u64, len: u64) -> ExtendedBlockProto {
    ExtendedBlockProto::of("", BlockId(block), Generation(generation), len)
}

fn add_block(src: &str, holder: &str, previous: Option<ExtendedBlockProto>) -> Ask {
    let (src, client_name) = (src.to_owned(), holder.to_owned());
    ask("addBlock", AddBlockRequestProto { src, client_name, previous, ..AddBlockRequestProto::default() })
}

/// Blocks that are asked for, given up, and written by nobody.
async fn blocks(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/blocks");
    let (holder, block) = begin_block(users, &file).await?;
    let named = |generation: u64, len: u64| named(block.block_id, generation, len);
    let generation = block.generation_stamp;
    let again: AddBlockResponseProto = users.get(ANN, add_block(&file, &holder, None)).await?;
    users.is_equal(ANN, &add_block(&file, &holder, None), &again.block.b.block_id, &block.block_id)?;
    let other = self::named(1 << 40, 1, 1);
    users.may_not(ANN, add_block(&file, &holder, Some(other)), IO, "does not match actual last").await?;
    let fsync = |len: i64| {
        let (src, client, last_block_length) = (file.clone(), holder.clone(), Some(len));
        ask("fsync", FsyncRequestProto { src, client, last_block_length, file_id: None })
    };
    users.may_not(ANN, fsync(BLOCK_LEN as i64 + 1), IO, "whose blocks have at most").await?;
    users.says(ANN, complete(&file, &holder), false).await?;
    for (claim, told) in [(named(1 << 40, 0), "mismatching GS"), (named(generation, 1 << 50), "")] {
        users.may_not(ANN, add_block(&file, &holder, Some(claim)), IO, told).await?;
    }
    let update = |generation: u64, len: u64| {
        let (old_block, new_block) = (block.clone(), named(generation, len));
        let client_name = holder.clone();
        ask("updatePipeline", UpdatePipelineRequestProto { client_name, old_block, new_block, ..Default::default() })
    };
    users.may(ANN, update(generation, 0)).await?;
    users.may_not(ANN, update(1 << 40, 0), IO, "never issued").await?;
    if users.one_in(2) {
        // It is gone, since nothing is in it.
        let (src, client_name, last) = (file.clone(), holder.clone(), Some(named(generation, 0)));
        let close = ask("complete", CompleteRequestProto { src, client_name, last, file_id: None });
        return users.says(ANN, close, true).await;
    }
    // What is said to be written counts, until the block is given up.
    let written = 1 + users.below(BLOCK_LEN) as u64;
    users.may(ANN, fsync(written as i64)).await?;
    users.may(ANN, fsync(1)).await?;
    let found = users.status(ANN, &file).await?.length;
    users.is_equal(ANN, &get_file_info(&file), found, written)?;
    let (src, of, file_id) = (file.clone(), holder.clone(), None);
    let abandon = AbandonBlockRequestProto { b: block.clone(), src, holder: of, file_id };
    users.may(ANN, ask("abandonBlock", abandon.clone())).await?;
    users.may(ANN, ask("abandonBlock", abandon)).await?;
    users.may_not(ANN, bump(block, &holder), IO, "does not exist").await?;
    users.says(ANN, complete(&file, &holder), true).await
}

/// A file of ANN's that is open, its holder, and its first block, if there are nodes for it.
async fn begin_block(users: &Users, file: &str) -> Option<(String, ExtendedBlockProto)> {
    let holder = users.open(ANN, file).await?;
    let added = users.call(ANN, &add_block(file, &holder, None)).await?.ok()?;
    let added = AddBlockResponseProto::decode(added).expect("a server's answer can be read");
    Some((holder, added.block.b))
}

fn bump(block: ExtendedBlockProto, holder: &str) -> Ask {
    ask("updateBlockForPipeline", UpdateBlockForPipelineRequestProto { block, client_name: holder.to_owned() })
}

/// A writer that is silent for long loses its file to the next one, whatever that wants of it.
pub(super) async fn silent(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/silent");
    begin_block(users, &file).await?;
    users.client.sim.sleep(SILENCE).await;
    let other = format!("{} too", users.story_count.get());
    let wish = match users.below(3) {
        0 => create(&file, &other),
        1 => append(&file, &other),
        _ => truncate(&file, &other, 0),
    };
    let until = users.client.sim.now() + SILENCE;
    while users.client.sim.now() < until {
        // It must wait for the end of a recovery, and what it is told then depends on how long that takes.
        let _told = users.call(ANN, &wish).await?;
        let DeleteResponseProto { result } = users.get(ANN, is_file_closed(&file)).await?;
        if result || users.call(ANN, &complete(&file, &other)).await?.is_ok() {
            return users.says(ANN, is_file_closed(&file), true).await;
        }
        users.client.sim.sleep(LOOK_EACH).await;
    }
    Some(())
}

/// Files become one, and shorter.
async fn joined(users: &Users, home: &str) -> Option<()> {
    let [target, source, empty, far] = ["target", "source", "empty", "dir/far"].map(|name| format!("{home}/{name}"));
    let (first, second) = (1 + users.below(90), 1 + users.below(90));
    let put = [(&target, first), (&source, second), (&far, 1)];
    for (path, len) in put {
        users.put(path, len).await??;
    }
    users.write(ROOT, &empty).await?;
    let large = format!("{home}/large");
    let request = CreateRequestProto { block_size: 2 * BLOCK_LEN as u64, ..creation(&large, "root") };
    users.may(ROOT, ask("create", request)).await?;
    let illegal = HADOOP_ILLEGAL_ARGUMENT;
    users.may_not(ROOT, concat(&target, &[]), illegal, "No sources").await?;
    users.may_not(ROOT, concat(&target, &[&source, &source]), illegal, "are the same").await?;
    users.may_not(ROOT, concat(&target, &[&target]), illegal, "is the same with").await?;
    users.may_not(ROOT, concat(&target, &[&far]), illegal, "not in the same directory").await?;
    users.may_not(ROOT, concat(&target, &[&empty]), illegal, "invalid or empty").await?;
    users.may_not(ROOT, concat(&target, &[&large]), illegal, "invalid or empty or under").await?;
    users.may_not(ROOT, concat(&large, &[&source]), illegal, "under construction").await?;
    users.may_not(ROOT, concat(home, &[&source]), FILE_NOT_FOUND, "is not a file").await?;
    users.may_not(ROOT, concat(&target, &[&format!("{home}/nothing")]), FILE_NOT_FOUND, "does not exist").await?;
    users.says(ROOT, complete(&large, "root"), true).await?;
    let low = format!("{home}/low");
    let request = CreateRequestProto { block_size: BLOCK_LEN as u64 - 1, ..creation(&low, "root") };
    users.may(ROOT, ask("create", request)).await?;
    users.says(ROOT, complete(&low, "root"), true).await?;
    users.may_not(ROOT, concat(&low, &[&source]), illegal, "preferred block size").await?;
    if users.one_in(2) {
        users.says(ROOT, set_replication(&source, u32::from(REPLICATION) - 1), true).await?;
    }
    users.may(ROOT, concat(&target, &[&source])).await?;
    users.has_gone(&source).await?;
    let len = (first + second) as u64;
    let found = users.status(ROOT, &target).await?.length;
    users.is_equal(ROOT, &get_file_info(&target), found, len)?;

    users.may_not(ROOT, truncate(&target, "root", len + 1), illegal, "larger file size").await?;
    users.says(ROOT, truncate(&target, "root", len), true).await?;
    // Where a block begins nothing needs to be cut.
    users.says(ROOT, truncate(&target, "root", first as u64), true).await?;
    let found = users.status(ROOT, &target).await?.length;
    users.is_equal(ROOT, &get_file_info(&target), found, first as u64)?;
    again(users, &target, first as u64).await
}

/// Closes a file without naming the block at its end. Who does so once more, as the answer was lost, is not known
/// again, as in HDFS.
async fn close_unnamed(users: &Users, user: &'static str, file: &str, close: Ask) -> Option<()> {
    match users.call(user, &close).await? {
        Err(refused) if refused.class != LEASE_EXPIRED => users.wrong(user, &close, &format!("is refused: {refused}")),
        _ => users.says(user, is_file_closed(file), true).await,
    }
}

/// A closed file is opened again, to go on in its last block or behind it, and left as it was; then it is cut.
async fn again(users: &Users, file: &str, len: u64) -> Option<()> {
    let ask_block = get_block_locations(file);
    let found: GetBlockLocationsResponseProto = users.get(ROOT, ask_block.clone()).await?;
    let blocks = found.locations.map(|locations| locations.blocks).unwrap_or_default();
    users.is_equal(ROOT, &ask_block, blocks.len(), 1)?;
    let block = blocks[0].b.clone();
    users.may_not(ROOT, bump(block.clone(), "root"), IO, "is not under construction").await?;
    users.may(ROOT, append(file, "in it")).await?;
    close_unnamed(users, ROOT, file, complete(file, "in it")).await?;
    let flag = Some(CreateFlagProto::Append as u32 | CreateFlagProto::NewBlock as u32);
    let behind = AppendRequestProto { src: file.to_owned(), client_name: "behind it".to_owned(), flag };
    users.may(ROOT, ask("append", behind)).await?;
    users.may_not(ROOT, bump(block, "behind it"), IO, "is not under construction").await?;
    users.may_not(ROOT, add_block(file, "behind it", None), IO, "already contains").await?;
    close_unnamed(users, ROOT, file, complete(file, "behind it")).await?;
    let found = users.status(ROOT, file).await?.length;
    users.is_equal(ROOT, &get_file_info(file), found, len)?;
    // How far it has come when it is asked for once more, or when somebody wants the file, depends on the nodes.
    for wish in [
        truncate(file, "root", len / 2),
        truncate(file, "root", len / 2),
        truncate(file, "root", len / 3),
        create(file, "another"),
    ] {
        let _told = users.call(ROOT, &wish).await?;
    }
    Some(())
}
