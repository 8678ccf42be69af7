// A line of JSON in, a line of JSON out: the Go client github.com/colinmarc/hdfs/v2 for the tests.
//
// {"call": "put", "local": "/tmp/a", "path": "/a", "block": 1048576} answers {"ok": ...} or {"error": text}.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/colinmarc/hdfs/v2"
)

type request struct {
	Call, Path, To, Local, Handle, Data string
	Block, Offset, Length               int64
	Replication                         int
}

// Files that stay open from one call to the next.
var (
	writers = map[string]*hdfs.FileWriter{}
	readers = map[string]*hdfs.FileReader{}
)

// A connection to a datanode that breaks when the other side is silent for so long; the client itself would wait for ever.
type impatient struct {
	net.Conn
	patience time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	c.Conn.SetReadDeadline(time.Now().Add(c.patience))
	return c.Conn.Read(b)
}

func (c impatient) SetDeadline(time.Time) error { return nil }

func dialer(patience time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return impatient{conn, patience}, nil
	}
}

// Arguments: the address, the user, and how long a datanode may be silent ("3s"); for ever when it does not say.
func main() {
	options := hdfs.ClientOptions{Addresses: []string{os.Args[1]}, User: os.Args[2]}
	if len(os.Args) > 3 {
		patience, err := time.ParseDuration(os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		options.DatanodeDialFunc = dialer(patience)
	}
	client, err := hdfs.NewClient(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		value, err := call(client, r)
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
		} else {
			answers.Encode(map[string]any{"ok": value})
		}
	}
}

func call(client *hdfs.Client, r request) (any, error) {
	switch r.Call {
	case "put":
		local, err := os.Open(r.Local)
		if err != nil {
			return nil, err
		}
		defer local.Close()
		writer, err := client.CreateFile(r.Path, r.Replication, r.Block, 0o644)
		if err != nil {
			return nil, err
		}
		n, err := io.Copy(writer, local)
		if err != nil {
			return nil, err
		}
		return n, writer.Close()
	case "append":
		writer, err := client.Append(r.Path)
		if err != nil {
			return nil, err
		}
		local, err := os.ReadFile(r.Local)
		if err != nil {
			return nil, err
		}
		n, err := writer.Write(local)
		if err != nil {
			return nil, err
		}
		return n, writer.Close()
	case "get":
		reader, err := client.Open(r.Path)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		local, err := os.Create(r.Local)
		if err != nil {
			return nil, err
		}
		defer local.Close()
		return io.Copy(local, reader)
	case "create":
		writer, err := client.CreateFile(r.Path, r.Replication, r.Block, 0o644)
		writers[r.Handle] = writer
		return nil, err
	case "write":
		data, err := base64.StdEncoding.DecodeString(r.Data)
		if err != nil {
			return nil, err
		}
		return writers[r.Handle].Write(data)
	case "flush":
		return nil, writers[r.Handle].Flush()
	case "close":
		return nil, writers[r.Handle].Close()
	case "open":
		reader, err := client.Open(r.Path)
		readers[r.Handle] = reader
		return nil, err
	case "read": // up to length bytes from the position
		data := make([]byte, r.Length)
		n, err := io.ReadFull(readers[r.Handle], data)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
		}
		return base64.StdEncoding.EncodeToString(data[:n]), err
	case "close-reader":
		return nil, readers[r.Handle].Close()
	case "pread":
		reader, err := client.Open(r.Path)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		data := make([]byte, r.Length)
		n, err := reader.ReadAt(data, r.Offset)
		if err != nil && err != io.EOF {
			return nil, err
		}
		return hex.EncodeToString(data[:n]), nil
	case "checksum":
		reader, err := client.Open(r.Path)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		sum, err := reader.Checksum()
		return hex.EncodeToString(sum), err
	case "mkdir":
		return nil, client.MkdirAll(r.Path, 0o755)
	case "remove":
		return nil, client.RemoveAll(r.Path)
	case "rename":
		return nil, client.Rename(r.Path, r.To)
	case "list":
		found, err := client.ReadDir(r.Path)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, f := range found {
			names = append(names, f.Name())
		}
		return names, nil
	case "stat":
		info, err := client.Stat(r.Path)
		if err != nil {
			return nil, err
		}
		return map[string]any{"length": info.Size(), "directory": info.IsDir(), "mode": fmt.Sprintf("%o", info.Mode().Perm())}, nil
	case "summary":
		s, err := client.GetContentSummary(r.Path)
		if err != nil {
			return nil, err
		}
		return map[string]any{"length": s.Size(), "files": s.FileCount(), "directories": s.DirectoryCount()}, nil
	}
	return nil, fmt.Errorf("no call %q", r.Call)
}
