import java.io.IOException;
import java.net.ServerSocket;
import java.util.stream.IntStream;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A Levada store for tests, by Testcontainers.
 *
 * <pre>{@code
 * try (LevadaContainer store = new LevadaContainer("levada:latest")) {
 *   store.start();
 *   // As who runs the store, and may do everything there.
 *   FileSystem fs = FileSystem.get(URI.create(store.url()), new Configuration(), "levada");
 * }
 * }</pre>
 *
 * A client connects to the datanode as well, at the address that the store tells it: so ports are the same outside as in
 * the container, from a first one that is free.
 */
public class LevadaContainer extends GenericContainer<LevadaContainer> {
  /** Of one metadata server and one datanode: calls, HTTP; transfer, calls, HTTP. */
  private static final int[] OFFSETS = {0, 1, 10, 11, 12};

  private final int firstPort;

  public LevadaContainer(String image) {
    this(image, freePorts());
  }

  public LevadaContainer(String image, int firstPort) {
    super(DockerImageName.parse(image));
    this.firstPort = firstPort;
    for (int offset : OFFSETS) {
      addFixedExposedPort(firstPort + offset, firstPort + offset);
    }
    waitingFor(Wait.forLogMessage(".*Levada is ready.*\\n", 1));
  }

  @Override
  protected void configure() {
    withEnv("LEVADA_UP_PORT_BASE", Integer.toString(firstPort));
    withEnv("LEVADA_UP_ADVERTISE", getHost());
    withEnv("LEVADA_UP_DATANODES", "1");
  }

  public String url() {
    return "hdfs://" + getHost() + ":" + firstPort;
  }

  /** A port that is free on this machine, and so are those that belong to it. Another program may be quicker. */
  private static int freePorts() {
    while (true) {
      try (ServerSocket probe = new ServerSocket(0)) {
        int first = probe.getLocalPort();
        if (IntStream.of(OFFSETS).skip(1).allMatch(offset -> isFree(first + offset))) {
          return first;
        }
      } catch (IOException e) {
        throw new IllegalStateException("no port is free", e);
      }
    }
  }

  private static boolean isFree(int port) {
    try (ServerSocket probe = new ServerSocket(port)) {
      return true;
    } catch (IOException | IllegalArgumentException e) {
      return false;
    }
  }
}
