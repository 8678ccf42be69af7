import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Runs many commands of Hadoop's `hdfs` in one JVM.
 *
 * A request is a line of base64 words: user, tool, standard input, then the command's own words. The answer is a line of
 * three: exit code, standard output, standard error (the latter two in base64). The first argument is the file system.
 */
public final class Shell {
  private static final Map<String, String> TOOLS = Map.of(
      "dfs", "org.apache.hadoop.fs.FsShell",
      "dfsadmin", "org.apache.hadoop.hdfs.tools.DFSAdmin",
      "storagepolicies", "org.apache.hadoop.hdfs.tools.StoragePolicyAdmin",
      "ec", "org.apache.hadoop.hdfs.tools.ECAdmin",
      "groups", "org.apache.hadoop.hdfs.tools.GetGroups",
      "cacheadmin", "org.apache.hadoop.hdfs.tools.CacheAdmin",
      "crypto", "org.apache.hadoop.hdfs.tools.CryptoAdmin",
      "lsSnapshottableDir", "org.apache.hadoop.hdfs.tools.snapshot.LsSnapshottableDir",
      "debug", "org.apache.hadoop.hdfs.tools.DebugAdmin");

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      List<String> words = new ArrayList<>();
      for (String word : line.split(" ", -1)) words.add(new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8));
      answers.println(run(args[0], words));
      answers.flush();
    }
    System.exit(0);
  }

  private static String run(String fs, List<String> words) throws Exception {
    UserGroupInformation user = UserGroupInformation.createRemoteUser(words.get(0));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    System.setIn(new ByteArrayInputStream(words.get(2).getBytes(StandardCharsets.UTF_8)));
    System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
    int code;
    try {
      code = user.doAs((PrivilegedExceptionAction<Integer>) () -> {
        Configuration conf = new Configuration();
        conf.set("fs.defaultFS", fs);
        String[] rest = words.subList(3, words.size()).toArray(new String[0]);
        return ToolRunner.run(conf, tool(words.get(1), conf), rest);
      });
    } catch (Throwable e) {
      // What the command's own main would print.
      System.err.println(e.getClass().getName() + ": " + e.getMessage());
      code = 255;
    } finally {
      FileSystem.closeAllForUGI(user);
    }
    System.out.flush();
    System.err.flush();
    Base64.Encoder base64 = Base64.getEncoder();
    return code + " " + base64.encodeToString(out.toByteArray()) + " " + base64.encodeToString(err.toByteArray());
  }

  private static Tool tool(String name, Configuration conf) throws Exception {
    Class<?> kind = Class.forName(TOOLS.getOrDefault(name, name));
    boolean plain = Arrays.stream(kind.getConstructors()).anyMatch(c -> c.getParameterCount() == 0);
    return (Tool) (plain ? kind.getConstructor().newInstance() : kind.getConstructor(Configuration.class).newInstance(conf));
  }
}
