import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;

/** Gets, renews and cancels delegation tokens in a file, as whoever has a ticket: what YARN and `hdfs fetchdt` do. */
public final class Tokens {
  public static void main(String[] words) throws Exception {
    String what = words[0];
    Configuration conf = new Configuration();
    conf.set(FileSystem.FS_DEFAULT_NAME_KEY, words[1]);
    UserGroupInformation.setConfiguration(conf);
    File file = new File(words[2]);
    try {
      if (what.equals("get")) {
        Token<?> token = FileSystem.get(conf).getDelegationToken("yarn");
        Credentials credentials = new Credentials();
        credentials.addToken(token.getService(), token);
        credentials.writeTokenStorageFile(new Path(file.toURI()), conf);
        return;
      }
      for (Token<?> token : Credentials.readTokenStorageFile(file, conf).getAllTokens()) {
        if (what.equals("renew")) {
          System.out.println(token.renew(conf));
        } else {
          token.cancel(conf);
        }
      }
    } catch (Exception error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
