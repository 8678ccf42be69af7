//! What the library answered, as numbers and as texts.

use super::library::Library;
use super::output::Output;
use super::types::{GSS_C_GSS_CODE, GSS_C_MECH_CODE, KRB5, OidDesc};
use std::ffi::c_int;
use std::fmt;

/// Texts of one status. The library has one or two; a limit for what it calls the next one.
const TEXT_COUNT_MAX: usize = 8;

/// What the library says of a status that has no text of its own.
const SUCCESS: &str = "Success";

/// A status other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// GSSAPI's.
    pub major: u32,
    /// Kerberos'.
    pub minor: u32,
    pub major_text: String,
    /// Empty if there is none.
    pub minor_text: String,
}

/// Kerberos' own text where there is one: GSSAPI's says then that there is.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.minor_text.is_empty() { &self.major_text } else { &self.minor_text };
        f.write_str(text)
    }
}

impl Library {
    /// The status of the call that this thread has just made: what Kerberos has to say of it is kept by thread.
    pub(super) fn status(&'static self, major: u32, minor: u32) -> Status {
        // The text for 0 is that of an unknown error.
        let minor_text = if minor == 0 { String::new() } else { self.texts(minor, GSS_C_MECH_CODE) };
        // Kerberos knows no more than GSSAPI then, as where a ticket has ended, and this is the system's word for 0.
        let minor_text = if minor_text == SUCCESS { String::new() } else { minor_text };
        Status { major, minor, major_text: self.texts(major, GSS_C_GSS_CODE), minor_text }
    }

    /// `Ok` for success alone. Where the library answers with more than an error, as that it has to go on, the caller
    /// looks at that first.
    pub(super) fn check(&'static self, major: u32, minor: u32) -> Result<(), Status> {
        if major == 0 { Ok(()) } else { Err(self.status(major, minor)) }
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn texts(&'static self, status: u32, kind: c_int) -> String {
        let (mut oid, mut texts, mut more) = (OidDesc::of(&KRB5), Vec::new(), 0);
        let mut output = Output::new(self);
        for _ in 0..TEXT_COUNT_MAX {
            let mut minor = 0;
            let major = {
                let buffer = output.fill();
                // SAFETY: all pointers are to locals of this call, and the mechanism is only read.
                unsafe {
                    (self.calling().gss_display_status)(
                        &raw mut minor,
                        status,
                        kind,
                        &raw mut oid,
                        &raw mut more,
                        buffer,
                    )
                }
            };
            if major != 0 {
                break;
            }
            texts.push(String::from_utf8_lossy(output.bytes()).into_owned());
            if more == 0 {
                break;
            }
        }
        texts.join("; ")
    }
}
