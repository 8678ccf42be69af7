//! An edge before a metadata server that says what it is told to, and what it remembers of that.

use super::kept::Origin;
use super::{Edge, EdgeConfig};
use crate::opened::Opened;
use bytes::Bytes;
use client::{Client, ErrorKind, Options, RangeRead, Result, Store, Url};
use hdfs::exception::{self, Exception};
use hdfs::proto::{self, hdfs_file_status_proto::FileType};
use io::{HeldPorts, TaskGroup};
use prost::Message;
use rpc::{Call, Server, ServerOptions, Service};
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Of each file.
pub(crate) const LEN: u64 = 24 << 20;
const BLOCK_COUNT: u64 = 3;

/// What the metadata server knows.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// By path: the id, with which all blocks go.
    pub(crate) files: HashMap<String, u64>,
    pub(crate) denied: HashSet<String>,
    /// Who calls has to prove it, and nobody does.
    pub(crate) asks_for_proof: bool,
    /// Questions about the root wait here.
    held: Option<Arc<Held>>,
}

#[derive(Debug)]
struct Held {
    came: tokio::sync::watch::Sender<usize>,
    answers: Semaphore,
}

impl Default for Held {
    fn default() -> Self {
        Self { came: Default::default(), answers: Semaphore::new(0) }
    }
}

impl Held {
    async fn hold(&self) {
        self.came.send_modify(|count| *count += 1);
        self.answers.acquire().await.unwrap().forget();
    }

    /// Until so many came, with those that were answered.
    async fn came(&self, count: usize) {
        self.came.subscribe().wait_for(|came| *came >= count).await.unwrap();
    }
}

#[derive(Debug, Default)]
struct Metad(Mutex<Book>);

impl Book {
    fn id(&self, path: &str) -> Result<u64, Exception> {
        let none = || Exception::new(exception::FILE_NOT_FOUND, "none");
        self.files.get(path).copied().ok_or_else(none)
    }

    fn status(&self, path: &str) -> Result<proto::HdfsFileStatusProto, Exception> {
        let (is_root, id) = (path == "/", if path == "/" { 1 } else { self.id(path)? });
        Ok(proto::HdfsFileStatusProto {
            file_type: if is_root { FileType::IsDir.into() } else { FileType::IsFile.into() },
            length: if is_root { 0 } else { LEN },
            permission: proto::FsPermissionProto { perm: 0o644 },
            owner: "owner".into(),
            group: "group".into(),
            modification_time: 1000,
            access_time: 1000,
            blocksize: Some(LEN),
            file_id: Some(id),
            ..Default::default()
        })
    }

    /// The first block and the last come with the opening, the others once they are asked for. No node has any.
    fn located(&self, path: &str, offset: u64) -> Result<proto::LocatedBlocksProto, Exception> {
        let (id, len) = (self.id(path)?, LEN / BLOCK_COUNT);
        let block = |index| proto::LocatedBlockProto {
            b: proto::ExtendedBlockProto {
                pool_id: "BP-1".into(),
                block_id: id * 100 + index,
                generation_stamp: 1,
                num_bytes: Some(len),
            },
            offset: index * len,
            ..Default::default()
        };
        let from = offset / len;
        Ok(proto::LocatedBlocksProto {
            file_length: LEN,
            blocks: vec![block(from)],
            last_block: Some(block(BLOCK_COUNT - 1)),
            is_last_block_complete: true,
            ..Default::default()
        })
    }

    fn answer(&self, call: &Call) -> Result<Bytes, Exception> {
        let proto::GetFileInfoRequestProto { src } = call.request().unwrap_or_default();
        if self.asks_for_proof || self.denied.contains(&src) {
            return Err(Exception::new(exception::ACCESS_CONTROL, "no"));
        }
        match call.method.as_str() {
            "getFileInfo" => {
                let fs = self.status(&src).ok();
                Ok(proto::GetFileInfoResponseProto { fs }.encode_to_vec().into())
            }
            "getBlockLocations" => {
                let offset = call.request::<proto::GetBlockLocationsRequestProto>()?.offset;
                let locations = Some(self.located(&src, offset)?);
                Ok(proto::GetBlockLocationsResponseProto { locations }.encode_to_vec().into())
            }
            "getServerDefaults" => Ok(proto::GetServerDefaultsResponseProto::default().encode_to_vec().into()),
            _ => Err(Exception::new(exception::FILE_NOT_FOUND, "none")),
        }
    }
}

impl Service for Metad {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        let is_root = call.request::<proto::GetFileInfoRequestProto>().is_ok_and(|request| request.src == "/");
        let held = self.0.lock().unwrap().held.clone().filter(|_| is_root);
        if let Some(held) = held {
            held.hold().await;
        }
        self.0.lock().unwrap().answer(&call)
    }
}

/// In place of datanodes.
#[derive(Clone, Debug)]
struct Zeros;

impl Origin for Zeros {
    async fn fetch(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        reads.iter_mut().for_each(|read| read.dest.fill(0));
        Ok(())
    }
}

pub(crate) struct World {
    metad: Arc<Metad>,
    /// `None`: it was stopped.
    server: Option<Server>,
    /// No server of another test answers for this one once it has gone.
    _held: HeldPorts,
    store: Store,
    pub(crate) edge: Arc<Edge>,
    pub(crate) tasks: TaskGroup,
}

impl World {
    /// With these files.
    pub(crate) async fn new(paths: &[&str]) -> Self {
        let metad = Arc::new(Metad::default());
        let mut held = HeldPorts::default();
        let addr = held.hold((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let server = Server::bind(addr, ServerOptions::default(), Arc::clone(&metad)).await.unwrap();
        let url = Url::parse(&format!("hdfs://{}", server.local_addr())).unwrap();
        let options = Options { retry_pause: Duration::from_millis(1), ..Options::default() };
        let (store, tasks) = (Store::new(&url, options), TaskGroup::default());
        let config = EdgeConfig { cache_dir: None, cache_len: 0, memory: 256 << 20 };
        let edge = Edge::start(&config, &store, "edge", tasks.clone()).await.unwrap();
        let world = Self { metad, server: Some(server), _held: held, store, edge, tasks };
        world.book().files = paths.iter().zip(10..).map(|(path, id)| ((*path).to_owned(), id)).collect();
        world
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.metad.0.lock().unwrap()
    }

    /// One who proves nothing.
    pub(crate) fn user(&self, name: &str) -> Client {
        self.store.client_without_proof(name)
    }

    /// Which kind of error an opening ends with, if it does.
    async fn look(&self, client: &Client, path: &str) -> Option<ErrorKind> {
        self.edge.look(client, path).await.err().map(|error| error.kind())
    }

    /// Of a file all of which is kept.
    pub(crate) async fn opened(&self, client: &Client, path: &str) -> Opened {
        let looked = self.edge.look(client, path).await.unwrap();
        let file = looked.file.unwrap();
        let mut bytes = vec![0; LEN as usize];
        let read = RangeRead { offset: 0, dest: &mut bytes };
        self.edge.kept.read(file.content().unwrap(), &mut [read], &Zeros).await.unwrap();
        Opened::at_edge(file, looked.status)
    }

    /// Another file has this name now.
    pub(crate) fn replace(&self, path: &str) {
        self.book().files.insert(path.to_owned(), 99);
    }

    pub(crate) fn let_time_pass(&self, time: Duration) {
        self.edge.link.passed_s.fetch_add(time.as_secs(), Ordering::Relaxed);
    }

    /// The store is not reached any more, and that was found out.
    async fn cut(&mut self) {
        self.server.take().expect("it is cut once").shutdown().await;
        assert_eq!(self.look(&self.user("nobody"), "/").await, Some(ErrorKind::Unreachable));
        assert!(!self.edge.is_up());
    }

    pub(crate) async fn stop(self) {
        if let Some(server) = self.server {
            server.shutdown().await;
        }
        self.tasks.close().await;
        self.edge.stop().await;
        self.store.close().await;
    }
}

#[tokio::test]
async fn what_the_store_refuses_is_learned_from_whatever_was_asked() {
    let mut world = World::new(&["/kept", "/d/f", "/e/f", "/gone", "/asked"]).await;
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    assert!(world.edge.believes_names().await.unwrap());
    for path in ["/kept", "/d/f", "/e/f", "/gone", "/asked"] {
        assert_eq!((world.look(&ann, path).await, world.look(&bob, path).await), (None, None));
    }
    world.book().denied.extend(["/d", "/e", "/asked"].map(str::to_owned));
    world.book().files.remove("/gone");
    let request = |path: &str| Bytes::from(proto::GetFileInfoRequestProto { src: path.into() }.encode_to_vec());
    assert!(world.edge.list(&ann, "/d").await.is_err());
    for (method, path) in [("getListing", "/e"), ("getContentSummary", "/gone"), ("getAclStatus", "/asked")] {
        assert!(world.edge.forward(&ann, method, Some(path), request(path)).await.unwrap().is_err());
    }
    // Whoever was refused, it was not for his name.
    world.cut().await;
    for path in ["/kept", "/d/f", "/e/f", "/gone", "/asked"] {
        let refused = (path != "/kept").then_some(ErrorKind::Unreachable);
        assert_eq!((world.look(&ann, path).await, world.look(&bob, path).await), (refused, None), "{path}");
    }
    world.stop().await;
}

/// What a name was let read is not read by whoever says that name, once the store wants it proven.
#[tokio::test]
async fn a_store_that_begins_to_ask_for_proofs_takes_back_what_it_said_to_names() {
    for is_asked_before in [true, false] {
        let mut world = World::new(&["/f", "/g"]).await;
        let ann = world.user("ann");
        assert!(world.edge.believes_names().await.unwrap());
        assert_eq!(world.look(&ann, "/f").await, None);
        let file = world.opened(&ann, "/g").await;
        world.book().asks_for_proof = true;
        // As often as it is asked, or as soon as somebody is refused.
        match is_asked_before {
            true => world.let_time_pass(Duration::from_secs(60)),
            false => {
                assert_eq!(world.look(&ann, "/none").await, Some(ErrorKind::Denied));
                world.let_time_pass(Duration::from_secs(5));
            }
        }
        if is_asked_before {
            assert!(!world.edge.believes_names().await.unwrap());
        }
        world.cut().await;
        assert_ne!(world.edge.believes_names().await.ok(), Some(true));
        assert_eq!(world.look(&ann, "/f").await, Some(ErrorKind::Unreachable));
        assert!(file.is_the_same().await.is_err());
        world.stop().await;
    }
}

/// Each refusal is a reason to ask whether names are believed; who comes with a name waits for that, and not for the
/// refusals that come after him.
#[tokio::test]
async fn who_is_refused_again_and_again_holds_up_nobody_else() {
    let world = World::new(&["/f"]).await;
    world.book().denied.insert("/denied".into());
    assert!(world.edge.believes_names().await.unwrap());
    let held = Arc::new(Held::default());
    world.book().held = Some(Arc::clone(&held));
    let mut refused = JoinSet::new();
    let mut refuse = async |doubts: u64| {
        let (edge, stranger) = (Arc::clone(&world.edge), world.user("stranger"));
        refused.spawn(async move { edge.look(&stranger, "/denied").await.unwrap_err().kind() });
        while world.edge.belief.doubts() < doubts {
            tokio::task::yield_now().await;
        }
    };
    refuse(1).await;
    held.came(1).await;
    let mut named = JoinSet::new();
    for _ in 0..10 {
        let edge = Arc::clone(&world.edge);
        named.spawn(async move { edge.believes_names().await.unwrap() });
    }
    // One answer was under way when they came, the next one is for all of them; a refusal comes before either.
    for count in 1..=2 {
        held.came(count).await;
        refuse(count as u64 + 1).await;
        held.answers.add_permits(1);
    }
    let all = tokio::time::timeout(Duration::from_secs(20), named.join_all()).await;
    assert_eq!(all.expect("they wait for the third answer"), [true; 10]);
    held.answers.add_permits(10);
    assert!(refused.join_all().await.iter().all(|kind| *kind == ErrorKind::Denied));
    world.stop().await;
}

#[tokio::test]
async fn a_file_that_was_renamed_is_not_found_under_its_former_name() {
    let mut world = World::new(&["/a"]).await;
    let ann = world.user("ann");
    assert!(world.edge.believes_names().await.unwrap());
    let before = world.opened(&ann, "/a").await;
    let id = world.book().files.remove("/a").unwrap();
    world.book().files.insert("/b".into(), id);
    let after = world.opened(&ann, "/b").await;
    world.edge.kept.forget_all();
    // Who reads by the former name has places of blocks by that; who reads by the new one does not depend on it.
    for (opened, end) in [(before, ErrorKind::NotFound), (after, ErrorKind::NoReplica)] {
        let failed = opened.read_at(LEN / 2, &mut [0; 10]).await.unwrap_err();
        assert_eq!(failed.kind(), end, "{failed}");
    }
    world.cut().await;
    assert_eq!(world.look(&ann, "/a").await, Some(ErrorKind::Unreachable));
    assert_eq!(world.look(&ann, "/b").await, None);
    world.stop().await;
}

/// Its reader, with what that has open, is given back; it is opened anew for what is not kept, and only then.
#[tokio::test]
async fn a_file_at_rest_is_opened_anew_as_the_same() {
    let world = World::new(&["/f"]).await;
    let opened = world.opened(&world.user("ann"), "/f").await;
    assert!(opened.rest());
    assert_eq!(opened.read_at(5, &mut [1; 10]).await.unwrap(), 10);
    world.edge.kept.forget_all();
    assert_eq!(opened.read_at(5, &mut [1; 10]).await.unwrap_err().kind(), ErrorKind::NoReplica);
    world.edge.upstreams.clear();
    world.replace("/f");
    let refused = opened.read_at(5, &mut [1; 10]).await.unwrap_err();
    assert!(refused.to_string().contains("was changed since it was opened"), "{refused}");
    world.stop().await;
}
