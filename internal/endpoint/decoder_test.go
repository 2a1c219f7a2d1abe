package endpoint

import (
	"bytes"
	"errors"
	"io"
	"net"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

// decodeAll decodes replies until the end of the text or an error.
func decodeAll(from io.Reader) (all []any, err error) {
	all = []any{}
	for d := newDecoder(from); ; {
		var r pipe.Reply
		err := d.decode(&r)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, r.Value())
	}
}

// decodeAsRedigo does the same with redigo's reader.
func decodeAsRedigo(text []byte) (all []any, err error) {
	all = []any{}
	for c := redis.NewConn(&recorder{from: bytes.NewReader(text)}, 0, 0); ; {
		reply, err := c.Receive()
		if refusal, refused := err.(redis.Error); refused {
			reply, err = refusal, nil
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, reply)
	}
}

// All kinds of replies, in pieces of any size, are the values that redigo makes.
func TestDecoderMakesTheValuesOfRedigo(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	text := "+OK\r\n+PONG\r\n+\r\n+queued\r\n-\r\n-ERR no\r\n:0\r\n:-0\r\n:007\r\n:-12\r\n:9223372036854775807\r\n:-9223372036854775808\r\n" +
		"$0\r\n\r\n$-1\r\n$5\r\na\r\nb\n\r\n*0\r\n*-1\r\n*3\r\n:1\r\n-ERR inside\r\n*2\r\n$-1\r\n+x\r\n" +
		"$" + strconv.Itoa(len(long)) + "\r\n" + long + "\r\n+" + long[:maxLine-3] + "\r\n" +
		"*200\r\n" + strings.Repeat("$1\r\nx\r\n", 200) + strings.Repeat("*1\r\n", maxDepth) + "+deep\r\n"
	want, err := decodeAsRedigo([]byte(text))
	require.NoError(t, err)
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "in halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		got, err := decodeAll(from)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

func TestDecoderEndsAtABadReply(t *testing.T) {
	for text, says := range map[string]string{
		"*9223372036854775807\r\n":        "a length above",
		"$9223372036854775807\r\n":        "a length above",
		"$99999999999999\r\n":             "a length above",
		"*2147483647\r\n":                 "a length above",
		"*1048577\r\n":                    "more than 1048576 elements",
		"*1048575\r\n*2\r\n":              "more than 1048576 elements",
		"$67108865\r\n":                   "a length above",
		strings.Repeat("*1\r\n", 1000):    "more than 8 arrays",
		"+" + strings.Repeat("x", 1<<17):  "a line of more than 65536 bytes",
		":99999999999999999999\r\n":       "more than 64 bits",
		":9223372036854775808\r\n":        "more than 64 bits",
		":\r\n":                           "without digits",
		":-\r\n":                          "without digits",
		":1x\r\n":                         "no number",
		"$\r\n":                           "without digits",
		"$-2\r\n":                         "no number",
		"*x\r\n":                          "no number",
		"$1\r\nxyz":                       "longer than its length",
		"+OK\n":                           "CR and LF",
		"\r\n":                            `begins with '\r'`,
		"HTTP/1.1 400 Bad Request\r\n":    "begins with 'H', as no reply of a Redis server does: is this a Redis server, and does it speak TLS?",
		"\x15\x03\x01\x00\x02\x02\x46":    "does it speak TLS?",
		"_\r\n":                           "begins with '_'", // of RESP3, which no client of this library asks for
		"secret-of-the-client":            "begins with 's'",
		"*1\r\n*3\r\n:1\r\n:2\r\nhunter2": "begins with 'h'",
	} {
		_, err := decodeAll(strings.NewReader(text))
		bad := new(BadReplyError)
		require.ErrorAs(t, err, &bad, "%.20q", text)
		require.ErrorContains(t, err, says, "%.20q", text)
		require.NotContains(t, err.Error(), "hunter2")
	}
	for _, text := range []string{"+OK", "$5\r\nab", "$70000\r\nab", "*2\r\n:1\r\n", "$2\r\nab", "$2\r\nab\r", "$"} {
		_, err := decodeAll(strings.NewReader(text))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", text)
	}
}

// What a reply announces costs nothing before it comes.
func TestDecoderMakesNoRoomForWhatHasNotCome(t *testing.T) {
	for _, text := range []string{"$67108864\r\n", "*1048576\r\n", strings.Repeat("*131072\r\n", 8), "*1048576\r\n$67108864\r\n"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeAll(strings.NewReader(text))
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<10), "%q", text)
	}
}

// endless is a server that sends one text again and again.
type endless struct {
	net.Conn
	text string
	sent int // bytes
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[(e.sent+i)%len(e.text)]
	}
	e.sent += len(p)
	return len(p), nil
}

func (*endless) Write(p []byte) (int, error) { return len(p), nil }
func (*endless) Close() error                { return nil }

func TestConnEndsAfterABoundedPartOfAReply(t *testing.T) {
	for text, most := range map[string]int{
		"+":              2 * maxLine,
		"*1\r\n":         bufferSize,
		"$1000000\r\n":   2 << 20,
		"*1000000\r\n":   bufferSize,
		"*9\r\n+xyz\r\n": 32 << 20,
	} {
		server := &endless{text: text}
		c := newConn(server)
		require.NoError(t, c.Send("PING"))
		require.NoError(t, c.Flush())
		_, err := c.Receive()
		require.Error(t, err, text)
		require.Error(t, c.Err(), text)
		require.LessOrEqual(t, server.sent, most, text)
	}
}

// Nobody waits for the end of a reply that was not asked for, so none may begin.
func TestConnEndsAtDataThatWasNotAskedFor(t *testing.T) {
	server := &endless{text: "x"}
	c := newConn(server)
	_, err := c.Receive()
	require.ErrorContains(t, err, "data that was not asked for")
	require.LessOrEqual(t, server.sent, bufferSize)

	c = newConn(&recorder{from: strings.NewReader("+OK\r\n+O")}) // the second one has begun
	require.NoError(t, c.Send("PING"))
	reply, err := c.Receive()
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	_, err = c.Receive()
	require.ErrorContains(t, err, "data that was not asked for")

	c = newConn(&recorder{from: strings.NewReader(strings.Repeat("*3\r\n+message\r\n+a\r\n+b\r\n", 3))})
	require.NoError(t, c.Send("SUBSCRIBE", "a"))
	for range 3 {
		_, err = c.Receive()
		require.NoError(t, err, "a subscription's messages come without being asked for")
	}
}

var longNumber = regexp.MustCompile(`[0-9]{5}`)

// A reply is the value that redigo's reader makes of it, or an error, in pieces of any size. Where redigo's reader
// makes a value and the decoder does not, the reply exceeds a bound.
func FuzzDecoder(f *testing.F) {
	for _, text := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "$3\r\nabc\r\n", "*2\r\n$-1\r\n*-1\r\n", "*9223372036854775807\r\n", "$99999999999999\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nid\r\n", strings.Repeat("*1\r\n", 12) + ":1\r\n", "+" + strings.Repeat("x", 5000) + "\r\n:1\r\n",
	} {
		f.Add([]byte(text), byte(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, size byte) {
		got, err := decodeAll(&pieces{text, int(size)%64 + 1})
		if err != nil && (longNumber.Match(text) || bytes.Count(text, []byte{'*'}) > 1000) {
			return // redigo's reader makes room for what it reads, and a crash is no result
		}
		want, theirs := decodeAsRedigo(text)
		switch {
		case err == nil && theirs != nil:
			t.Fatalf("%q: redigo's reader fails: %v", text, theirs)
		case err != nil && len(want) > len(got):
			bounded := new(BadReplyError)
			if !errors.As(err, &bounded) || !strings.Contains(err.Error(), "more than") {
				t.Fatalf("%q is a reply, but: %v", text, err)
			}
		}
		if err != nil { // what came before is the same
			both := min(len(got), len(want))
			got, want = got[:both], want[:both]
		}
		require.Equal(t, want, got, "%q", text)
	})
}

// pieces is a text that comes in pieces of so many bytes.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// deadlined is a server to a connection that sets deadlines.
type deadlined struct{ endless }

func (*deadlined) SetReadDeadline(time.Time) error { return nil }

func BenchmarkReceive(b *testing.B) {
	for name, text := range map[string]string{"integer": ":12345\r\n", "status": "+OK\r\n", "array": "*3\r\n:1\r\n:2\r\n$22\r\n0123456789012345678901\r\n"} {
		for _, c := range []struct {
			reader string
			conn   redis.Conn
		}{{"decoder", newConn(&endless{text: text})}, {"redigo", redis.NewConn(&deadlined{endless{text: text}}, 0, 0)}} {
			b.Run(name+"/"+c.reader, func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if own, is := c.conn.(*conn); is {
						own.sent.Add(1)
					}
					if _, err := redis.ReceiveWithTimeout(c.conn, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
