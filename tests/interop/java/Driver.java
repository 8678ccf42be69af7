import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.PartialListing;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hadoop.util.DataChecksum;

/**
 * One long-lived JVM in which the tests call Hadoop's FileSystem API.
 *
 * A request is a line of JSON: {"id": 7, "call": "stat", "fs": "a", ...}; the answer is a line
 * {"id": 7, "ok": value} or {"id": 7, "error": class, "message": text}. Requests run concurrently, so
 * that a test can have one call wait while another goes on. File contents travel by local files.
 */
public final class Driver {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, FileSystem> SYSTEMS = new ConcurrentHashMap<>();
  private static final Map<String, FSDataOutputStream> WRITERS = new ConcurrentHashMap<>();
  private static final Map<String, FSDataInputStream> READERS = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    ExecutorService pool = Executors.newCachedThreadPool(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      Map<?, ?> request = JSON.readValue(line, Map.class);
      pool.execute(() -> {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.get("id"));
        try {
          answer.put("ok", call(new Ask(request)));
        } catch (Throwable e) {
          // What the server named, where the client did not turn it into a class of its own.
          answer.put("error", e instanceof RemoteException r ? r.getClassName() : e.getClass().getName());
          answer.put("message", String.valueOf(e.getMessage()));
        }
        try {
          byte[] bytes = (JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8);
          synchronized (out) { out.write(bytes); out.flush(); }
        } catch (IOException e) {
          System.exit(3);
        }
      });
    }
    System.exit(0);
  }

  /** The arguments of one request, by name. */
  private record Ask(Map<?, ?> of) {
    String text(String name) {
      Object v = of.get(name);
      if (v == null) throw new IllegalArgumentException("no " + name);
      return v.toString();
    }
    String text(String name, String otherwise) { return of.get(name) == null ? otherwise : of.get(name).toString(); }
    long number(String name) { return Long.parseLong(text(name)); }
    long number(String name, long otherwise) { return of.get(name) == null ? otherwise : number(name); }
    boolean flag(String name) { return Boolean.parseBoolean(text(name, "false")); }
    boolean has(String name) { return of.get(name) != null; }
    Path path(String name) { return new Path(text(name)); }
    List<?> list(String name) { return of.get(name) == null ? List.of() : (List<?>) of.get(name); }
    FileSystem fs() { return SYSTEMS.get(text("fs")); }
    DistributedFileSystem dfs() { return (DistributedFileSystem) fs(); }
    FSDataOutputStream writer() { return WRITERS.get(text("handle")); }
    FSDataInputStream reader() { return READERS.get(text("handle")); }
  }

  private static Object call(Ask a) throws Exception {
    switch (a.text("call")) {
      case "mount": { // a FileSystem object of its own: user and configuration
        Configuration conf = new Configuration();
        for (Map.Entry<?, ?> e : ((Map<?, ?>) a.of().get("conf")).entrySet()) conf.set(e.getKey().toString(), e.getValue().toString());
        SYSTEMS.put(a.text("fs"), FileSystem.newInstance(URI.create(a.text("url")), conf, a.text("user")));
        return null;
      }
      case "unmount": { FileSystem fs = SYSTEMS.remove(a.text("fs")); if (fs != null) fs.close(); return null; }

      // --- the namespace
      case "mkdirs": return a.has("mode") ? a.fs().mkdirs(a.path("path"), permission(a)) : a.fs().mkdirs(a.path("path"));
      case "mkdir": a.dfs().mkdir(a.path("path"), a.has("mode") ? permission(a) : FsPermission.getDirDefault()); return null;
      case "rename": return a.fs().rename(a.path("from"), a.path("to"));
      case "rename2": renameTwo(a); return null;
      case "delete": return a.fs().delete(a.path("path"), a.flag("recursive"));
      case "exists": return a.fs().exists(a.path("path"));
      case "stat": return status(a.fs().getFileStatus(a.path("path")));
      case "list": {
        List<Object> all = new ArrayList<>();
        for (FileStatus s : a.fs().listStatus(a.path("path"))) all.add(status(s));
        return all;
      }
      case "list-located": { // pages of the server, with locations
        List<Object> all = new ArrayList<>();
        for (RemoteIterator<LocatedFileStatus> i = a.fs().listLocatedStatus(a.path("path")); i.hasNext(); ) {
          LocatedFileStatus s = i.next();
          Map<String, Object> m = status(s);
          m.put("blocks", blocks(s.getBlockLocations()));
          all.add(m);
        }
        return all;
      }
      case "list-batched": { // several paths at once; each that cannot be listed says why
        List<Path> paths = new ArrayList<>();
        for (Object path : a.list("paths")) paths.add(new Path(path.toString()));
        return a.flag("located") ? pages(a.dfs().batchedListLocatedStatusIterator(paths)) : pages(a.dfs().batchedListStatusIterator(paths));
      }
      case "glob": {
        List<String> all = new ArrayList<>();
        FileStatus[] found = a.fs().globStatus(a.path("path"));
        if (found != null) for (FileStatus s : found) all.add(s.getPath().toUri().getPath());
        return all;
      }
      case "set-permission": a.fs().setPermission(a.path("path"), permission(a)); return null;
      case "set-owner": a.fs().setOwner(a.path("path"), a.text("owner", null), a.text("group", null)); return null;
      case "set-times": a.fs().setTimes(a.path("path"), a.number("modified"), a.number("accessed")); return null;
      case "set-replication": return a.fs().setReplication(a.path("path"), (short) a.number("replication"));
      case "set-quota": a.dfs().setQuota(a.path("path"), a.number("names"), a.number("space")); return null;
      case "access": a.fs().access(a.path("path"), FsAction.getFsAction(a.text("mode"))); return null;
      case "summary": {
        ContentSummary s = a.fs().getContentSummary(a.path("path"));
        return Map.of("length", s.getLength(), "files", s.getFileCount(), "directories", s.getDirectoryCount(), "consumed", s.getSpaceConsumed());
      }
      case "df": { FsStatus s = a.fs().getStatus(); return Map.of("capacity", s.getCapacity(), "used", s.getUsed(), "remaining", s.getRemaining()); }
      case "blocks": return blocks(a.fs().getFileBlockLocations(a.path("path"), a.number("offset", 0), a.number("length", Long.MAX_VALUE)));
      case "checksum": {
        FileChecksum c = a.fs().getFileChecksum(a.path("path"));
        return c == null ? null : c.getAlgorithmName() + " " + hex(Arrays.copyOf(c.getBytes(), c.getLength()));
      }
      case "truncate": return a.fs().truncate(a.path("path"), a.number("length"));
      case "concat": {
        List<Path> from = new ArrayList<>();
        for (Object p : a.list("from")) from.add(new Path(p.toString()));
        a.fs().concat(a.path("path"), from.toArray(new Path[0]));
        return null;
      }
      case "recover-lease": return a.dfs().recoverLease(a.path("path"));
      case "is-closed": return a.dfs().isFileClosed(a.path("path"));
      case "datanodes": return a.dfs().getDataNodeStats().length;

      // --- whole files
      case "put": { // a local file, as `hdfs dfs -put` copies
        try (InputStream in = new FileInputStream(a.text("local")); OutputStream out = create(a)) {
          return copy(in, out, (int) a.number("buffer", 65536));
        }
      }
      case "get": {
        try (InputStream in = a.fs().open(a.path("path")); OutputStream out = new FileOutputStream(a.text("local"))) {
          return copy(in, out, (int) a.number("buffer", 65536));
        }
      }
      case "drain": { // read and throw away; for benchmarks
        try (InputStream in = a.fs().open(a.path("path"))) { return copy(in, OutputStream.nullOutputStream(), 1 << 20); }
      }

      // --- streams
      case "create": WRITERS.put(a.text("handle"), create(a)); return null;
      case "append": WRITERS.put(a.text("handle"), a.flag("new_block") ? a.dfs().append(a.path("path"), EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK), 4096, null) : a.fs().append(a.path("path"))); return null;
      case "write": {
        if (a.has("local")) {
          try (InputStream in = new FileInputStream(a.text("local"))) {
            in.skipNBytes(a.number("skip", 0));
            byte[] all = in.readNBytes((int) a.number("length", Integer.MAX_VALUE));
            a.writer().write(all);
            return all.length;
          }
        }
        byte[] data = Base64.getDecoder().decode(a.text("data"));
        a.writer().write(data);
        return data.length;
      }
      case "hflush": a.writer().hflush(); return null;
      case "hsync": a.writer().hsync(); return null;
      case "hsync-length": ((HdfsDataOutputStream) a.writer()).hsync(EnumSet.of(HdfsDataOutputStream.SyncFlag.UPDATE_LENGTH)); return null;
      case "replicas": return ((HdfsDataOutputStream) a.writer()).getCurrentBlockReplication();
      case "close-writer": WRITERS.remove(a.text("handle")).close(); return null;
      case "abandon-writer": // what a killed process leaves: sockets closed, lease not given back
        WRITERS.remove(a.text("handle"));
        return null;
      case "open": READERS.put(a.text("handle"), a.fs().open(a.path("path"))); return null;
      case "visible": return ((HdfsDataInputStream) a.reader()).getVisibleLength();
      case "seek": a.reader().seek(a.number("offset")); return null;
      case "tell": return a.reader().getPos();
      case "read": { // up to length bytes from the position
        byte[] data = a.reader().readNBytes((int) a.number("length"));
        return Base64.getEncoder().encodeToString(data);
      }
      case "pread": {
        byte[] data = new byte[(int) a.number("length")];
        int n = 0;
        for (int r; n < data.length && (r = a.reader().read(a.number("offset") + n, data, n, data.length - n)) > 0; ) n += r;
        byte[] cut = new byte[n];
        System.arraycopy(data, 0, cut, 0, n);
        return Base64.getEncoder().encodeToString(cut);
      }
      case "close-reader": READERS.remove(a.text("handle")).close(); return null;

      // --- many small files, for benchmarks: each thread has a FileSystem (a connection) of its own
      case "small-write": return small(a, Driver::writeSmall);
      case "small-verify": return small(a, Driver::verifySmall);

      case "cpu": return ProcessHandle.current().info().totalCpuDuration().get().toNanos() / 1e9;
      default: throw new IllegalArgumentException("no call " + a.text("call"));
    }
  }

  private static <T extends FileStatus> List<Object> pages(RemoteIterator<PartialListing<T>> pages) throws IOException {
    List<Object> all = new ArrayList<>();
    while (pages.hasNext()) {
      PartialListing<T> page = pages.next();
      Map<String, Object> m = new LinkedHashMap<>();
      m.put("path", page.getListedPath().toUri().getPath());
      List<Object> entries = new ArrayList<>();
      try {
        for (T s : page.get()) {
          Map<String, Object> entry = status(s);
          if (s instanceof LocatedFileStatus located && located.getBlockLocations() != null) entry.put("blocks", blocks(located.getBlockLocations()));
          entries.add(entry);
        }
      } catch (IOException e) {
        m.put("error", e instanceof RemoteException r ? r.getClassName() : e.getClass().getName());
        m.put("message", String.valueOf(e.getMessage()));
      }
      m.put("entries", entries);
      all.add(m);
    }
    return all;
  }

  private interface SmallFile { void act(Ask a, FileSystem fs, Path path, byte[] data) throws IOException; }

  private static void writeSmall(Ask a, FileSystem fs, Path path, byte[] data) throws IOException {
    short replication = fs.getDefaultReplication(path);
    long block = a.number("block", fs.getDefaultBlockSize(path));
    try (OutputStream out = fs.create(path, true, 4096, replication, block)) { out.write(data); }
  }

  private static void verifySmall(Ask a, FileSystem fs, Path path, byte[] data) throws IOException {
    try (InputStream in = fs.open(path)) {
      if (!Arrays.equals(in.readAllBytes(), data)) throw new IOException(path + " is not what was written");
    }
  }

  /**
   * `files` files of `length` bytes below `path`, shared among the threads, but those of `without`; milliseconds of each.
   * A file that fails is named with the reason, and the others go on.
   */
  private static Object small(Ask a, SmallFile what) throws Exception {
    int files = (int) a.number("files"), length = (int) a.number("length");
    AtomicInteger next = new AtomicInteger();
    Map<Integer, Double> took = new ConcurrentHashMap<>();
    Map<Integer, String> failed = new ConcurrentHashMap<>();
    ExecutorService threads = Executors.newFixedThreadPool(a.list("systems").size());
    List<Future<?>> running = new ArrayList<>();
    long begun = System.nanoTime();
    for (Object system : a.list("systems")) {
      FileSystem fs = SYSTEMS.get(system.toString());
      running.add(threads.submit(() -> {
        byte[] data = new byte[length];
        for (int file; (file = next.getAndIncrement()) < files; ) {
          if (a.list("without").contains(file)) continue;
          new Random(file).nextBytes(data);
          long start = System.nanoTime();
          try {
            what.act(a, fs, new Path(a.text("path"), Integer.toString(file)), data);
            took.put(file, (System.nanoTime() - start) / 1e6);
          } catch (IOException e) {
            failed.put(file, String.valueOf(e.getMessage()).lines().findFirst().orElse(""));
          }
        }
        return null;
      }));
    }
    for (Future<?> one : running) one.get();
    double seconds = (System.nanoTime() - begun) / 1e9;
    threads.shutdown();
    return Map.of("seconds", seconds, "ms", took.values(), "failed", failed);
  }

  private static FSDataOutputStream create(Ask a) throws IOException {
    Configuration conf = a.fs().getConf();
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE);
    if (a.flag("overwrite")) flags.add(CreateFlag.OVERWRITE);
    if (a.flag("sync_block")) flags.add(CreateFlag.SYNC_BLOCK);
    Options.ChecksumOpt sums = null;
    if (a.has("checksum")) sums = new Options.ChecksumOpt(DataChecksum.Type.valueOf(a.text("checksum")), (int) a.number("chunk", 512));
    FsPermission mode = (a.has("mode") ? permission(a) : FsPermission.getFileDefault());
    mode = mode.applyUMask(FsPermission.getUMask(conf));
    short replication = (short) a.number("replication", a.fs().getDefaultReplication(a.path("path")));
    long block = a.number("block", a.fs().getDefaultBlockSize(a.path("path")));
    if (a.flag("parents_must_exist")) {
      return a.fs().createNonRecursive(a.path("path"), mode, flags, 4096, replication, block, null);
    }
    return a.fs().create(a.path("path"), mode, flags, 4096, replication, block, null, sums);
  }

  @SuppressWarnings("deprecation")
  private static void renameTwo(Ask a) throws IOException {
    Options.Rename[] how = a.flag("overwrite") ? new Options.Rename[] {Options.Rename.OVERWRITE} : new Options.Rename[] {Options.Rename.NONE};
    a.dfs().rename(a.path("from"), a.path("to"), how);
  }

  private static FsPermission permission(Ask a) { return new FsPermission((short) Integer.parseInt(a.text("mode"), 8)); }

  private static Map<String, Object> status(FileStatus s) {
    Map<String, Object> m = new LinkedHashMap<>();
    m.put("path", s.getPath().toUri().getPath());
    m.put("directory", s.isDirectory());
    m.put("length", s.getLen());
    m.put("mode", Integer.toString(s.getPermission().toShort(), 8));
    m.put("owner", s.getOwner());
    m.put("group", s.getGroup());
    m.put("modified", s.getModificationTime());
    m.put("accessed", s.getAccessTime());
    m.put("replication", s.getReplication());
    m.put("block", s.getBlockSize());
    return m;
  }

  private static List<Object> blocks(BlockLocation[] locations) throws IOException {
    List<Object> all = new ArrayList<>();
    for (BlockLocation b : locations) {
      all.add(Map.of("offset", b.getOffset(), "length", b.getLength(), "hosts", List.of(b.getHosts()), "names", List.of(b.getNames()), "racks", List.of(b.getTopologyPaths())));
    }
    return all;
  }

  private static long copy(InputStream in, OutputStream out, int size) throws IOException {
    byte[] buffer = new byte[size];
    long total = 0;
    for (int n; (n = in.read(buffer)) > 0; total += n) out.write(buffer, 0, n);
    return total;
  }

  private static String hex(byte[] bytes) {
    StringBuilder s = new StringBuilder();
    for (byte b : bytes) s.append(String.format("%02x", b));
    return s.toString();
  }
}
