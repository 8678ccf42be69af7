// Prints what the other side says: JDK's DIGEST-MD5, and Hadoop's identifiers, rules and handshakes.
// README.md beside it says how it is run. Random values differ at each run; the tests read them from the files.

import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import javax.security.auth.callback.*;
import javax.security.sasl.*;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.net.BasicInetPeer;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.IOStreamPair;
import org.apache.hadoop.hdfs.protocol.datatransfer.TrustedChannelResolver;
import org.apache.hadoop.hdfs.protocol.datatransfer.sasl.*;
import org.apache.hadoop.hdfs.security.token.block.*;
import org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier;
import org.apache.hadoop.hdfs.server.datanode.DNConf;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.ipc.*;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.authentication.util.KerberosName;
import org.apache.hadoop.security.authorize.DefaultImpersonationProvider;
import org.apache.hadoop.security.token.SecretManager;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenInfo;
import org.apache.hadoop.security.token.delegation.AbstractDelegationTokenSelector;

public class Make {
  static final int[] LENS = {1, 5, 6, 8, 100, 1000};

  public static void main(String[] args) throws Exception {
    Path dir = Paths.get(args[0]);
    write(dir.resolve("digest.txt"), digest());
    write(dir.resolve("delegation.txt"), delegation());
    write(dir.resolve("block_token.txt"), blockToken());
    write(dir.resolve("auth_to_local.txt"), authToLocal());
    write(dir.resolve("proxy.txt"), proxy());
    write(dir.resolve("transfer.txt"), transfer());
    write(dir.resolve("rpc.txt"), rpc());
    System.exit(0);
  }

  static void write(Path path, List<String> lines) throws IOException {
    Files.write(path, lines, StandardCharsets.UTF_8);
  }

  static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes == null ? new byte[0] : bytes);
  }

  static byte[] message(int number) {
    byte[] bytes = new byte[LENS[number]];
    for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (i * 31 + number);
    return bytes;
  }

  // ---- DIGEST-MD5 as the JDK speaks it --------------------------------------------------------------------------

  static final String USER = "AAhhZGFARVhBTVBMRQ==";
  static final String PASSWORD = "c2VjcmV0IHNlY3JldCBzZWNyZXQ=";

  static CallbackHandler handler(String user, String password) {
    return callbacks -> {
      for (Callback callback : callbacks) {
        if (callback instanceof NameCallback) ((NameCallback) callback).setName(user);
        if (callback instanceof PasswordCallback) ((PasswordCallback) callback).setPassword(password.toCharArray());
        if (callback instanceof RealmCallback) ((RealmCallback) callback).setText(((RealmCallback) callback).getDefaultText());
        if (callback instanceof AuthorizeCallback) {
          AuthorizeCallback authorize = (AuthorizeCallback) callback;
          authorize.setAuthorized(authorize.getAuthenticationID().equals(authorize.getAuthorizationID()));
        }
      }
    };
  }

  static Map<String, String> props(String qop, String cipher) {
    Map<String, String> props = new TreeMap<>();
    props.put(Sasl.QOP, qop);
    props.put(Sasl.SERVER_AUTH, "true");
    if (cipher != null) props.put("com.sun.security.sasl.digest.cipher", cipher);
    return props;
  }

  static List<String> digest() throws Exception {
    List<String> out = new ArrayList<>();
    conversation(out, "rpc.auth", "", "default", "auth", "auth", null);
    conversation(out, "rpc.auth-int", "", "default", "auth-int", "auth-int", null);
    conversation(out, "rpc.auth-conf", "", "default", "auth-conf", "auth-conf", null);
    conversation(out, "rpc.any", "", "default", "auth-conf,auth-int,auth", "auth-int,auth", null);
    for (String cipher : new String[] {"3des", "rc4", "des", "rc4-56", "rc4-40"})
      conversation(out, "hdfs." + cipher, "hdfs", "0", "auth-conf", "auth-conf", cipher);
    // What JDK's client answers to the challenges of ours; the tests hold that they are.
    answer(out, "ours.auth", "", "default",
        "realm=\"default\",nonce=\"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\",qop=\"auth\",charset=utf-8,algorithm=md5-sess");
    answer(out, "ours.auth-conf", "hdfs", "0",
        "realm=\"0\",nonce=\"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\",qop=\"auth-int,auth-conf\",charset=utf-8,"
            + "cipher=\"3des,rc4\",algorithm=md5-sess");
    return out;
  }

  static void conversation(List<String> out, String name, String protocol, String host, String serverQop,
      String clientQop, String cipher) throws Exception {
    SaslServer server = Sasl.createSaslServer("DIGEST-MD5", protocol, host, props(serverQop, null), handler(USER, PASSWORD));
    SaslClient client = Sasl.createSaslClient(new String[] {"DIGEST-MD5"}, null, protocol, host, props(clientQop, cipher),
        handler(USER, PASSWORD));
    byte[] challenge = server.evaluateResponse(new byte[0]);
    byte[] response = client.evaluateChallenge(challenge);
    byte[] rspauth = server.evaluateResponse(response);
    client.evaluateChallenge(rspauth);
    if (!server.isComplete() || !client.isComplete()) throw new IllegalStateException(name);
    out.add(name + ".challenge " + hex(challenge));
    out.add(name + ".response " + hex(response));
    out.add(name + ".rspauth " + hex(rspauth));
    if (client.getNegotiatedProperty(Sasl.QOP).equals("auth")) return;
    for (int number = 0; number < LENS.length; number++) {
      byte[] plain = message(number);
      byte[] up = client.wrap(plain, 0, plain.length), down = server.wrap(plain, 0, plain.length);
      if (!Arrays.equals(server.unwrap(up, 0, up.length), plain)) throw new IllegalStateException(name);
      if (!Arrays.equals(client.unwrap(down, 0, down.length), plain)) throw new IllegalStateException(name);
      out.add(name + ".up." + number + " " + hex(up));
      out.add(name + ".down." + number + " " + hex(down));
    }
  }

  static void answer(List<String> out, String name, String protocol, String host, String challenge) throws Exception {
    SaslClient client = Sasl.createSaslClient(new String[] {"DIGEST-MD5"}, null, protocol, host,
        props("auth-conf,auth-int,auth", null), handler(USER, PASSWORD));
    byte[] response = client.evaluateChallenge(challenge.getBytes(StandardCharsets.UTF_8));
    out.add(name + ".challenge " + hex(challenge.getBytes(StandardCharsets.UTF_8)));
    out.add(name + ".response " + hex(response));
  }

  // ---- Identifiers: the name of each line has the fields, as Hadoop reads or writes them -------------------------

  static List<String> delegation() throws Exception {
    List<String> out = new ArrayList<>();
    Object[][] examples = {
      {"ada@EXAMPLE.COM", "yarn", "", 1764115200000L, 1764720000000L, 300, 2},
      {"ada", "", "", 0L, 0L, 1, 1},
      {"ada", "yarn", "oozie/host.example.com@EXAMPLE.COM", 127L, 128L, 127, 128},
      {"ä\u4e16", "r", "x", 255L, 256L, 65535, 65536},
      {"a".repeat(200), "b".repeat(128), "c".repeat(127), Long.MAX_VALUE, Long.MAX_VALUE, Integer.MAX_VALUE, Integer.MAX_VALUE},
      {"ada", "yarn", "", 1L, 2L, -1, -200},
    };
    for (Object[] example : examples) {
      DelegationTokenIdentifier token = new DelegationTokenIdentifier(new Text((String) example[0]),
          new Text((String) example[1]), new Text((String) example[2]));
      token.setIssueDate((Long) example[3]);
      token.setMaxDate((Long) example[4]);
      token.setSequenceNumber((Integer) example[5]);
      token.setMasterKeyId((Integer) example[6]);
      StringJoiner name = new StringJoiner("|");
      for (Object field : example) name.add(field.toString());
      out.add(name + " " + hex(token.getBytes()));
    }
    return out;
  }

  static List<String> blockToken() throws Exception {
    List<String> out = new ArrayList<>();
    for (String digits : new String[] {
      "0880f0d6ebab33b0060110ac021a0361646130013003a006828001a80607",
      "08ffffffffffffffff7fb0060110ffffffff0f1a017828ffffffffffffffff7fa006ffffffffffffffffff01a806ffffffffffffffffff01",
    }) {
      BlockTokenIdentifier token = new BlockTokenIdentifier();
      token.readFields(new DataInputStream(new ByteArrayInputStream(HexFormat.of().parseHex(digits))));
      out.add(token.getExpiryDate() + "|" + token.getKeyId() + "|" + token.getUserId() + "|" + token.getBlockId() + "|"
          + token.getAccessModes().toString().replace(" ", "") + " " + digits);
    }
    return out;
  }

  // ---- Rules: tab-separated, with what Hadoop makes of them at the end -------------------------------------------

  static List<String> authToLocal() throws Exception {
    String[] rules = {
      "DEFAULT",
      "RULE:[1:$1@$0](.*@OTHER\\.COM)s/@.*//\nDEFAULT",
      "RULE:[2:$1;$2](^.*;admin$)s/;admin$//\nRULE:[2:$1]\nDEFAULT",
      "RULE:[2:$1@$0]([nd]n@EXAMPLE\\.COM)s/.*/hdfs/\nRULE:[2:$1@$0](rm@.*)s/.*/yarn/\nDEFAULT",
      "RULE:[1:$1@$0](.*@.*)s/([a-z]+)@.*/$1x/L",
      "RULE:[1:$1@$0](.*)s/[aeiou]/_/g",
      "RULE:[1:$1@$0](.*)s/[aeiou]/_/",
      "RULE:[1:$1@$0]",
      "RULE:[1:$1]/L\nRULE:[2:$2/$1]/L",
      "RULE:[1:u.$1](u\\.[A-Z].*)s/u\\.(.)(.*)/$2\\$$1/g/L  DEFAULT",
      "RULE:[2:$1-$2-$0]s/-/./g\nRULE:[1:no$$1]",
      "RULE:[1:$1@$0](\\w+@\\w+\\.COM)s/@(\\w+)\\.COM/.$1/L RULE:[2:$1]s/^$/empty/",
      "RULE:[1:$1@$0](x*y)s/a/b/\nRULE:[1:fixed](fixed)s/x|i/$0$0/g",
      "  RULE:[1:$1]   RULE:[2:$1]  ",
      "RULE:[1:$1](ada)s/a(b)?/$1-/g\nDEFAULT",
      "RULE:[1:$1@$0](ada@EXAMPLE.COM)s/@.*///L",
      "RULE:[1:$1]s/a*/x/g",
      "RULE:[1:$1]s/(a)|(d)/<$2$1>/gRULE:[2:$1$2]s/\\d+|\\./\\\\/g",
      "RULE:[1:$1](A.*|B{2,3}c?)s/(?:(A)d)(?i)A/$10$1/DEFAULT/L",
      "RULE:[1:$1](.{3})s/^.|[^a-z']$//g RULE:[3:$1] RULE:[0:x]",
      "RULE:[1:$1](\\w+)s/(.)/$1$1/gLRULE:[2:$0]s/[.]/-/",
      // None of these is a list of rules.
      "RULE:[1:$1@$0](.*@(A|B))s/@.*//",
      "RULE:[1:$1",
      "NONE",
      "RULE:[x:$1]",
      "RULE:[1:$1](*)",
      "RULE:[2:$3]",
      "RULE:[1:$1]s/a/$9/",
      "RULE:[1:$1]s/a/\\/",
      "DEFAULTX",
    };
    String[] names = {
      "ada@EXAMPLE.COM", "ada@OTHER.COM", "ada", "Ada@EXAMPLE.COM", "nn/host.example.com@EXAMPLE.COM",
      "rm/host@OTHER.COM", "ada/admin@EXAMPLE.COM", "ada/admin", "a/b/c@EXAMPLE.COM", "a@b@EXAMPLE.COM", "/x@EXAMPLE.COM",
      "", "a b@EXAMPLE.COM", "\u00c4da@EXAMPLE.COM", "o'neil@EXAMPLE.COM", "a/b/c", "@EXAMPLE.COM",
    };
    List<String> out = new ArrayList<>();
    for (String mechanism : new String[] {"hadoop", "mit"}) {
      KerberosName.setRuleMechanism(mechanism);
      for (String rule : rules) {
        for (String name : names) {
          String result;
          try {
            KerberosName.setRules(rule);
            try {
              result = "=" + new KerberosName(name).getShortName();
            } catch (KerberosName.NoMatchingRule none) {
              result = "none";
            } catch (IllegalArgumentException | IndexOutOfBoundsException malformed) {
              result = "malformed";
            }
          } catch (Exception invalid) {
            result = "invalid";
          }
          out.add(mechanism + "\t" + rule.replace("\\", "\\\\").replace("\n", "\\n") + "\t" + name + "\t" + result);
        }
      }
    }
    return out;
  }

  static List<String> proxy() throws Exception {
    String[][] settings = {
      {"oozie.users", "ada, bob"}, {"oozie.groups", "staff,ops"}, {"oozie.hosts", "10.0.0.1, 10.1.0.0/16,fd12::1,127.0.0.1"},
      {"any.users", "*"}, {"any.hosts", "*"},
      {"groups.groups", "*"}, {"groups.hosts", "192.168.1.1"},
      {"nohosts.users", "*"},
      {"nousers.hosts", "*"},
      {"empty.users", ""}, {"empty.groups", ""}, {"empty.hosts", ""},
      {"star.users", "ada,*"}, {"star.hosts", "10.0.0.1,*"},
      {"a.b.users", "ada"}, {"a.b.hosts", "10.0.0.1"},
      {"space.users", " ada , bob "}, {"space.hosts", " 10.0.0.1 "},
    };
    Configuration conf = new Configuration(false);
    List<String> out = new ArrayList<>();
    for (String[] setting : settings) {
      conf.set("hadoop.proxyuser." + setting[0], setting[1]);
      out.add("set\thadoop.proxyuser." + setting[0] + "\t" + setting[1]);
    }
    DefaultImpersonationProvider provider = new DefaultImpersonationProvider();
    provider.setConf(conf);
    provider.init("hadoop.proxyuser");
    String[] reals = {"oozie", "any", "groups", "nohosts", "nousers", "empty", "star", "a.b", "space", "unknown"};
    String[][] users = {{"ada", "x"}, {"bob", "staff"}, {"eve", "ops,x"}, {"eve", "x"}, {"eve", ""}};
    String[] addresses = {"10.0.0.1", "10.0.0.2", "10.1.2.3", "10.2.0.0", "192.168.1.1", "127.0.0.1", "fd12::1", "fe80::1"};
    for (String real : reals) {
      for (String[] user : users) {
        for (String address : addresses) {
          UserGroupInformation ugi = UserGroupInformation.createProxyUserForTesting(user[0],
              UserGroupInformation.createRemoteUser(real), user[1].isEmpty() ? new String[0] : user[1].split(","));
          String result = "allowed";
          try {
            provider.authorize(ugi, InetAddress.getByName(address));
          } catch (Exception refused) {
            result = refused.getMessage();
          }
          out.add("ask\t" + real + "\t" + user[0] + "\t" + user[1] + "\t" + address + "\t" + result);
        }
      }
    }
    return out;
  }

  // ---- The handshake of data transfer, both ends Hadoop's ---------------------------------------------------------

  static class Tap extends FilterOutputStream {
    final ByteArrayOutputStream seen;

    Tap(OutputStream out, ByteArrayOutputStream seen) {
      super(out);
      this.seen = seen;
    }

    @Override public void write(int b) throws IOException {
      out.write(b);
      seen.write(b);
    }

    @Override public void write(byte[] bytes, int off, int len) throws IOException {
      out.write(bytes, off, len);
      seen.write(bytes, off, len);
    }
  }

  static List<String> transfer() throws Exception {
    List<String> out = new ArrayList<>();
    for (String protection : new String[] {"authentication", "integrity", "privacy"})
      handshake(out, "token." + protection, protection, false, null, 0);
    for (int bits : new int[] {128, 192, 256}) handshake(out, "token.aes" + bits, "privacy", false, "AES/CTR/NoPadding", bits);
    handshake(out, "key.3des", null, true, null, 0);
    handshake(out, "key.aes128", null, true, "AES/CTR/NoPadding", 128);
    return out;
  }

  static void handshake(List<String> out, String name, String protection, boolean encrypts, String suites, int bits)
      throws Exception {
    Configuration conf = new Configuration();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.setBoolean("dfs.encrypt.data.transfer", encrypts);
    conf.setBoolean("dfs.block.access.token.enable", true);
    if (protection != null) conf.set("dfs.data.transfer.protection", protection);
    if (suites != null) {
      conf.set("dfs.encrypt.data.transfer.cipher.suites", suites);
      conf.setInt("dfs.encrypt.data.transfer.cipher.key.bitlength", bits);
    }
    UserGroupInformation.setConfiguration(conf);
    BlockTokenSecretManager manager = new BlockTokenSecretManager(36000000L, 36000000L, 0, 1, "BP-1", null, true);
    BlockPoolTokenSecretManager managers = new BlockPoolTokenSecretManager();
    managers.addBlockPool("BP-1", manager);
    ExtendedBlock block = new ExtendedBlock("BP-1", 1073741825L, 1L, 1001L);
    Token<BlockTokenIdentifier> token = manager.generateToken("ada", block,
        EnumSet.of(BlockTokenIdentifier.AccessMode.READ), new StorageType[0], new String[0]);
    DataEncryptionKey key = manager.generateDataEncryptionKey();

    ByteArrayOutputStream up = new ByteArrayOutputStream(), down = new ByteArrayOutputStream();
    try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket near = new Socket(listener.getInetAddress(), listener.getLocalPort());
        Socket far = listener.accept()) {
      Configurable node = new Configurable() {
        @Override public void setConf(Configuration c) {}
        @Override public Configuration getConf() { return conf; }
      };
      SaslDataTransferServer server = new SaslDataTransferServer(new DNConf(node), managers);
      SaslDataTransferClient client = new SaslDataTransferClient(conf, DataTransferSaslUtil.getSaslPropertiesResolver(conf),
          TrustedChannelResolver.getInstance(conf));
      DatanodeID id = new DatanodeID("127.0.0.1", "localhost", "uuid", 50010, 0, 0, 0);
      IOStreamPair[] served = new IOStreamPair[1];
      Throwable[] failed = new Throwable[1];
      Thread thread = new Thread(() -> {
        try {
          served[0] = server.receive(new BasicInetPeer(far), new Tap(far.getOutputStream(), down), far.getInputStream(), 50010, id);
        } catch (Throwable failure) {
          failed[0] = failure;
          try { far.close(); } catch (IOException ignored) { }
        }
      });
      thread.start();
      IOStreamPair pair = client.socketSend(near, new Tap(near.getOutputStream(), up), near.getInputStream(),
          () -> encrypts ? key : null, token, id);
      thread.join();
      if (failed[0] != null) throw new IllegalStateException(failed[0]);
      int upLen = up.size(), downLen = down.size();
      for (int number = 0; number < LENS.length; number++) {
        exchange(pair.out, served[0].in, message(number));
        exchange(served[0].out, pair.in, message(number));
      }
      byte[] ups = up.toByteArray(), downs = down.toByteArray();
      out.add(name + ".password " + hex(encrypts ? key.encryptionKey : token.getPassword()));
      out.add(name + ".up.handshake " + hex(Arrays.copyOf(ups, upLen)));
      out.add(name + ".down.handshake " + hex(Arrays.copyOf(downs, downLen)));
      out.add(name + ".up.stream " + hex(Arrays.copyOfRange(ups, upLen, ups.length)));
      out.add(name + ".down.stream " + hex(Arrays.copyOfRange(downs, downLen, downs.length)));
    }
  }

  static void exchange(OutputStream out, InputStream in, byte[] bytes) throws IOException {
    out.write(bytes);
    out.flush();
    byte[] got = new byte[bytes.length];
    new DataInputStream(in).readFully(got);
    if (!Arrays.equals(got, bytes)) throw new IllegalStateException("what was sent did not arrive");
  }

  // ---- RPC with a token, both ends Hadoop's ----------------------------------------------------------------------

  @ProtocolInfo(protocolName = "org.levada.Echo", protocolVersion = 1)
  @TokenInfo(Selector.class)
  public interface Echo extends VersionedProtocol {
    long versionID = 1;

    String echo(String text) throws IOException;
  }

  public static class Impl implements Echo {
    @Override public String echo(String text) { return text; }

    @Override public long getProtocolVersion(String protocol, long version) { return versionID; }

    @Override public ProtocolSignature getProtocolSignature(String protocol, long version, int hash) {
      return new ProtocolSignature(versionID, null);
    }
  }

  public static class Selector extends AbstractDelegationTokenSelector<DelegationTokenIdentifier> {
    public Selector() { super(DelegationTokenIdentifier.HDFS_DELEGATION_KIND); }
  }

  static class Secrets extends SecretManager<DelegationTokenIdentifier> {
    @Override protected byte[] createPassword(DelegationTokenIdentifier id) { return retrievePassword(id); }

    @Override public byte[] retrievePassword(DelegationTokenIdentifier id) {
      byte[] password = new byte[32];
      Arrays.fill(password, (byte) 3);
      return password;
    }

    @Override public DelegationTokenIdentifier createIdentifier() { return new DelegationTokenIdentifier(); }
  }

  static List<String> rpc() throws Exception {
    List<String> out = new ArrayList<>();
    String[][] cases = {{"auth", "authentication"}, {"auth-int", "integrity"}, {"auth-conf", "privacy"}};
    for (String[] one : cases) recorded(out, one[0], one[1]);
    return out;
  }

  static void recorded(List<String> out, String name, String protection) throws Exception {
    Configuration conf = new Configuration();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.rpc.protection", protection);
    conf.set("ipc.client.connect.max.retries", "0");
    UserGroupInformation.setConfiguration(conf);
    UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser("nn/host.example.com@EXAMPLE.COM"));
    RPC.setProtocolEngine(conf, Echo.class, WritableRpcEngine.class);
    RPC.Server server = new RPC.Builder(conf).setProtocol(Echo.class).setInstance(new Impl()).setBindAddress("127.0.0.1")
        .setPort(0).setNumHandlers(1).setSecretManager(new Secrets()).build();
    server.start();
    ByteArrayOutputStream up = new ByteArrayOutputStream(), down = new ByteArrayOutputStream();
    try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      new Thread(() -> {
        try (Socket near = listener.accept(); Socket far = new Socket("127.0.0.1", server.getPort())) {
          Thread back = new Thread(() -> pump(far, near, down));
          back.start();
          pump(near, far, up);
          back.join();
        } catch (Exception ignored) {
        }
      }).start();
      InetSocketAddress address = new InetSocketAddress("127.0.0.1", listener.getLocalPort());
      DelegationTokenIdentifier id = new DelegationTokenIdentifier(new Text("ada"), new Text("yarn"), new Text(""));
      Token<DelegationTokenIdentifier> token = new Token<>(id, new Secrets());
      SecurityUtil.setTokenService(token, address);
      UserGroupInformation user = UserGroupInformation.createRemoteUser("ada");
      user.addToken(token);
      Echo proxy = user.doAs((java.security.PrivilegedExceptionAction<Echo>) () ->
          RPC.getProxy(Echo.class, Echo.versionID, address, conf));
      if (!proxy.echo("hello").equals("hello")) throw new IllegalStateException(name);
      RPC.stopProxy(proxy);
      Thread.sleep(300);
    }
    server.stop();
    out.add(name + ".up " + hex(up.toByteArray()));
    out.add(name + ".down " + hex(down.toByteArray()));
  }

  static void pump(Socket from, Socket to, OutputStream seen) {
    byte[] buffer = new byte[65536];
    try {
      for (int len; (len = from.getInputStream().read(buffer)) > 0; ) {
        seen.write(buffer, 0, len);
        to.getOutputStream().write(buffer, 0, len);
      }
      to.shutdownOutput();
    } catch (IOException ignored) {
    }
  }
}
