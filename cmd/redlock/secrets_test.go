package main

import (
	"bytes"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
	"github.com/redlock-go/redlock/redlocktest"
)

// Servers can repeat at a login what the tool sent.
func TestNoOutputOfTheToolRepeatsAPassword(t *testing.T) {
	const secret, most = "Geheim#7 %x", 20
	nodes := redlocktest.Start(t, 2*most+1)
	for i, group := range testreply.Echoes(secret, most) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			urls := testreply.Beside(t, nodes.URLs(), group, secret)
			name, file := fmt.Sprint("name-", i), filepath.Join(t.TempDir(), "text")
			for _, args := range [][]string{
				{"doctor", "--for", "0s", "--timeout", "300ms"}, {"doctor", "--for", "0s", "--timeout", "300ms", "--json"}, {"run", "--wait", "5s", name, "--", "true"},
				{"inspect", name}, {"inspect", name, "--json"}, {"ls"}, {"ls", "--json"}, {"ask", name}, {"unlock", "--force", name},
				{"top"}, {"bench", "--for", "50ms"}, {"run", "--wait", "5s", "--transfer", file, name, "--", "true"}, {"resume", "--from", file, "--", "true"},
			} {
				var out bytes.Buffer
				var log lockedBuffer
				execute(append([]string{"--nodes", strings.Join(urls, ","), "--restart-guard", "0", "-v", "--node-timeout", "60ms"}, args...), &out, &log)
				requireSecret(t, out.String()+log.String(), secret, args)
			}
		})
	}
}

// requireSecret fails if the tool's output repeats a secret.
func requireSecret(t *testing.T, output, secret string, args []string) {
	t.Helper()
	for line := range strings.Lines(output) {
		at := max(strings.Index(line, secret), strings.Index(line, url.QueryEscape(secret)))
		if at >= 0 {
			assert.Fail(t, "the secret is shown", "%s: %s", args, line[max(0, at-300):min(len(line), at+100)])
			return
		}
	}
}

func TestTheToolDoesNotRepeatURLsInTheWrongPlace(t *testing.T) {
	const secret = "hunter2"
	for _, args := range [][]string{
		{"redis://:hunter2@host"}, {"doctor", "redis://me:hunter2@host"}, {"--ttl", "redis://me:hunter2@host", "doctor"}, {"doctor", "--ttl=redis://me:hunter2@host"},
		{"ls", "a", "redis://me:hunter2@host"}, {"completion", "redis://me:hunter2@host"}, {"--redis://me:hunter2@host"}, {"-redis://me:hunter2@host"},
		{"--nodes", "redis://me:hunter2@host:0", "doctor"}, {"--nodes", "redis://me:hunter2", "doctor"}, {"--restart-guard", "redis://me:hunter2@host", "ls"},
	} {
		var out bytes.Buffer
		var log lockedBuffer
		require.NotZero(t, execute(args, &out, &log))
		require.NotEmpty(t, log.String())
		require.NotContains(t, out.String()+log.String(), secret, "%q", args)
	}
}
