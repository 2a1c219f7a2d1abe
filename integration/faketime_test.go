package integration

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timeReply is the answer to TIME: seconds and microseconds.
var timeReply = regexp.MustCompile(`^\*2\r\n\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n$`)

// fakeTime returns the address of a server whose clock is ahead by the result of ahead, some
// time after now. It is a proxy that changes the answers to TIME.
func fakeTime(t *testing.T, target string, ahead func(passed time.Duration) time.Duration) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	begun := time.Now()
	var conns []net.Conn
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			conns = append(conns, client, server)
			go func() { _, _ = io.Copy(server, client) }()
			go rewriteTime(client, server, func() time.Duration { return ahead(time.Since(begun)) })
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-over
		for _, c := range conns {
			c.Close()
		}
	})
	return ln.Addr().String()
}

// rewriteTime passes answers on. The client awaits each before it asks again, so an answer
// as short as TIME's comes in one piece.
func rewriteTime(client io.Writer, server io.Reader, ahead func() time.Duration) {
	for piece := make([]byte, 64<<10); ; {
		n, err := server.Read(piece)
		if err != nil {
			return
		}
		answer := piece[:n]
		if m := timeReply.FindSubmatch(answer); m != nil {
			seconds, _ := strconv.ParseInt(string(m[1]), 10, 64)
			micros, _ := strconv.ParseInt(string(m[2]), 10, 64)
			at := time.Unix(seconds, micros*1000).Add(ahead())
			s, us := strconv.FormatInt(at.Unix(), 10), strconv.Itoa(at.Nanosecond()/1000)
			answer = fmt.Appendf(nil, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(s), s, len(us), us)
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}
