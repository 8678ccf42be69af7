//! Kerberos as it is played in tests that have no KDC: whoever knows the realm's word is who he says he is. All else is
//! as with the library: several messages, a choice of protection at the end, numbered messages behind it.

use security::sasl::digest::Qop;
use security::sasl::rpc::{
    Accepting, Acceptor, ClientGss, GssLayerOffer, GssOutcome, Initiating, Initiator, KerberosOffer, Protector,
};

/// What both ends of a realm know.
#[derive(Clone, Debug)]
pub(crate) struct Realm(pub(crate) &'static str);

impl Acceptor for Realm {
    fn begin(&self, offer: &KerberosOffer) -> Result<Box<dyn Accepting>, String> {
        Ok(Box::new(Accepted { word: self.0, qops: offer.qops.clone(), name: None, played: Played::default() }))
    }
}

/// The ticket of one user. `padding` makes it long, as by the groups in one of Active Directory.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) name: String,
    pub(crate) word: &'static str,
    pub(crate) padding: usize,
}

impl Ticket {
    pub(crate) fn of(name: &str, word: &'static str) -> Self {
        Self { name: name.to_owned(), word, padding: 0 }
    }
}

impl Initiator for Ticket {
    fn begin(&self, _server: &(String, String), qops: &[Qop]) -> Result<Box<dyn Initiating>, String> {
        Ok(Box::new(Asking { ticket: self.clone(), qops: qops.to_vec(), played: Played::default() }))
    }
}

struct Accepted {
    word: &'static str,
    qops: Vec<Qop>,
    name: Option<String>,
    played: Played,
}

impl Accepting for Accepted {
    fn step(&mut self, token: &[u8]) -> Result<GssOutcome, String> {
        let offer = GssLayerOffer::new(&self.qops);
        let Some(name) = self.name.clone() else {
            let text = String::from_utf8_lossy(token);
            let mut words = text.split(' ');
            let (name, word) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if word != self.word {
                return Err("Checksum failed".to_owned());
            }
            self.name = Some(name.to_owned());
            return Ok(GssOutcome::Continue([self.word.as_bytes(), &offer.encode()].concat()));
        };
        let choice = offer.chosen(token).map_err(|error| error.to_string())?;
        Ok(GssOutcome::Done { token: None, name, qop: choice.qop, acting_as: choice.acting_as })
    }
}

struct Asking {
    ticket: Ticket,
    qops: Vec<Qop>,
    played: Played,
}

impl Initiating for Asking {
    fn step(&mut self, token: Option<&[u8]>) -> Result<ClientGss, String> {
        let Ticket { name, word, padding } = &self.ticket;
        let Some(token) = token else {
            let padding = "x".repeat(*padding);
            return Ok(ClientGss::Continue(Some(format!("{name} {word} {padding}").into_bytes())));
        };
        let offer = token.strip_prefix(word.as_bytes()).ok_or("the server is of another realm")?;
        let offer = GssLayerOffer::parse(offer).map_err(|error| error.to_string())?;
        let choice = offer.choose(&self.qops).map_err(|error| error.to_string())?;
        Ok(ClientGss::Complete { token: Some(choice.encode()), qop: choice.qop })
    }
}

/// Numbers and sums: no protection, but all that a test can see of one.
#[derive(Default)]
struct Played {
    sent: u32,
    came: u32,
}

fn sum(number: u32, piece: &[u8]) -> [u8; 4] {
    piece.iter().fold(number, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte)).to_be_bytes()
}

impl Protector for Played {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend(sum(self.sent, piece));
        out.extend(piece.iter().map(|byte| !byte));
        self.sent += 1;
        Ok(())
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let (have, piece) = sealed.split_first_chunk::<4>().ok_or("it is too short")?;
        let piece: Vec<u8> = piece.iter().map(|byte| !byte).collect();
        if *have != sum(self.came, &piece) {
            return Err("Message stream modified".to_owned());
        }
        self.came += 1;
        out.extend(piece);
        Ok(())
    }
}

impl Protector for Accepted {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.played.wrap(piece, out)
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.played.unwrap(sealed, out)
    }
}

impl Protector for Asking {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.played.wrap(piece, out)
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.played.unwrap(sealed, out)
    }
}
