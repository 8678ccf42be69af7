//! Who asks for a page that is not for everybody: proven by a ticket of Kerberos, where the store asks for one (SPNEGO,
//! RFC 4559).
//!
//! ```text
//! client ── GET /fsck ──────────────────────────────▶
//!        ◀─ 401, WWW-Authenticate: Negotiate ────────
//!        ── GET, Authorization: Negotiate TOKEN ────▶   ProofSource ─▶ a name, or why there is none (403)
//!        ◀─ 200, WWW-Authenticate: Negotiate TOKEN ──   the server proves itself as well
//! ```
//!
//! Promise: each request has its own proof. Nothing is kept between two, so there is no cookie that somebody else could
//! bring, and one round has to do. Who asks with OPTIONS hears whether the proof counts, and begins nothing: stock
//! clients do that first.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64ct::{Base64, Encoding};
use hyper::ext::ReasonPhrase;
use io::ThreadQuota;
use std::sync::Arc;

/// Proofs looked at at the same time: each reads the keytab and writes to the replay cache. A guess, as few ask.
const THREAD_COUNT_MAX: usize = 4;
/// The scheme, and the space behind it.
const NEGOTIATE: &str = "Negotiate ";
const ASKED: &str = "this page is for users who prove by a Kerberos ticket who they are (SPNEGO): get one with kinit, \
                     and ask with a client that sends it, as `curl --negotiate -u :`\n";

/// Tells whose a proof is, or what is wrong with it, in words for whoever sent it. It may wait for a disk.
pub type ProofSource = Arc<dyn Fn(&[u8]) -> Result<Proven, String> + Send + Sync>;

/// Who sent a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// As Kerberos has it, with the realm.
    pub name: String,
    /// By this the server proves itself; may be empty.
    pub answer: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Gate {
    source: Option<ProofSource>,
    threads: ThreadQuota,
}

/// Who asks, for the page behind the gate; `None` where no proof is asked for.
#[derive(Clone)]
pub(crate) struct Visitor(pub(crate) Option<String>);

impl Gate {
    /// `None`: it stands open.
    pub(crate) fn new(source: Option<ProofSource>) -> Self {
        Self { source, threads: ThreadQuota::new(THREAD_COUNT_MAX) }
    }
}

pub(crate) async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let Some(source) = gate.source else {
        request.extensions_mut().insert(Visitor(None));
        return next.run(request).await;
    };
    let token = match token(request.headers()) {
        Ok(Some(token)) => token,
        Ok(None) => {
            let negotiate = (WWW_AUTHENTICATE, HeaderValue::from_static(NEGOTIATE.trim_ascii_end()));
            return (StatusCode::UNAUTHORIZED, [negotiate], ASKED).into_response();
        }
        Err(error) => {
            return (StatusCode::BAD_REQUEST, format!("the proof in Authorization is not base64: {error}\n"))
                .into_response();
        }
    };
    match gate.threads.run(move || source(&token)).await {
        Ok(Ok(Proven { name, answer })) => {
            request.extensions_mut().insert(Visitor(Some(name)));
            let mut response = next.run(request).await;
            if !answer.is_empty() {
                let answer = format!("{NEGOTIATE}{}", Base64::encode_string(&answer));
                let answer = HeaderValue::from_str(&answer).expect("letters and digits");
                response.headers_mut().insert(WWW_AUTHENTICATE, answer);
            }
            response
        }
        Ok(Err(reason)) => refused(&reason),
        Err(hung) => {
            let text = format!("the disk with the server's keytab or its replay cache: {hung}; ask again later\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Stock clients show nothing but the line of the status.
fn refused(reason: &str) -> Response {
    let mut response = (StatusCode::FORBIDDEN, format!("the Kerberos login failed: {reason}\n")).into_response();
    if let Ok(phrase) = ReasonPhrase::try_from(format!("GSSException: {reason}").into_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    response
}

/// `None`: there is none, or one of another scheme.
fn token(headers: &HeaderMap) -> Result<Option<Vec<u8>>, base64ct::Error> {
    let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    match value.split_at_checked(NEGOTIATE.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(NEGOTIATE) && !token.trim().is_empty() => {
            Base64::decode_vec(token.trim()).map(Some)
        }
        _ => Ok(None),
    }
}
