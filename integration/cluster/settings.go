package cluster

import (
	"fmt"
	"strings"
)

// The harness has a user of its own at every server, so that tests may restrict the default
// user.
const adminName, adminPassword = "harness", "harness-password"

// settings are what a server's configuration depends on.
type settings struct {
	bind  string
	port  string
	dir   string
	rdb   string   // the file that SAVE writes and the next start loads
	extra []string // further lines of redis.conf
}

func (s settings) String() string {
	lines := []string{
		"bind " + s.bind,
		"port " + s.port,
		"dir " + s.dir,
		"dbfilename " + s.rdb,
		"protected-mode no",
		"daemonize no",
		`save ""`,
		"appendonly no",
		"rdbcompression no",
		"loglevel warning",
		fmt.Sprintf("user %s on >%s ~* &* +@all", adminName, adminPassword),
		"user default " + openRights,
	}
	return strings.Join(append(lines, s.extra...), "\n") + "\n"
}

// openRights are the rights of the default user at a server without a password.
const openRights = "on nopass ~* &* +@all"
