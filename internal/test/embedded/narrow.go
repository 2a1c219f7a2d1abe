package embedded

import (
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// lasting answers commands that name an instant in milliseconds, which an embedded server reads as an int. Where that
// has 32 bits, it gets the time that is left instead.
func lasting(to *server.Server, c *server.Peer, cmd string, args []string) (done bool) {
	place, instead := -1, []string(nil)
	switch {
	case strconv.IntSize > 32:
		return false
	case cmd == "PEXPIREAT" && len(args) == 2:
		place, instead = 1, append([]string{"PEXPIRE"}, args...)
	case cmd == "SET":
		for i, arg := range args[:max(len(args)-1, 0)] {
			if i >= 2 && strings.EqualFold(arg, "PXAT") {
				place, instead = i+1, append([]string{cmd}, args...)
				instead[i+1] = "PX"
			}
		}
	}
	if place < 0 {
		return false
	}
	at, err := strconv.ParseInt(args[place], 10, 64)
	if err != nil {
		return false
	}
	instead[place+1] = strconv.FormatInt(max(at-time.Now().UnixMilli(), 1), 10)
	to.Dispatch(c, instead)
	return true
}
