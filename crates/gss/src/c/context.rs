//! Security contexts: what two ends that proved themselves to each other have in common.

use super::credential::Credential;
use super::library::Library;
use super::name::Name;
use super::output::Output;
use super::status::Status;
use super::types::{
    BufferDesc, GSS_C_CONF_FLAG, GSS_C_INTEG_FLAG, GSS_C_MUTUAL_FLAG, GSS_C_QOP_DEFAULT, GSS_C_REPLAY_FLAG,
    GSS_C_SEQUENCE_FLAG, GSS_S_BAD_MECH, GSS_S_CONTINUE_NEEDED, KRB5, OidDesc, RawContext, RawOid,
};
use std::ffi::c_int;
use std::fmt;
use std::ptr;

/// What a context can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The server proves itself as well, messages may be sealed in both ways, and their order is looked at.
    pub(crate) const WANTED: Self =
        Self(GSS_C_MUTUAL_FLAG | GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG | GSS_C_CONF_FLAG | GSS_C_INTEG_FLAG);

    pub(crate) fn is_mutual(self) -> bool {
        self.0 & GSS_C_MUTUAL_FLAG != 0
    }
}

/// What came of one token.
#[derive(Debug)]
pub(crate) struct Step {
    /// For the peer; empty if there is nothing to say.
    pub(crate) token: Vec<u8>,
    pub(crate) is_complete: bool,
    /// Once it is complete.
    pub(crate) flags: Flags,
    /// Who the initiator is, for an acceptor whose context is complete.
    pub(crate) peer: Option<Name>,
}

pub(crate) struct Context {
    library: &'static Library,
    raw: RawContext,
}

// SAFETY: the library keeps nothing of a context with a thread. One thread has it at a time, as all takes `&mut self`.
#[expect(unsafe_code, reason = "a handle moves between threads")]
unsafe impl Send for Context {}

impl Context {
    pub(crate) fn new(library: &'static Library) -> Self {
        Self { library, raw: ptr::null_mut() }
    }

    /// Takes a token of an initiator.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn accept(&mut self, credential: &Credential, token: &[u8]) -> Result<Step, Status> {
        let (mut minor, mut flags, mut output, mut peer) = (0, 0, Output::new(self.library), Name::none(self.library));
        let mut mechanism: RawOid = ptr::null_mut();
        let mut token = BufferDesc::of(token);
        let answer = output.fill();
        // SAFETY: the context is the library's own or null, which begins one; the credential outlives the call; the
        // token is only read; the rest are locals that are empty before. Channel bindings are not compared, and what is
        // null at the end is not asked for: no credential is taken that a client hands over.
        let major = unsafe {
            (self.library.calling().gss_accept_sec_context)(
                &raw mut minor,
                &raw mut self.raw,
                credential.raw(),
                &raw mut token,
                ptr::null_mut(),
                peer.fill(),
                &raw mut mechanism,
                answer,
                &raw mut flags,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let is_complete = self.progress(major, minor)?;
        if is_complete && !is_kerberos(mechanism) {
            return Err(self.library.status(GSS_S_BAD_MECH, 0));
        }
        let token = output.bytes().to_vec();
        Ok(Step { token, is_complete, flags: Flags(flags), peer: is_complete.then_some(peer) })
    }

    /// Begins, or takes a token of the acceptor, who has to be `target`.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn init(
        &mut self,
        credential: &Credential,
        target: &Name,
        token: Option<&[u8]>,
    ) -> Result<Step, Status> {
        let (mut minor, mut flags, mut output) = (0, 0, Output::new(self.library));
        let mut mechanism = OidDesc::of(&KRB5);
        let mut token = token.map(BufferDesc::of);
        let token_or_none = token.as_mut().map_or(ptr::null_mut(), |token| &raw mut *token);
        let answer = output.fill();
        // SAFETY: as above; name and mechanism are only read. With 0 seconds the context lasts as long as the ticket.
        let major = unsafe {
            (self.library.calling().gss_init_sec_context)(
                &raw mut minor,
                credential.raw(),
                &raw mut self.raw,
                target.raw(),
                &raw mut mechanism,
                Flags::WANTED.0,
                0,
                ptr::null_mut(),
                token_or_none,
                ptr::null_mut(),
                answer,
                &raw mut flags,
                ptr::null_mut(),
            )
        };
        let is_complete = self.progress(major, minor)?;
        Ok(Step { token: output.bytes().to_vec(), is_complete, flags: Flags(flags), peer: None })
    }

    /// Whether it is complete. A duplicate or an old token counts as an error.
    fn progress(&self, major: u32, minor: u32) -> Result<bool, Status> {
        match major {
            GSS_S_CONTINUE_NEEDED => Ok(false),
            _ => self.library.check(major, minor).map(|()| true),
        }
    }

    /// Seconds until the ticket ends by which it was made.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn seconds_left(&mut self) -> Result<u32, Status> {
        let (mut minor, mut seconds) = (0, 0);
        // SAFETY: the context is the library's own, or null, which it refuses.
        let major = unsafe { (self.library.calling().gss_context_time)(&raw mut minor, self.raw, &raw mut seconds) };
        self.library.check(major, minor)?;
        Ok(seconds)
    }

    /// Appends the sealed form of a message.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn wrap(&mut self, is_private: bool, message: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        let (mut minor, mut was_encrypted, mut output) = (0, 0, Output::new(self.library));
        let mut message = BufferDesc::of(message);
        let sealed = output.fill();
        // SAFETY: the context is the library's own, or null, which it refuses; the message is only read.
        let major = unsafe {
            (self.library.calling().gss_wrap)(
                &raw mut minor,
                self.raw,
                c_int::from(is_private),
                GSS_C_QOP_DEFAULT,
                &raw mut message,
                &raw mut was_encrypted,
                sealed,
            )
        };
        self.library.check(major, minor)?;
        assert!(!is_private || was_encrypted != 0, "the library encrypts where it is asked to, or fails");
        out.extend_from_slice(output.bytes());
        Ok(())
    }

    /// Appends the message that `sealed` is, and says whether it was encrypted. One that comes twice, late or early is
    /// an error: whoever sits in between may have put it there.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<bool, Status> {
        let (mut minor, mut was_encrypted, mut output) = (0, 0, Output::new(self.library));
        // MIT's library verifies in place: it moves the parts of the message about in the buffer that it is given.
        let mut scratch = sealed.to_vec();
        let mut sealed = BufferDesc::scratch(&mut scratch);
        let message = output.fill();
        // SAFETY: the context is the library's own, or null, which it refuses; what it writes to is a copy, whose
        // length it keeps to. The quality is not asked for.
        let major = unsafe {
            (self.library.calling().gss_unwrap)(
                &raw mut minor,
                self.raw,
                &raw mut sealed,
                message,
                &raw mut was_encrypted,
                ptr::null_mut(),
            )
        };
        self.library.check(major, minor)?;
        out.extend_from_slice(output.bytes());
        Ok(was_encrypted != 0)
    }

    /// The longest message whose sealed form has at most `sealed_len_max` bytes.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn message_len_max(&mut self, is_private: bool, sealed_len_max: u32) -> Result<u32, Status> {
        let (mut minor, mut len_max) = (0, 0);
        // SAFETY: the context is the library's own, or null, which it refuses.
        let major = unsafe {
            (self.library.calling().gss_wrap_size_limit)(
                &raw mut minor,
                self.raw,
                c_int::from(is_private),
                GSS_C_QOP_DEFAULT,
                sealed_len_max,
                &raw mut len_max,
            )
        };
        self.library.check(major, minor)?;
        Ok(len_max)
    }
}

#[expect(unsafe_code, reason = "a number of the library is read")]
fn is_kerberos(mechanism: RawOid) -> bool {
    // SAFETY: null, or the library's own, which lives as long as the library.
    let Some(oid) = (unsafe { mechanism.as_ref() }) else { return false };
    // SAFETY: as many bytes as its length says.
    oid.length as usize == KRB5.len()
        && unsafe { std::slice::from_raw_parts(oid.elements.cast::<u8>(), KRB5.len()) } == KRB5
}

impl Drop for Context {
    #[expect(unsafe_code, reason = "a call of the library")]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            let mut minor = 0;
            // SAFETY: the library made this handle, and nobody else has it. No token is asked for.
            unsafe {
                (self.library.calling().gss_delete_sec_context)(&raw mut minor, &raw mut self.raw, ptr::null_mut())
            };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}
