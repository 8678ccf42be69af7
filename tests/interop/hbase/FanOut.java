import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.io.asyncfs.AsyncFSOutput;
import org.apache.hadoop.hbase.io.asyncfs.AsyncFSOutputHelper;
import org.apache.hadoop.hbase.io.asyncfs.monitor.StreamSlowMonitor;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hbase.thirdparty.io.netty.channel.EventLoopGroup;
import org.apache.hbase.thirdparty.io.netty.channel.nio.NioEventLoopGroup;
import org.apache.hbase.thirdparty.io.netty.channel.socket.nio.NioSocketChannel;

/**
 * HBase's own writer of write-ahead logs, one file at a time: it sends every packet to all datanodes by itself.
 *
 * Arguments: the address, then settings as name=value. A request is a line, and so is the answer: "ok ..." or "error ...".
 *   create PATH          the addresses of the nodes
 *   append BASE64...     each a record of its own, flushed while those before it are still on the way; the length that is acknowledged
 *   sync BASE64          as append, and on disk
 *   close                finishes the file
 *   recover              gives the file up after an error, as HBase does before it begins the next one
 */
public final class FanOut {
  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    Configuration conf = new Configuration();
    for (int i = 1; i < args.length; i++) conf.set(args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
    FileSystem fs = FileSystem.get(URI.create(args[0]), conf);
    EventLoopGroup loops = new NioEventLoopGroup(2);
    StreamSlowMonitor monitor = StreamSlowMonitor.create(conf, "log");
    AsyncFSOutput out = null;
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      String answer = "";
      try {
        switch (words[0]) {
          case "create":
            out = AsyncFSOutputHelper.createOutput(fs, new Path(words[1]), false, true, (short) 3, 256L << 20, loops, NioSocketChannel.class, monitor, false);
            for (DatanodeInfo node : out.getPipeline()) answer += " " + node.getXferAddr();
            break;
          case "append": case "sync": {
            List<CompletableFuture<Long>> flushes = new ArrayList<>();
            for (int i = 1; i < words.length; i++) {
              out.write(Base64.getDecoder().decode(words[i]));
              flushes.add(out.flush(words[0].equals("sync")));
            }
            for (CompletableFuture<Long> flush : flushes) answer = " " + flush.get(60, TimeUnit.SECONDS);
            break;
          }
          case "close": out.close(); break;
          case "recover": answer = " " + out.getSyncedLength(); out.recoverAndClose(null); break;
          default: throw new IllegalArgumentException(words[0]);
        }
        answers.println("ok" + answer);
      } catch (Throwable e) {
        e.printStackTrace();
        answers.println("error " + e.toString().replace('\n', ' '));
      }
      answers.flush();
    }
    System.exit(0);
  }
}
