package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// simRefusals are the errors of a script of ours that are no mistake of it: a node refused what
// it called, or does not know it.
var simRefusals = []string{"MISCONF", "OOM", "BUSY", "NOSCRIPT"}

// noteScript records a script of ours that failed at a node, other than by a refusal.
func noteScript(h *simHistory, node int, args []string, reply any) {
	failed, is := reply.(redis.Error)
	if !is || len(args) < 2 || !strings.HasPrefix(args[0], "EVAL") {
		return
	}
	for _, refusal := range simRefusals {
		if strings.Contains(string(failed), refusal) {
			return
		}
	}
	text := fmt.Sprintf("the script %s fails at node %d: %s", scriptName(args[1]), node, failed)
	h.note("WRONG: %s", text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.brokenScripts = append(h.brokenScripts, text)
}

// asText returns a command that calls a script by its hash as the one that sends its text.
func asText(args []string) []string {
	if args[0] != "EVALSHA" {
		return args
	}
	for _, s := range protocol.All {
		if args[1] == s.SHA() {
			return append([]string{"EVAL", s.Text().(string)}, args[2:]...)
		}
	}
	return args
}

// scriptName returns the name of a script, of which a command has the text or its hash.
func scriptName(script string) string {
	for _, s := range protocol.All {
		if script == s.SHA() || script == s.Text() {
			return s.Name
		}
	}
	return script
}

func TestScriptThatFailsIsAViolation(t *testing.T) {
	h := &simHistory{now: func() time.Duration { return 0 }}
	for _, refusal := range simRefusals {
		noteScript(h, 0, []string{"EVALSHA", protocol.Release.SHA().(string)}, redis.Error("ERR script:3: "+refusal+" …"))
	}
	noteScript(h, 0, []string{"GET", "key"}, redis.Error("ERR"))
	require.Empty(t, h.brokenScripts)
	noteScript(h, 3, []string{"EVALSHA", protocol.Release.SHA().(string)}, redis.Error("ERR script:3: attempt to call a nil value"))
	require.Equal(t, []string{"the script release fails at node 3: ERR script:3: attempt to call a nil value"}, h.brokenScripts)
}
