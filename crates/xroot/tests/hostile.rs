//! Whatever a client sends, a session answers or ends; it neither panics nor keeps more than it may.

use proptest::prelude::*;
use xroot::{RequestCode, fuzz};

/// A greeting and a login, as every client begins.
fn begun() -> Vec<u8> {
    let greeting = [0u32, 0, 0, 4, 2012].map(u32::to_be_bytes).concat();
    [greeting, request(RequestCode::Login, *b"\0\0\0\x01alice\0\0\0\0\0\0\0", b"")].concat()
}

fn request(code: RequestCode, parameters: [u8; 16], body: &[u8]) -> Vec<u8> {
    let head = [&[0, 1][..], &code.number().to_be_bytes(), &parameters, &(body.len() as u32).to_be_bytes()].concat();
    [&head, body].concat()
}

fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select(RequestCode::ALL);
    // Zeros are what most parameters are.
    let parameter = prop_oneof![3 => Just(0u8), 1 => any::<u8>()];
    let parameters = prop::collection::vec(parameter, 16).prop_map(|bytes| bytes.try_into().expect("sixteen"));
    let body = prop_oneof![
        Just(Vec::new()),
        Just(b"/a/b?c".to_vec()),
        prop::collection::vec(any::<u8>(), 0..100),
        prop::collection::vec(Just(0u8), 0..70_000),
    ];
    (code, parameters, body).prop_map(|(code, parameters, body)| request(code, parameters, &body))
}

proptest! {
    #[test]
    fn requests_of_any_kind_are_answered(
        piece in any::<u8>(), requests in prop::collection::vec(any_request(), 0..20),
    ) {
        fuzz::session(&[&[piece][..], &begun(), &requests.concat()].concat());
    }

    #[test]
    fn any_bytes_are_survived(
        piece in any::<u8>(), is_begun in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..500),
    ) {
        let begun = if is_begun { begun() } else { Vec::new() };
        fuzz::session(&[&[piece][..], &begun, &bytes].concat());
    }
}
