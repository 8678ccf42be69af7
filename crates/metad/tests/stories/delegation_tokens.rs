//! Who calls: by a ticket, by a delegation token, by neither; and what becomes of tokens.

use crate::played_kerberos::{Realm, Ticket};
use crate::support::{CLIENT, config, held_ports};
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION, INVALID_TOKEN, IO, RETRIABLE, STANDBY};
use hdfs::proto::*;
use io::{Clock, ManualClock, SystemClock};
use metad::{AuthenticationSetting, Config, Environment, MemberAddr, Metad, ProxyUser, SecurityConfig};
use prost::Message;
use rpc::{CallError, Client, ClientOptions, Kerberos, Login, LoginToken};
use security::sasl::digest::Qop;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use types::Millis;
use wire::node::{NODE_PROTOCOL, REGISTER, RegisterRequest, RegisterResponse};

const WORD: &str = "sesame";
const HOST: &str = "meta1";
const DAY: Duration = Duration::from_secs(86_400);
/// For what must happen, on a machine that does other things as well.
const SOON: Duration = Duration::from_secs(60);

fn secure() -> SecurityConfig {
    let oozie = ProxyUser { users: Some("ada".into()), hosts: Some("127.0.0.1".into()), ..ProxyUser::default() };
    SecurityConfig {
        authentication: AuthenticationSetting::Kerberos,
        principal: Some("nn/_HOST@EXAMPLE.COM".into()),
        proxy_users: BTreeMap::from([("oozie".to_owned(), oozie)]),
        rpc_protection: vec!["authentication".into(), "privacy".into()],
        ..SecurityConfig::default()
    }
}

async fn start(config: Config, clock: Arc<dyn Clock>) -> Metad {
    let environment = Environment::of_machine(&config, clock).await.unwrap();
    let login = Some(Arc::new(login(Some(Ticket::of("nn/meta1@EXAMPLE.COM", WORD)), None, Qop::Auth)));
    let environment = Environment { host: HOST.into(), acceptor: Some(Arc::new(Realm(WORD))), login, ..environment };
    metad::start_in(config, environment).await.unwrap()
}

fn login(ticket: Option<Ticket>, token: Option<LoginToken>, qop: Qop) -> Login {
    let kerberos = ticket.map(|ticket| Kerberos {
        initiator: Arc::new(ticket),
        services: vec!["nn".into()],
        host: Some(HOST.into()),
    });
    Login {
        tokens: token.into_iter().collect(),
        kerberos,
        qops: vec![qop],
        simple: false,
        acting_as: None,
        lacking: None,
    }
}

struct World {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    metad: Metad,
    security: SecurityConfig,
}

impl World {
    async fn new() -> Self {
        Self::with(secure()).await
    }

    async fn with(security: SecurityConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Millis(1_800_000_000_000)));
        let config = Config { security: security.clone(), ..config(dir.path()) };
        let metad = start(config, clock.clone()).await;
        Self { dir, clock, metad, security }
    }

    async fn restart(&mut self) {
        self.metad.shutdown().await;
        let config = Config { security: self.security.clone(), ..config(self.dir.path()) };
        self.metad = start(config, self.clock.clone()).await;
    }

    fn addr(&self) -> String {
        self.metad.rpc_addr().to_string()
    }

    fn user(&self, name: &str) -> User {
        User::at(self.addr(), login(Some(Ticket::of(name, WORD)), None, Qop::Privacy))
    }

    fn job(&self, token: &TokenProto) -> User {
        User::at(self.addr(), login(None, Some(login_token(token)), Qop::Privacy))
    }

    fn audited(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.dir.path().join("meta/audit/audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn login_token(token: &TokenProto) -> LoginToken {
    let TokenProto { identifier, password, .. } = token.clone();
    LoginToken { identifier, password, addrs: Vec::new() }
}

struct User {
    rpc: Client,
}

type Answer<T> = Result<T, (String, String)>;

impl User {
    fn at(addr: String, login: Login) -> Self {
        let options = ClientOptions::default().with_login(Some(Arc::new(login)));
        Self { rpc: Client::with_options(addr, "nobody".into(), CLIENT, options) }
    }

    /// Tries again as long as it is told to.
    async fn ask<T: Message + Default>(&self, method: &str, request: &impl Message) -> Answer<T> {
        let asked = async {
            loop {
                match self.rpc.call(method, request).await {
                    Err(CallError::Remote { class, .. }) if class == RETRIABLE => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Err(CallError::Remote { class, message, .. }) => return Err((class, message)),
                    Err(other) => panic!("{method}: {other}"),
                    Ok(answer) => return Ok(answer),
                }
            }
        };
        tokio::time::timeout(SOON, asked).await.expect("an answer")
    }

    async fn token(&self) -> Answer<TokenProto> {
        let request = GetDelegationTokenRequestProto { renewer: "yarn/rm@EXAMPLE.COM".into() };
        let answer: GetDelegationTokenResponseProto = self.ask("getDelegationToken", &request).await?;
        Ok(answer.token.expect("a token"))
    }

    async fn renew(&self, token: &TokenProto) -> Answer<Millis> {
        let request = RenewDelegationTokenRequestProto { token: token.clone() };
        let answer: RenewDelegationTokenResponseProto = self.ask("renewDelegationToken", &request).await?;
        Ok(Millis(answer.new_expiry_time))
    }

    async fn cancel(&self, token: &TokenProto) -> Answer<()> {
        let request = CancelDelegationTokenRequestProto { token: token.clone() };
        let _done: CancelDelegationTokenResponseProto = self.ask("cancelDelegationToken", &request).await?;
        Ok(())
    }

    async fn stat(&self) -> Answer<()> {
        let _root: GetFileInfoResponseProto =
            self.ask("getFileInfo", &GetFileInfoRequestProto { src: "/".into() }).await?;
        Ok(())
    }

    async fn mkdirs(&self, path: &str) -> Answer<()> {
        let masked = FsPermissionProto { perm: 0o755 };
        let request = MkdirsRequestProto { src: path.into(), masked, create_parent: true, unmasked: None };
        let _made: MkdirsResponseProto = self.ask("mkdirs", &request).await?;
        Ok(())
    }
}

fn refused<T: std::fmt::Debug>(answer: Answer<T>, class: &str, says: &str) {
    let (have, message) = answer.unwrap_err();
    assert_eq!(have, class, "{message}");
    assert!(message.starts_with(says), "{message}");
}

/// How a token is named to people.
fn named(token: &TokenProto) -> String {
    format!("token ({} for {ADA})", number(token))
}

fn number(token: &TokenProto) -> u32 {
    security::delegation::Identifier::parse(&token.identifier).unwrap().sequence
}

const ADA: &str = "ada@EXAMPLE.COM";
const YARN: &str = "yarn/rm@EXAMPLE.COM";

/// A user gets a token, and a job that has nothing else calls by it, as the user; a token begets none.
#[tokio::test]
async fn a_job_calls_with_the_token_alone() {
    let world = World::new().await;
    world.user("nn/meta1@EXAMPLE.COM").mkdirs("/made by the superuser").await.unwrap();
    let token = world.user(ADA).token().await.unwrap();
    let dir = std::fs::metadata(world.dir.path().join("meta")).unwrap();
    assert_eq!(dir.permissions().mode() & 0o777, 0o700, "the keys are in there");
    assert_eq!((&*token.kind, &*token.service), (security::delegation::KIND, ""));
    let job = world.job(&token);
    job.stat().await.unwrap();
    refused(job.mkdirs("/of ada").await, ACCESS_CONTROL, "Permission denied: user=ada, access=WRITE");
    let only = "Delegation Token can be";
    refused(job.token().await, IO, &format!("{only} issued only with kerberos or web authentication"));
    refused(job.renew(&token).await, IO, &format!("{only} renewed only"));
    refused(job.cancel(&token).await, IO, &format!("{only} cancelled only"));
    job.stat().await.unwrap();
    world.metad.shutdown().await;
    let lines = world.audited();
    let denied = lines.iter().find(|line| line["paths"][0] == "/of ada").unwrap();
    assert_eq!((&denied["user"], &denied["authentication"]), (&ADA.into(), &"TOKEN".into()));
    let made = lines.iter().find(|line| line["paths"][0] == "/made by the superuser").unwrap();
    assert_eq!((&made["user"], &made["authentication"]), (&"nn/meta1@EXAMPLE.COM".into(), &"KERBEROS".into()));
}

/// The keys of block tokens are for the store's own servers: neither a user nor a job, nor who acts for their user.
#[tokio::test]
async fn only_the_stores_own_servers_are_datanodes() {
    let world = World::new().await;
    let token = world.user(ADA).token().await.unwrap();
    let register = async |login: Login| {
        let options = ClientOptions::default().with_login(Some(Arc::new(login)));
        let rpc = Client::with_options(world.addr(), "nobody".into(), NODE_PROTOCOL, options);
        User { rpc }.ask::<RegisterResponse>(REGISTER, &RegisterRequest::default()).await
    };
    let ticket = |name: &str| login(Some(Ticket::of(name, WORD)), None, Qop::Privacy);
    for (caller, whom) in [
        (ticket(ADA), ADA),
        (ticket("ada@ELSEWHERE.COM"), ""),
        (login(None, Some(login_token(&token)), Qop::Privacy), ADA),
        (Login { acting_as: Some("nn".into()), ..ticket("ada/admin@EXAMPLE.COM") }, ""),
    ] {
        let (class, message) = register(caller).await.unwrap_err();
        assert!([ACCESS_CONTROL, AUTHORIZATION].contains(&&*class), "{class}: {message}");
        assert!(message.contains(whom), "{message}");
    }
    if let Err((class, message)) = register(ticket("nn/meta1@EXAMPLE.COM")).await {
        assert!(class != ACCESS_CONTROL, "what it says is looked at: {message}");
    }
    world.metad.shutdown().await;
}

/// Numbers of tokens do not come again, so who may have none takes none.
#[tokio::test]
async fn who_may_have_no_token_takes_no_number() {
    let world = World::new().await;
    let first = world.user(ADA).token().await.unwrap();
    for _ in 0..5 {
        world.job(&first).token().await.unwrap_err();
    }
    let second = world.user(ADA).token().await.unwrap();
    assert_eq!(number(&second), number(&first) + 1);
    world.metad.shutdown().await;
}

/// Who acts for somebody gets a token that says so, and only for whom and from where he may.
#[tokio::test]
async fn a_proxy_user_gets_tokens_for_others() {
    let world = World::new().await;
    let acting = |user: &str| {
        let ticket = Some(Ticket::of("oozie/gate@EXAMPLE.COM", WORD));
        let login = Login { acting_as: Some(user.into()), ..login(ticket, None, Qop::Privacy) };
        User::at(world.addr(), login)
    };
    let token = acting("ada").token().await.unwrap();
    let identifier = security::delegation::Identifier::parse(&token.identifier).unwrap();
    assert_eq!(
        (&*identifier.owner, &*identifier.real_user, &*identifier.renewer),
        ("ada", "oozie/gate@EXAMPLE.COM", "yarn")
    );
    world.job(&token).stat().await.unwrap();
    refused(
        acting("eve").stat().await,
        AUTHORIZATION,
        "User: oozie/gate@EXAMPLE.COM is not allowed to impersonate eve",
    );
    world.metad.shutdown().await;
    let lines = world.audited();
    let got = lines.iter().find(|line| line["method"] == "getDelegationToken").unwrap();
    assert_eq!(got["authentication"], "PROXY");
    assert_eq!(
        (&got["real_user"], &got["real_authentication"]),
        (&"oozie/gate@EXAMPLE.COM".into(), &"KERBEROS".into())
    );
    let denied = lines.iter().find(|line| line["allowed"] == false).unwrap();
    assert_eq!((&denied["user"], &denied["real_user"]), (&"eve".into(), &"oozie/gate@EXAMPLE.COM".into()));
}

#[tokio::test]
async fn who_proves_nothing_is_nobody() {
    let world = World::new().await;
    let simple = User { rpc: Client::new(world.addr(), "root".into(), CLIENT) };
    refused(simple.stat().await, ACCESS_CONTROL, "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]");
    let forger = User::at(world.addr(), login(Some(Ticket::of("nn/meta1@EXAMPLE.COM", "guessed")), None, Qop::Auth));
    refused(forger.stat().await, hdfs::exception::SASL, "GSS initiate failed");
    refused(world.user("ada@ELSEWHERE.COM").stat().await, ACCESS_CONTROL, "Illegal principal name");
    let text = world.metad.metrics(metrics::Format::Prometheus);
    let failures = "levada_rpc_authentication_failures_total 2";
    assert!(text.lines().any(|line| line.starts_with(failures)), "{text}");
}

/// Who was refused, by which means, and why; and those who knock all day do not push the lines of others out.
#[tokio::test]
async fn who_is_refused_with_a_token_is_written_down() {
    let world = World::new().await;
    let token = world.user(ADA).token().await.unwrap();
    let forged = TokenProto { password: vec![7; 32].into(), ..token.clone() };
    refused(world.job(&forged).stat().await, INVALID_TOKEN, "the token is not valid");
    refused(world.job(&token).token().await, IO, "Delegation Token can be issued only with kerberos");
    refused(world.user("eve@EXAMPLE.COM").cancel(&token).await, ACCESS_CONTROL, "eve@EXAMPLE.COM is not authorized");
    world.user(ADA).cancel(&token).await.unwrap();
    refused(world.user(YARN).renew(&token).await, INVALID_TOKEN, "token (");
    let strangers = 30;
    for _ in 0..strangers {
        refused(world.job(&token).stat().await, INVALID_TOKEN, "the token is not valid");
    }
    world.metad.shutdown().await;
    let lines = world.audited();
    let denied = lines.iter().filter(|line| line["allowed"] == false).map(|line| {
        let text = |field: &str| line[field].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {} {}: {}",
            text("authentication"),
            text("user"),
            text("method"),
            text("subject"),
            text("reason")
        )
    });
    let denied: Vec<String> = denied.collect();
    let of_ada = format!("token {} of {ADA}", number(&token));
    let wrong = &denied[0];
    assert!(wrong.starts_with(&format!("TOKEN {ADA} login {of_ada}: ")) && wrong.len() > 60, "{wrong}");
    assert_eq!(
        denied[1..5],
        [
            format!(
                "TOKEN {ADA} getDelegationToken renewer {YARN}: Delegation Token can be issued only with kerberos or \
                 web authentication"
            ),
            format!(
                "KERBEROS eve@EXAMPLE.COM cancelDelegationToken {of_ada}: eve@EXAMPLE.COM is not authorized to cancel \
                 the {}",
                named(&token)
            ),
            format!("KERBEROS {YARN} renewDelegationToken {of_ada}: {} can't be found in cache", named(&token)),
            format!("TOKEN {ADA} login {of_ada}: {} can't be found in cache", named(&token)),
        ]
    );
    assert!(denied.len() - 4 < strangers, "{} lines", denied.len());
    let login = lines.iter().find(|line| line["method"] == "login").unwrap();
    assert_eq!((&login["protocol"], &login["error"]), (&"SASL".into(), &INVALID_TOKEN.into()));
}

#[tokio::test]
async fn a_token_counts_as_long_as_its_renewer_wants() {
    let world = World::new().await;
    let (token, yarn) = (world.user(ADA).token().await.unwrap(), world.user(YARN));
    refused(world.user(ADA).renew(&token).await, ACCESS_CONTROL, "ada@EXAMPLE.COM tries to renew a token");
    let forged = TokenProto { password: vec![7; 32].into(), ..token.clone() };
    refused(yarn.renew(&forged).await, ACCESS_CONTROL, "yarn/rm@EXAMPLE.COM is trying to renew a token");
    refused(world.job(&forged).stat().await, INVALID_TOKEN, "the token is not valid");
    world.clock.advance(DAY / 2);
    assert_eq!(yarn.renew(&token).await.unwrap(), Millis(world.clock.now().0 + 86_400_000));
    world.clock.advance(DAY * 3 / 4);
    world.job(&token).stat().await.unwrap();
    world.clock.advance(DAY / 4);
    refused(world.job(&token).stat().await, INVALID_TOKEN, "the token is not valid");
    yarn.renew(&token).await.expect("what expired for want of a renewal is renewed");
    world.job(&token).stat().await.unwrap();
    world.clock.advance(6 * DAY);
    refused(yarn.renew(&token).await, INVALID_TOKEN, &named(&token));
    refused(world.job(&token).stat().await, INVALID_TOKEN, "the token is not valid");
}

/// Also after a restart, from the rows.
#[tokio::test]
async fn a_cancelled_token_is_none_for_ever() {
    let mut world = World::new().await;
    let tokens = [world.user(ADA).token().await.unwrap(), world.user(ADA).token().await.unwrap()];
    let last = world.user("bob@EXAMPLE.COM").token().await.unwrap();
    refused(
        world.user("eve@EXAMPLE.COM").cancel(&tokens[0]).await,
        ACCESS_CONTROL,
        "eve@EXAMPLE.COM is not authorized",
    );
    world.user(ADA).cancel(&tokens[0]).await.unwrap();
    world.user(YARN).cancel(&tokens[1]).await.unwrap();
    let gone = format!("{} can't be found", named(&tokens[0]));
    refused(world.user(ADA).cancel(&tokens[0]).await, INVALID_TOKEN, &gone);
    for token in &tokens {
        refused(world.job(token).stat().await, INVALID_TOKEN, "the token is not valid");
    }
    world.restart().await;
    world.job(&last).stat().await.unwrap();
    for token in &tokens {
        refused(world.job(token).stat().await, INVALID_TOKEN, "the token is not valid");
    }
    let next = world.user(ADA).token().await.unwrap();
    assert!(number(&next) > number(&last), "no number comes twice");
}

/// Once it has expired it is forgotten, and cannot be renewed.
#[tokio::test]
async fn an_expired_token_is_forgotten() {
    let world = World::with(SecurityConfig { delegation_token_renew_ms: 20_000, ..secure() }).await;
    let [token, renewed] = [world.user(ADA).token().await.unwrap(), world.user(ADA).token().await.unwrap()];
    world.clock.advance(Duration::from_secs(10));
    world.user(YARN).renew(&renewed).await.unwrap();
    world.clock.advance(Duration::from_secs(15));
    let forgotten = async {
        while world.user(YARN).renew(&token).await.is_ok() {
            // Which makes it count anew.
            world.clock.advance(Duration::from_secs(25));
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    };
    tokio::time::timeout(SOON, forgotten).await.expect("it is forgotten");
    let gone = format!("{} can't be found", named(&token));
    refused(world.user(YARN).renew(&token).await, INVALID_TOKEN, &gone);
}

#[tokio::test]
async fn where_nothing_is_proven_there_are_no_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let metad = metad::start(config(dir.path())).await.unwrap();
    let user = User { rpc: Client::new(metad.rpc_addr().to_string(), "ada".into(), CLIENT) };
    let request = GetDelegationTokenRequestProto { renewer: "yarn".into() };
    let answer: GetDelegationTokenResponseProto = user.ask("getDelegationToken", &request).await.unwrap();
    assert_eq!(answer.token, None);
    let world = World::new().await;
    let token = world.user(ADA).token().await.unwrap();
    refused(user.renew(&token).await, INVALID_TOKEN, "the token can't be found");
    let job = |simple| Login { simple, ..login(None, Some(login_token(&token)), Qop::Auth) };
    let addr = metad.rpc_addr().to_string();
    User::at(addr.clone(), job(true)).stat().await.expect("it goes on as SIMPLE if its settings allow that");
    refused(User::at(addr, job(false)).stat().await, AUTHORIZATION, "cannot log in: the server asks to go on without");
    metad.shutdown().await;
}

async fn member(dir: &Path, id: u64, ports: &[u16]) -> Metad {
    let mut config = Config {
        security: secure(),
        ..Config::new(dir.join(format!("meta{id}")), ([127, 0, 0, 1], ports[id as usize - 1]).into())
    };
    config.id = id;
    config.members = (1..).zip(ports).map(|(id, port)| MemberAddr { id, addr: format!("127.0.0.1:{port}") }).collect();
    start(config, Arc::new(SystemClock::new())).await
}

/// Members prove themselves to each other; a token that one leader gave out counts at all servers, and at the next
/// leader, as does its cancellation.
#[tokio::test]
async fn a_token_outlives_its_leader() {
    let dir = tempfile::tempdir().unwrap();
    let (_held, ports) = held_ports(3);
    let mut members = BTreeMap::new();
    for id in 1..=3 {
        members.insert(id, member(dir.path(), id, &ports).await);
    }
    let leader = async |members: &BTreeMap<u64, Metad>| {
        let found = async {
            loop {
                for (id, metad) in members {
                    let ticket = Some(Ticket::of(ADA, WORD));
                    let user = User::at(metad.rpc_addr().to_string(), login(ticket, None, Qop::Auth));
                    if user.stat().await.is_ok() {
                        return (*id, user);
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(SOON, found).await.expect("one of them leads")
    };
    let (first, user) = leader(&members).await;
    let [token, cancelled] = [user.token().await.unwrap(), user.token().await.unwrap()];
    user.cancel(&cancelled).await.unwrap();
    let job = |metad: &Metad, token: &TokenProto| {
        User::at(metad.rpc_addr().to_string(), login(None, Some(login_token(token)), Qop::Auth))
    };
    job(&members[&first], &token).stat().await.unwrap();
    for (_, standby) in members.iter().filter(|(id, _)| **id != first) {
        // Of the first, the caller is believed, or sent on if this server has not heard of its token yet.
        refused(job(standby, &token).stat().await, STANDBY, "");
        refused(job(standby, &cancelled).stat().await, STANDBY, "");
    }
    members.remove(&first).unwrap().shutdown().await;
    let (second, user) = leader(&members).await;
    assert_ne!(first, second);
    job(&members[&second], &token).stat().await.unwrap();
    // On a busy machine it is not sure for a moment, and sends callers on.
    let told = async |members: &BTreeMap<u64, Metad>, token: &TokenProto, wanted: &str| {
        let told = async {
            while !job(&members[&second], token).stat().await.is_err_and(|(class, _)| class == wanted) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(SOON, told).await.unwrap_or_else(|_| panic!("never {wanted}"));
    };
    told(&members, &cancelled, INVALID_TOKEN).await;
    user.cancel(&token).await.unwrap();
    told(&members, &token, INVALID_TOKEN).await;
    // Without the others it cannot know what they have been told since: another one may lead them.
    let third = *members.keys().find(|id| **id != second).unwrap();
    members.remove(&third).unwrap().shutdown().await;
    told(&members, &token, STANDBY).await;
}
