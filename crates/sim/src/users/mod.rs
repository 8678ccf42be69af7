//! People of different rights work on names of their own, and know what each of their calls must come to.
//!
//! Nobody else touches what they make. So what is allowed must be done, what is forbidden must be refused by the right
//! exception, and what was set is what is read. A story ends early where nobody knows whether a call was carried out,
//! or where safe mode is on; the next one begins in a directory of its own.

mod asks;
mod attributes;
mod files;
mod frozen;
mod limits;
mod lists;
mod names;
mod rights;
mod trees;

use crate::client::{Client, Error};
use crate::executor::Boxed;
use crate::metad::{Answer, Metad};
use crate::work::Work;
use crate::world::World;
use asks::Ask;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use prost::Message;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use types::random::Seeded;
use types::{FileId, FsPath, Random};

/// Runs the servers, and may do everything.
const ROOT: &str = "root";
/// Owns what the stories are about, in the group STAFF.
const ANN: &str = "ann";
/// Is in the groups STAFF and GUESTS.
const BEN: &str = "ben";
const CLEO: &str = "cleo";
const EVE: &str = "eve";
/// The user database does not know what groups she is in.
const DORA: &str = "dora";
const STAFF: &str = "staff";
const GUESTS: &str = "guests";

/// Of so many seeds one has such people.
const EACH: usize = 4;
/// Chosen so that the seeds that are kept (`seeds/`), and those that show deliberate faults, went on as before.
const CHOICE: u64 = 0x0004_3d53;
const STORY_COUNT: usize = 9;
const PAUSE: Duration = Duration::from_secs(6);
/// Tags of files that no client of the others writes.
const TAG: u64 = 1 << 33;
const REPLICATION: u16 = 2;

pub(crate) fn are_in(seed: u64) -> bool {
    Seeded(seed ^ CHOICE).below(EACH) == 0
}

/// What the user database of each server says.
pub(crate) fn groups_of(user: &str) -> io::Result<Vec<String>> {
    let groups: &[&str] = match user {
        ANN => &[STAFF],
        BEN => &[STAFF, GUESTS],
        DORA => return Err(io::Error::other("the directory server is down")),
        _ => &[],
    };
    Ok(groups.iter().map(|group| (*group).to_owned()).collect())
}

pub(crate) struct Users {
    client: Rc<Client>,
    /// The others' history does not depend on what these draw.
    chance: RefCell<Seeded>,
    story_count: Cell<u64>,
}

/// Until the clients are to end.
pub(crate) async fn work_always(client: Rc<Client>, work: Rc<Work>, seed: u64) {
    let sim = client.sim.clone();
    client.loses_answers.set(true);
    let chance = RefCell::new(Seeded(seed ^ 0x57_0e1e5));
    let users = Users { client, chance, story_count: Cell::default() };
    let mut next = users.below(STORY_COUNT);
    while !work.stopping.get() {
        sim.sleep(PAUSE / 100 * users.below(100) as u32).await;
        let told = users.story(next).await;
        sim.say(|| {
            format!("story {next} of the users is over, {}", if told.is_some() { "as planned" } else { "early" })
        });
        next = (next + 1) % STORY_COUNT;
    }
}

impl Users {
    async fn story(&self, number: usize) -> Option<()> {
        let home = self.begin().await?;
        match number {
            0 => rights::tell(self, &home).await?,
            1 => lists::tell(self, &home).await?,
            2 => attributes::tell(self, &home).await?,
            3 => names::tell(self, &home).await?,
            4 => trees::tell(self, &home).await?,
            5 => limits::tell(self, &home).await?,
            6 => files::tell(self, &home).await?,
            7 => files::silent(self, &home).await?,
            _ => frozen::tell(self, &home).await?,
        }
        if self.one_in(2) {
            self.may(ROOT, asks::delete(&home, true)).await?;
            self.has_gone(&home).await?;
        }
        Some(())
    }

    /// A directory of ANN's.
    async fn begin(&self) -> Option<String> {
        self.story_count.set(self.story_count.get() + 1);
        let home = format!("/users/{}", self.story_count.get());
        self.may(ROOT, asks::mkdirs(&home, 0o755)).await?;
        self.may(ROOT, asks::set_owner(&home, Some(ANN), Some(STAFF))).await?;
        Some(home)
    }

    fn below(&self, bound: usize) -> usize {
        self.chance.borrow_mut().below(bound)
    }

    fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn world(&self) -> &Rc<World> {
        &self.client.world
    }

    /// `Err`: nobody knows whether it was done, or it may be later.
    async fn outcome(&self, user: &'static str, ask: &Ask) -> Result<Result<Bytes, Exception>, Error> {
        let Ask { method, body } = ask.clone();
        let call = move |metad: Rc<Metad>, key| -> Boxed<Answer<Result<Bytes, Exception>>> {
            Box::pin(metad.visit_as(user, method, key, body.clone()))
        };
        self.client.call(call).await
    }

    async fn call(&self, user: &'static str, ask: &Ask) -> Option<Result<Bytes, Exception>> {
        self.outcome(user, ask).await.ok()
    }

    /// Tells of a failure; the story is over.
    fn wrong(&self, user: &str, ask: &Ask, what: &str) -> Option<()> {
        let story = self.story_count.get();
        self.world().fail(|| format!("in story {story} {} of {user} {what}", ask.method));
        None
    }

    /// It must be done; the answer.
    async fn get<A: Message + Default>(&self, user: &'static str, ask: Ask) -> Option<A> {
        match self.call(user, &ask).await? {
            Ok(bytes) => Some(A::decode(bytes).expect("a server's answer can be read")),
            Err(refused) => {
                self.wrong(user, &ask, &format!("is refused: {refused}"))?;
                None
            }
        }
    }

    /// It must be done.
    async fn may(&self, user: &'static str, ask: Ask) -> Option<()> {
        self.get::<()>(user, ask).await
    }

    /// It must be refused by an exception of this class, with these words.
    async fn may_not(&self, user: &'static str, ask: Ask, class: &str, words: &str) -> Option<()> {
        match self.call(user, &ask).await? {
            Err(refused) if refused.class == class && refused.message.contains(words) => Some(()),
            Err(refused) => self.wrong(user, &ask, &format!("is refused by {refused}, not by {class} ({words})")),
            Ok(_) => self.wrong(user, &ask, &format!("is done, and should be refused by {class} ({words})")),
        }
    }

    /// It must be answered so: by a message whose first field, yes or no, is this.
    async fn says(&self, user: &'static str, ask: Ask, wanted: bool) -> Option<()> {
        let DeleteResponseProto { result } = self.get(user, ask.clone()).await?;
        self.is_equal(user, &ask, result, wanted)
    }

    /// What was read is what was set.
    fn is_equal<T: PartialEq + std::fmt::Debug>(&self, user: &str, ask: &Ask, is: T, wanted: T) -> Option<()> {
        if is == wanted { Some(()) } else { self.wrong(user, ask, &format!("says {is:?}, not {wanted:?}")) }
    }

    async fn status(&self, user: &'static str, path: &str) -> Option<HdfsFileStatusProto> {
        let ask = asks::get_file_info(path);
        let found: GetFileInfoResponseProto = self.get(user, ask.clone()).await?;
        if found.fs.is_none() {
            self.wrong(user, &ask, &format!("finds no {path}"))?;
        }
        found.fs
    }

    async fn has_gone(&self, path: &str) -> Option<()> {
        let ask = asks::get_file_info(path);
        let found: GetFileInfoResponseProto = self.get(ROOT, ask.clone()).await?;
        self.is_equal(ROOT, &ask, found.fs.is_some(), false)
    }

    /// Makes an empty file, and closes it.
    async fn write(&self, user: &'static str, path: &str) -> Option<FileId> {
        let holder = self.open(user, path).await?;
        self.says(user, asks::complete(path, &holder), true).await?;
        self.status(ROOT, path).await?.file_id.map(types::InodeId)
    }

    /// Makes a file, and leaves it open. Its holder.
    async fn open(&self, user: &'static str, path: &str) -> Option<String> {
        // One that was left in an earlier story has files open, it may be.
        let holder = format!("{user} in story {}", self.story_count.get());
        self.may(user, asks::create(path, &holder)).await?;
        Some(holder)
    }

    /// A file of the superuser's with so many bytes, of which nothing is promised: what becomes of its blocks is not
    /// told to the oracle. Outer `None`: nobody knows; inner: it was refused for good.
    async fn put(&self, path: &str, len: usize) -> Option<Option<FileId>> {
        let at = FsPath::parse(path).expect("a sound path");
        let put = self.client.put_small(&at, TAG + self.story_count.get(), len, REPLICATION, true).await;
        match put {
            Ok(file) => {
                self.world().oracle.borrow_mut().doom(file);
                Some(Some(file))
            }
            Err(Error::Refused(crate::metad::Refused::Namespace)) => Some(None),
            Err(_) => None,
        }
    }
}
