//! A client of XRootD that says what a story has it say.

use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xroot::{Element, ErrorCode, Handle, RequestCode, ResponseHeader, ResponseStatus, StreamId};

/// A client.
pub(crate) struct Peer {
    pub(crate) socket: TcpStream,
    pub(crate) next: u16,
}

/// What came for a request: all parts of it, or the error.
pub(crate) type Answer = Result<Vec<u8>, ErrorCode>;

pub(crate) fn frame(stream: u16, code: RequestCode, parameters: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = [stream.to_be_bytes(), code.number().to_be_bytes()].concat();
    bytes.extend_from_slice(parameters);
    bytes.resize(20, 0);
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    [&bytes, body].concat()
}

pub(crate) fn greeting(user: &str) -> Vec<u8> {
    let mut login = 7u32.to_be_bytes().to_vec();
    login.extend_from_slice(user.as_bytes());
    let greeting = [0u32, 0, 0, 4, 2012].map(u32::to_be_bytes).concat();
    [greeting, frame(0, RequestCode::Login, &login, b"")].concat()
}

impl Peer {
    pub(crate) async fn connect(addr: SocketAddr, user: &str) -> Self {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        socket.write_all(&greeting(user)).await.unwrap();
        let mut peer = Self { socket, next: 1 };
        let (header, body) = peer.response().await;
        assert_eq!((header.status, body.len()), (ResponseStatus::Ok, 8));
        let (header, body) = peer.response().await;
        assert_eq!((header.status, body.len()), (ResponseStatus::Ok, 16));
        peer
    }

    pub(crate) async fn send(&mut self, code: RequestCode, parameters: &[u8], body: &[u8]) -> StreamId {
        let stream = self.next;
        self.next += 1;
        self.socket.write_all(&frame(stream, code, parameters, body)).await.unwrap();
        StreamId(stream.to_be_bytes())
    }

    pub(crate) async fn response(&mut self) -> (ResponseHeader, Vec<u8>) {
        let mut head = [0; ResponseHeader::LEN];
        self.socket.read_exact(&mut head).await.unwrap();
        let header = ResponseHeader::decode(&head).unwrap();
        let mut body = vec![0; header.body_len as usize];
        self.socket.read_exact(&mut body).await.unwrap();
        if header.status == ResponseStatus::Status {
            let len = u32::from_be_bytes(*body[12..].first_chunk().unwrap());
            let mut pages = vec![0; len as usize];
            self.socket.read_exact(&mut pages).await.unwrap();
            body.extend(pages);
        }
        (header, body)
    }

    /// All responses to some requests, in whatever order they come.
    pub(crate) async fn answers<const N: usize>(&mut self, streams: [StreamId; N]) -> [Answer; N] {
        let mut begun: HashMap<StreamId, Vec<u8>> = HashMap::new();
        let mut done: HashMap<StreamId, Answer> = HashMap::new();
        while done.len() < N {
            let (ResponseHeader { stream, status, .. }, body) = self.response().await;
            assert!(streams.contains(&stream) && !done.contains_key(&stream));
            let parts = begun.entry(stream).or_default();
            match status {
                ResponseStatus::Error => {
                    let code = u32::from_be_bytes(*body.first_chunk().unwrap()) as u16;
                    done.insert(stream, Err(ErrorCode::from_number(code).unwrap()));
                }
                ResponseStatus::Status => {
                    parts.extend_from_slice(&body[24..]);
                    if body[7] == 0 {
                        done.insert(stream, Ok(std::mem::take(parts)));
                    }
                }
                status => {
                    parts.extend_from_slice(&body);
                    if status == ResponseStatus::Ok {
                        done.insert(stream, Ok(std::mem::take(parts)));
                    }
                }
            }
        }
        streams.map(|stream| done.remove(&stream).unwrap())
    }

    pub(crate) async fn ask(&mut self, code: RequestCode, parameters: &[u8], body: &[u8]) -> Answer {
        let stream = self.send(code, parameters, body).await;
        let [answer] = self.answers([stream]).await;
        answer
    }

    pub(crate) async fn text(
        &mut self,
        code: RequestCode,
        parameters: &[u8],
        body: &[u8],
    ) -> Result<String, ErrorCode> {
        self.ask(code, parameters, body).await.map(|text| String::from_utf8(text).unwrap())
    }

    pub(crate) async fn open(&mut self, path: &str) -> Result<Handle, ErrorCode> {
        let answer = self.ask(RequestCode::Open, &[0, 0, 0, 0x10], path.as_bytes()).await?;
        Ok(Handle::decode(*answer.first_chunk().unwrap()))
    }

    pub(crate) async fn read(&mut self, handle: Handle, offset: u64, len: u32) -> Answer {
        self.ask(RequestCode::Read, &read_parameters(handle, offset, len), b"").await
    }
}

pub(crate) fn read_parameters(handle: Handle, offset: u64, len: u32) -> Vec<u8> {
    [&handle.encode()[..], &offset.to_be_bytes(), &len.to_be_bytes()].concat()
}

pub(crate) fn vector(elements: &[(Handle, u64, u32)]) -> Vec<u8> {
    let element = |(handle, offset, len): &(Handle, u64, u32)| Element { handle: *handle, offset: *offset, len: *len };
    elements.iter().flat_map(|one| element(one).encode()).collect()
}

/// What a vector is answered with.
pub(crate) fn pieces(mut answer: &[u8]) -> Vec<(Handle, u64, Vec<u8>)> {
    let mut all = Vec::new();
    while !answer.is_empty() {
        let len = u32::from_be_bytes(*answer[4..].first_chunk().unwrap()) as usize;
        let offset = u64::from_be_bytes(*answer[8..].first_chunk().unwrap());
        all.push((Handle::decode(*answer.first_chunk().unwrap()), offset, answer[16..16 + len].to_vec()));
        answer = &answer[16 + len..];
    }
    all
}
