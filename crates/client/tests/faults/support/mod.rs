//! A store that a test scripts: a metadata server with one file's worth of memory, and datanodes that do what they are
//! told.

mod datanode;
mod metad;
mod unix_socket;

pub(crate) use datanode::{Node, Trick};
pub(crate) use metad::Book;
pub(crate) use unix_socket::Way;

use client::{Client, Options, Url};
use std::sync::Arc;
use std::time::Duration;
use types::ChecksumSpec;

/// One metadata server, and datanodes.
pub(crate) struct Store {
    pub(crate) book: Arc<Book>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) client: Client,
    _server: rpc::Server,
}

/// Polls a future on a thread that has no runtime.
pub(crate) fn poll_without_runtime<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(done) => return done,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Bytes that differ from place to place, so that a shift shows.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let mut random = types::random::Seeded(len as u64);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8)).flat_map(|_| types::Random::next_u64(&mut random).to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Metadata servers of one store, without datanodes.
pub(crate) struct Group {
    pub(crate) books: Vec<Arc<Book>>,
    pub(crate) client: Client,
    _servers: Vec<rpc::Server>,
}

impl Group {
    /// One server for each of these sets of abilities; the first leads.
    pub(crate) async fn with_abilities(abilities: &[Option<u64>]) -> Self {
        let (mut books, mut servers) = (Vec::new(), Vec::new());
        for (number, abilities) in abilities.iter().enumerate() {
            let book = Arc::new(Book::default());
            (book.state().abilities, book.state().stands_by) = (*abilities, number > 0);
            servers.push(rpc::Server::bind(local(), rpc::ServerOptions::default(), Arc::clone(&book)).await.unwrap());
            books.push(book);
        }
        let addrs: Vec<_> = servers.iter().map(|server| server.local_addr().to_string()).collect();
        let url = Url::parse(&format!("hdfs://{}", addrs.join(","))).unwrap();
        Self { books, client: Client::with_options(&url, "ann", quick()), _servers: servers }
    }
}

impl Store {
    pub(crate) async fn new(node_count: usize) -> Self {
        Self::with(node_count, ChecksumSpec::DEFAULT, 64 << 10, quick()).await
    }

    /// `packet_len`: data of one packet that a datanode sends.
    pub(crate) async fn with(node_count: usize, spec: ChecksumSpec, packet_len: usize, options: Options) -> Self {
        let book = Arc::new(Book::default());
        let mut nodes = Vec::new();
        for number in 0..node_count {
            nodes.push(Node::start(number, Arc::clone(&book), spec, packet_len).await);
        }
        book.set_nodes(nodes.iter().map(|node| node.info()).collect());
        let server = rpc::Server::bind(local(), rpc::ServerOptions::default(), Arc::clone(&book)).await.unwrap();
        let url = Url::parse(&format!("hdfs://{}", server.local_addr())).unwrap();
        let client = Client::with_options(&url, "ann", options);
        Self { book, nodes, client, _server: server }
    }
}

pub(crate) fn local() -> std::net::SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Limits that a test can wait for.
pub(crate) fn quick() -> Options {
    Options {
        timeout: Duration::from_secs(5),
        packet_len: 64 << 10,
        retry_pause: Duration::from_millis(10),
        renew_every: Duration::from_millis(50),
        ..Options::default()
    }
}
