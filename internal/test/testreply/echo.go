package testreply

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Echo is a server that repeats a secret. It answers one command with a reply of its own, as it is on the
// wire, and passes all others on to a server that works. It accepts every login, unless that is the command.
type Echo struct {
	Backend string // host:port of the server that works
	Command string // the first word of the command
	Reply   string // what it answers
}

// Start listens until the test is over, and returns the address.
func (e *Echo) Start(t testing.TB) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex // protects what follows
	var open []io.Closer
	over := false
	keep := func(c io.Closer) bool {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			open = append(open, c)
		}
		return !over
	}
	all.Go(func() { // ends with the test
		for {
			socket, err := l.Accept()
			if err != nil {
				return
			}
			backend, err := redis.Dial("tcp", e.Backend)
			if err != nil || !keep(socket) || !keep(backend) {
				_ = socket.Close()
				continue
			}
			all.Go(func() {
				defer backend.Close()
				defer socket.Close()
				e.serve(socket, backend)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		over = true
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}

// serve answers the commands of one connection until it ends.
func (e *Echo) serve(socket io.ReadWriter, backend redis.Conn) {
	from := bufio.NewReader(socket)
	for {
		words, err := readCommand(from)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch command := strings.ToUpper(words[0]); command {
		case e.Command:
			reply = e.Reply
		case "AUTH":
		case "SUBSCRIBE":
			reply = fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
		default:
			args := make([]any, len(words)-1)
			for i, word := range words[1:] {
				args[i] = word
			}
			value, err := backend.Do(command, args...)
			if refusal, is := err.(redis.Error); is {
				value = refusal
			} else if err != nil {
				return
			}
			reply = string(Encode(nil, value))
		}
		if _, err := io.WriteString(socket, reply); err != nil {
			return
		}
	}
}

// readCommand reads a command as clients send it: an array of texts.
func readCommand(from *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := from.ReadString('\n')
		if err != nil || len(line) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := number()
	if err != nil || n < 1 {
		return nil, io.ErrUnexpectedEOF
	}
	words := make([]string, n)
	for i := range words {
		length, err := number()
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(from, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

// Encode appends a reply as it is on the wire.
func Encode(to []byte, reply any) []byte {
	switch reply := reply.(type) {
	case int64:
		return fmt.Appendf(to, ":%d\r\n", reply)
	case string:
		return fmt.Appendf(to, "+%s\r\n", reply)
	case []byte:
		return fmt.Appendf(to, "$%d\r\n%s\r\n", len(reply), reply)
	case redis.Error:
		return fmt.Appendf(to, "-%s\r\n", string(reply))
	case []any:
		to = fmt.Appendf(to, "*%d\r\n", len(reply))
		for _, part := range reply {
			to = Encode(to, part)
		}
		return to
	}
	return append(to, "$-1\r\n"...)
}

// Echoes returns servers that repeat a secret when it is sent with AUTH, at most so many of them in a group, for backends
// that are still to be set: errors with the secret at each place, a status, a number, a text, arrays of these, and what is
// no reply at all.
func Echoes(secret string, most int) (groups [][]*Echo) {
	replies := []string{secret + "\r\n", ":" + secret + "\r\n"}
	for _, text := range []string{"%s", "ERR unknown command 'X', with args beginning with: 'user' '%s' ", "NOPERM %s", "LOADING %s", "READONLY %s", "OOM %s",
		"%s is not known", "ERR-%s", "ERR invalid password %s", "ERR AUTH %s called", "ERR Client sent AUTH %s", "WRONGPASS %s",
		"WRONGPASS:%s no", "NOAUTH %s", "DENIED %s", "ERR max number of clients reached %s", "MOVED 1 %s:6379"} {
		replies = append(replies, "-"+fmt.Sprintf(text, secret)+"\r\n")
	}
	for _, reply := range []any{secret, []byte(secret), []any{redis.Error("ERR " + secret)}, []any{secret, secret}, []any{[]byte(secret), int64(1)}} {
		replies = append(replies, string(Encode(nil, reply)))
	}
	var all []*Echo
	for _, reply := range replies {
		all = append(all, &Echo{Command: "AUTH", Reply: reply})
	}
	return slices.Collect(slices.Chunk(all, most))
}

// Beside starts each of the servers in front of one that works. It returns their URLs, whose password is the
// secret, and then those of other servers that work, which are one more.
func Beside(t testing.TB, working []string, echoes []*Echo, secret string) (urls []string) {
	for i, raw := range working[:2*len(echoes)+1] {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if i < len(echoes) {
			echoes[i].Backend = u.Host
			u.Host = echoes[i].Start(t)
			u.User = url.UserPassword("me", secret)
		}
		u.Path = "/1"
		urls = append(urls, u.String())
	}
	return urls
}
