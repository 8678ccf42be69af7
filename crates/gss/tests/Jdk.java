// One end of SASL GSSAPI by the JDK, as Hadoop uses it. Lines of hex come in and go out.
//
//   java -Djava.security.krb5.conf=FILE Jdk.java client|server PRINCIPAL KEYTAB SERVICE HOST QOP
//
// While the exchange lasts, each line is a token. After "done QOP NAME" a line "wrap HEX" or "unwrap HEX" is answered by
// the other form of it.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.Map;
import javax.security.auth.Subject;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.login.LoginContext;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslServer;

public class Jdk {
    static final HexFormat HEX = HexFormat.of();
    static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] args) throws Exception {
        boolean isClient = args[0].equals("client");
        Subject subject = login(isClient, args[1], args[2]);
        String service = args[3], host = args[4];
        Map<String, String> settings = Map.of(Sasl.QOP, args[5], Sasl.SERVER_AUTH, "true");
        Subject.doAs(subject, (java.security.PrivilegedExceptionAction<Void>) () -> {
            if (isClient) {
                client(Sasl.createSaslClient(new String[] {"GSSAPI"}, null, service, host, settings, null));
            } else {
                server(Sasl.createSaslServer("GSSAPI", service, host, settings, Jdk::authorize));
            }
            return null;
        });
    }

    static Subject login(boolean isClient, String principal, String keytab) throws Exception {
        Map<String, String> options = Map.of("useKeyTab", "true", "storeKey", "true", "doNotPrompt", "true", "refreshKrb5Config", "true",
            "principal", principal, "keyTab", keytab, "isInitiator", String.valueOf(isClient));
        String module = "com.sun.security.auth.module.Krb5LoginModule";
        AppConfigurationEntry entry = new AppConfigurationEntry(module, AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
        LoginContext context = new LoginContext("x", null, null, new Configuration() {
            @Override
            public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
                return new AppConfigurationEntry[] {entry};
            }
        });
        context.login();
        return context.getSubject();
    }

    static void authorize(Callback[] callbacks) {
        for (Callback callback : callbacks) {
            if (callback instanceof AuthorizeCallback asked) {
                asked.setAuthorized(asked.getAuthenticationID().equals(asked.getAuthorizationID()));
            }
        }
    }

    interface Form {
        byte[] of(byte[] bytes, int from, int len) throws Exception;
    }

    static void say(byte[] token) {
        System.out.println(HEX.formatHex(token == null ? new byte[0] : token));
    }

    static void client(SaslClient client) throws Exception {
        say(client.evaluateChallenge(new byte[0]));
        while (!client.isComplete()) {
            say(client.evaluateChallenge(HEX.parseHex(IN.readLine())));
        }
        String qop = (String) client.getNegotiatedProperty(Sasl.QOP);
        System.out.println("done " + qop + " -");
        serve(client::wrap, client::unwrap);
    }

    static void server(SaslServer server) throws Exception {
        System.out.println("ready");
        while (!server.isComplete()) {
            byte[] token = server.evaluateResponse(HEX.parseHex(IN.readLine()));
            if (!server.isComplete()) {
                say(token);
            }
        }
        System.out.println("done " + server.getNegotiatedProperty(Sasl.QOP) + " " + server.getAuthorizationID());
        serve(server::wrap, server::unwrap);
    }

    static void serve(Form wrap, Form unwrap) throws Exception {
        for (String line; (line = IN.readLine()) != null; ) {
            String[] words = line.split(" ");
            byte[] bytes = HEX.parseHex(words.length > 1 ? words[1] : "");
            try {
                say((words[0].equals("wrap") ? wrap : unwrap).of(bytes, 0, bytes.length));
            } catch (Exception error) {
                System.out.println("error " + error);
            }
        }
    }
}
